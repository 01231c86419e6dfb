package admitted_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/admitted"
)

var update = flag.Bool("update", false, "write the golden list of reasons anew; they are in answers, metrics and audit events")

func TestTheValidPodIsAdmitted(t *testing.T) {
	got := admitted.Check(valid(), expected())
	if !got.Admitted() || got.Reason() != "" || got.Found() != "" {
		t.Fatalf("got %s", got)
	}
	for _, f := range admitted.Explain(valid(), expected()) {
		if !f.Passed || f.Found != "" {
			t.Errorf("%s: %s", f.Reason, f.Found)
		}
	}
}

// TestWhatOthersMayChange: these are not breaches.
func TestWhatOthersMayChange(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod, *admitted.Expected){
		"a level of SELinux, as OpenShift has it": func(p *corev1.Pod, _ *admitted.Expected) {
			p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c26,c5"}
			agent(p).SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c26,c5"}
		},
		"a mirrored image": func(p *corev1.Pod, _ *admitted.Expected) { agent(p).Image = "mirror.example/agent" },
		"one more gate": func(p *corev1.Pod, _ *admitted.Expected) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "kueue.x-k8s.io/admission"})
		},
		"labels":              func(p *corev1.Pod, _ *admitted.Expected) { p.Labels["team"] = "x" },
		"annotations":         func(p *corev1.Pod, _ *admitted.Expected) { annotate(p, "openshift.io/scc", "restricted-v2") },
		"one spelling":        func(p *corev1.Pod, _ *admitted.Expected) { delete(p.Annotations, "openshell.io/sandbox-id") },
		"the former spelling": func(p *corev1.Pod, _ *admitted.Expected) { delete(p.Annotations, "openshell.ai/sandbox-id") },
		"tolerations":         func(p *corev1.Pod, _ *admitted.Expected) { p.Spec.Tolerations = nil },
		"a node selector":     func(p *corev1.Pod, _ *admitted.Expected) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
		"strict groups": func(p *corev1.Pod, _ *admitted.Expected) {
			p.Spec.SecurityContext.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicyStrict)
		},
		"explicit defaults": func(p *corev1.Pod, _ *admitted.Expected) {
			s := agent(p).SecurityContext
			s.Privileged, s.ProcMount = new(false), new(corev1.DefaultProcMount)
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
			s.ReadOnlyRootFilesystem = new(true)
			p.Spec.ShareProcessNamespace = new(false)
			bootSecret(p).Optional = new(false)
			agent(p).VolumeMounts[0].MountPropagation = new(corev1.MountPropagationNone)
			annotate(p, "container.apparmor.security.beta.kubernetes.io/agent", "runtime/default")
		},
		"a probe of the network": func(p *corev1.Pod, _ *admitted.Expected) {
			agent(p).LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
		},
		"a field of the Pod": func(p *corev1.Pod, _ *admitted.Expected) {
			addEnv(agent(p), corev1.EnvVar{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}})
		},
		"no workspace to seed": func(p *corev1.Pod, _ *admitted.Expected) { p.Spec.InitContainers = p.Spec.InitContainers[:1] },
		"a command in one piece": func(p *corev1.Pod, _ *admitted.Expected) {
			agent(p).Command, agent(p).Args = append(agent(p).Command, agent(p).Args...), nil
		},
		"a claim below the run directory": func(p *corev1.Pod, _ *admitted.Expected) {
			addMount(agent(p), corev1.VolumeMount{Name: "data", MountPath: "/run/data", SubPath: "a"})
		},
		"no host gateway in it":                              func(p *corev1.Pod, _ *admitted.Expected) { p.Spec.HostAliases = nil },
		"the account's pull Secrets, where none is expected": func(p *corev1.Pod, e *admitted.Expected) { e.PullSecrets = nil },
		"no user namespace, where none is expected": func(p *corev1.Pod, e *admitted.Expected) {
			p.Spec.HostUsers, e.UserNamespace = nil, false
		},
		"no runtime class, where none is expected": func(p *corev1.Pod, e *admitted.Expected) {
			p.Spec.RuntimeClassName, e.RuntimeClass = nil, ""
		},
		"a Pod of another name": func(p *corev1.Pod, e *admitted.Expected) { p.Name, e.Name = "warm-1", "warm-1" },
		"an id in upper case": func(p *corev1.Pod, e *admitted.Expected) {
			e.ID = strings.ToUpper(id)
			p.Annotations = map[string]string{"openshell.ai/sandbox-id": e.ID}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, e := valid(), expected()
			change(pod, &e)
			if got := admitted.Check(pod, e); !got.Admitted() {
				t.Errorf("refused: %s", got)
			}
		})
	}
}

func TestBreaches(t *testing.T) {
	for _, b := range slices.Concat(breaches, wholesale) {
		t.Run(b.name, func(t *testing.T) {
			pod := valid()
			b.breaks(pod)
			got := admitted.Check(pod, expected())
			if got.Admitted() || got.Reason() != b.reason || got.Found() == "" || len(got.Found()) > 510 {
				t.Errorf("got %s (%d characters), want %s", got, len(got.Found()), b.reason)
			}
			if strings.Contains(got.Found(), "%!") {
				t.Errorf("the text is badly made: %s", got.Found())
			}
		})
	}
}

// TestEveryCheckHasABreach, so that none can be taken away unnoticed.
func TestEveryCheckHasABreach(t *testing.T) {
	tried := map[admitted.Reason]bool{admitted.ExpectationIncomplete: true}
	for _, b := range slices.Concat(breaches, wholesale) {
		tried[b.reason] = true
	}
	for _, reason := range admitted.Reasons() {
		if !tried[reason] {
			t.Errorf("nothing is tried for %s", reason)
		}
	}
}

func TestReasons(t *testing.T) {
	var text strings.Builder
	seen := map[admitted.Reason]bool{admitted.NotChecked: true}
	for _, reason := range admitted.Reasons() {
		if seen[reason] || !regexp.MustCompile(`^workload_[a-z_]{1,55}$`).MatchString(string(reason)) {
			t.Errorf("%q is there twice or no reason", reason)
		}
		seen[reason] = true
		text.WriteString(string(reason) + "\n")
	}
	golden := filepath.Join("testdata", "reasons.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the reasons are\n%s\nwant\n%s", text.String(), want)
	}
}

// TestTheEarlierCheckAnswers puts two breaches into one Pod, all pairs of them: the earlier check answers.
// The order is that of the golden list.
func TestTheEarlierCheckAnswers(t *testing.T) {
	order := map[admitted.Reason]int{}
	for i, reason := range admitted.Reasons() {
		order[reason] = i
	}
	pairs := 0
	for i, a := range breaches {
		for _, b := range breaches[i+1:] {
			if a.part == b.part {
				continue
			}
			want := a.reason
			if order[b.reason] < order[want] {
				want = b.reason
			}
			pod := valid()
			a.breaks(pod)
			b.breaks(pod)
			pairs++
			if got := admitted.Check(pod, expected()); got.Admitted() || got.Reason() != want {
				t.Errorf("%s and %s: got %s, want %s", a.name, b.name, got, want)
			}
		}
	}
	if pairs < 5_000 {
		t.Errorf("only %d pairs were tried", pairs)
	}
}

// TestNoCombinationIsAdmitted: any number of breaches, in any order.
func TestNoCombinationIsAdmitted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		pod := valid()
		parts := map[string]bool{}
		var names []string
		for range 1 + random.IntN(8) {
			b := breaches[random.IntN(len(breaches))]
			if parts[b.part] {
				continue
			}
			parts[b.part] = true
			names = append(names, b.name)
			b.breaks(pod)
		}
		got := admitted.Check(pod, expected())
		if got.Admitted() {
			t.Fatalf("%v are admitted", names)
		}
		findings := admitted.Explain(pod, expected())
		first := slices.IndexFunc(findings, func(f admitted.Finding) bool { return !f.Passed })
		if first < 0 || findings[first].Reason != got.Reason() || findings[first].Found != got.Found() {
			t.Fatalf("%v: Check says %s, and Explain something else", names, got)
		}
	}
}

func TestNothingToGoBy(t *testing.T) {
	if got := (admitted.Result{}); got.Admitted() || got.Reason() != admitted.NotChecked || got.String() == "" {
		t.Errorf("the zero result is %s", got)
	}
	if (admitted.Finding{}).Passed {
		t.Error("the zero finding passes")
	}
	for _, pod := range []*corev1.Pod{nil, {}} {
		if got := admitted.Check(pod, expected()); got.Reason() != admitted.PodMissing {
			t.Errorf("no Pod: %s", got)
		}
		if got := admitted.Explain(pod, expected()); len(got) != 1 || got[0].Passed || got[0].Reason != admitted.PodMissing {
			t.Errorf("no Pod: %v", got)
		}
	}
	if got := admitted.Check(nil, admitted.Expected{}); got.Reason() != admitted.ExpectationIncomplete {
		t.Errorf("nothing at all: %s", got)
	}
}

// TestAnIncompleteExpectationAdmitsNothing: a Pod with nothing in it must not be what nobody has described.
func TestAnIncompleteExpectationAdmitsNothing(t *testing.T) {
	for name, change := range map[string]func(*admitted.Expected){
		"nothing":           func(e *admitted.Expected) { *e = admitted.Expected{} },
		"no namespace":      func(e *admitted.Expected) { e.Namespace = "" },
		"no name":           func(e *admitted.Expected) { e.Name = "" },
		"no Sandbox name":   func(e *admitted.Expected) { e.SandboxName = "" },
		"no Sandbox uid":    func(e *admitted.Expected) { e.SandboxUID = "" },
		"no id":             func(e *admitted.Expected) { e.ID = "" },
		"an id too long":    func(e *admitted.Expected) { e.ID = id + "x" },
		"root":              func(e *admitted.Expected) { e.User = 0 },
		"the group of root": func(e *admitted.Expected) { e.Group = 0 },
		"a huge user":       func(e *admitted.Expected) { e.User = 1 << 31 },
		"no Secret":         func(e *admitted.Expected) { e.Secret = "" },
		"no account":        func(e *admitted.Expected) { e.ServiceAccount = "" },
		"a claim by a name of ours": func(e *admitted.Expected) {
			e.Claims = map[string]string{"openshell-runtime-state": "x"}
		},
	} {
		e := expected()
		change(&e)
		if got := admitted.Check(valid(), e); got.Admitted() || got.Reason() != admitted.ExpectationIncomplete {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestTheLimitsOfUserAndGroup: the lowest and the highest that a container can have.
func TestTheLimitsOfUserAndGroup(t *testing.T) {
	for _, n := range []uint32{1, 1<<31 - 1} {
		e, pod := expected(), valid()
		e.User, e.Group = n, n
		pod.Spec.SecurityContext.RunAsUser, pod.Spec.SecurityContext.RunAsGroup, pod.Spec.SecurityContext.FSGroup = new(int64(n)), new(int64(n)), new(int64(n))
		for _, c := range []*corev1.Container{boot(pod), seed(pod), agent(pod)} {
			c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = new(int64(n)), new(int64(n))
			c.Env = nil
		}
		if got := admitted.Check(pod, e); !got.Admitted() {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestNoHostGatewayIsExpected: then no alias may be there at all.
func TestNoHostGatewayIsExpected(t *testing.T) {
	e := expected()
	e.HostGatewayIP = ""
	pod := valid()
	if got := admitted.Check(pod, e); got.Reason() != admitted.HostAliases {
		t.Errorf("got %s", got)
	}
	pod.Spec.HostAliases = []corev1.HostAlias{{}}
	if got := admitted.Check(pod, e); got.Reason() != admitted.HostAliases {
		t.Errorf("an alias to nowhere: %s", got)
	}
}

// TestNoValueOfAVariableIsTold: environments may hold what their owners want kept.
func TestNoValueOfAVariableIsTold(t *testing.T) {
	pod := valid()
	addEnv(agent(pod), corev1.EnvVar{Name: "OPENSHELL_X", Value: "hunter2"})
	for _, f := range admitted.Explain(pod, expected()) {
		if strings.Contains(f.Found, "hunter2") {
			t.Errorf("%s: %s", f.Reason, f.Found)
		}
	}
}

// TestThePodIsOnlyRead, because it may be a cache's.
func TestThePodIsOnlyRead(t *testing.T) {
	for _, b := range breaches {
		pod := valid()
		b.breaks(pod)
		before := pod.DeepCopy()
		admitted.Explain(pod, expected())
		if !reflect.DeepEqual(pod, before) {
			t.Fatalf("%s: the Pod was changed", b.name)
		}
	}
}

func TestClaimsOf(t *testing.T) {
	got, err := admitted.ClaimsOf(valid().Spec.Volumes)
	if err != nil || !reflect.DeepEqual(got, map[string]string{"data": "datasets"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := admitted.ClaimsOf(nil); err != nil || len(got) != 0 {
		t.Errorf("no volumes: %v, %v", got, err)
	}
	for _, v := range []corev1.Volume{
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}, {Name: "nothing"}, claim("unnamed", ""),
	} {
		if got, err := admitted.ClaimsOf(append(valid().Spec.Volumes, v)); err == nil || got != nil {
			t.Errorf("volume %s is taken for a claim", v.Name)
		}
	}
}
