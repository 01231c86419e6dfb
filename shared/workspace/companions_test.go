package workspace

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestCompanionNames(t *testing.T) {
	const id, generation = "0A4B8C1E-5f0e", "G-00_11.22aaBBccDD"
	for want, got := range map[string]string{
		"0a4b8c1e-5f0e":                            Pair(id),
		"os-boundary-0a4b8c1e-5f0e":                BoundaryService(id),
		"os-supervisor-0a4b8c1e-5f0e":              SupervisorPod(id),
		"os-sandbox-0a4b8c1e-5f0e-g001122aabbc":    SandboxSecret(id, generation),
		"os-supervisor-0a4b8c1e-5f0e-g001122aabbc": SupervisorSecret(id, generation),
		"os-pull-0a4b8c1e-5f0e-g001122aabbc-12":    PullSecret(id, generation, 12),
		"workspace-team--box":                      WorkspaceClaim("team--box"),
		"openshell-sandbox-workloads":              WorkloadFence,
		"openshell-sandbox-supervisors":            SupervisorEgress,
		"openshell-sandbox-ssh":                    SSHIngress,
		"os-sandbox-0a4b8c1e-5f0e-g00000000000":    SandboxSecret(id, "g00000000000abcde"),
		"os-sandbox-0a4b8c1e-5f0e-ab":              SandboxSecret(id, "é\u212aAB"),
	} {
		if got != want {
			t.Errorf("name %q, want %q", got, want)
		}
	}
}

// The longest id that is allowed is the longest that fits: one more would not.
func TestLongestSandboxID(t *testing.T) {
	id, generation := strings.Repeat("a", MaxSandboxID), strings.Repeat("0", 64)
	if err := CheckSandboxID(id); err != nil {
		t.Fatal(err)
	}
	longest := 0
	for _, name := range []string{BoundaryService(id), SupervisorPod(id), SandboxSecret(id, generation), SupervisorSecret(id, generation), PullSecret(id, generation, MaxPullSecrets-1)} {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%q: %v", name, problems)
		}
		longest = max(longest, len(name))
	}
	if longest != maxLabel {
		t.Errorf("the longest name has %d characters, and %d would do", longest, maxLabel)
	}
	if err := CheckSandboxID(id + "a"); err == nil || !strings.Contains(err.Error(), "at most 36") {
		t.Errorf("an id of 37: %v", err)
	}
}

func TestSandboxIDsThatCannotName(t *testing.T) {
	for _, id := range []string{"", "-", "a-", "-a", "a.b", "a_b", "a/b", "a b", "a\n", "é", "\u212aelvin", "a\x00"} {
		if err := CheckSandboxID(id); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("id %q: %v", id, err)
		}
	}
	for _, generation := range []string{"", "---", "é"} {
		if err := CheckGeneration(generation); err == nil {
			t.Errorf("generation %q is accepted", generation)
		}
	}
	if err := CheckGeneration("--7"); err != nil {
		t.Error(err)
	}
}

func FuzzCompanions(f *testing.F) {
	f.Add("0A4B8C1E-5f0e", "g00", uint16(3))
	f.Add("\u212a", "\xff", uint16(0))
	f.Fuzz(func(t *testing.T, id, generation string, n uint16) {
		index := int(n) % MaxPullSecrets
		if CheckSandboxID(id) != nil || CheckGeneration(generation) != nil {
			return
		}
		names := map[string]bool{}
		for _, name := range []string{BoundaryService(id), SupervisorPod(id), SandboxSecret(id, generation), SupervisorSecret(id, generation), PullSecret(id, generation, index)} {
			if !isLabel(name) || names[name] {
				t.Fatalf("%q is no name of its own for id %q, generation %q", name, id, generation)
			}
			names[name] = true
		}
		if len(validation.IsValidLabelValue(Pair(id))) > 0 {
			t.Fatalf("pair %q is no label value", Pair(id))
		}
	})
}
