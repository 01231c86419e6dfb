package conformance_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/test/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestExemplar: a driver that keeps the contract has no finding, with and without driver_config.
func TestExemplar(t *testing.T) {
	t.Parallel()
	patience := conformance.DefaultPatience
	for _, id := range conformance.Run(t, newExemplar(t, true, patience, flaw{})) {
		if id != "authenticate.absent" && !strings.HasSuffix(id, ".config-disabled") {
			t.Errorf("%s was not made", id)
		}
	}
	if notMade := conformance.Run(t, newExemplar(t, false, patience, flaw{}), "hostile.config-disabled", "field.config-disabled"); len(notMade) > 0 {
		t.Errorf("not made: %q", notMade)
	}
}

// TestChecksAreNamed: ids are unique, and every check says what it needs to say.
func TestChecksAreNamed(t *testing.T) {
	seen := map[string]bool{}
	var required int
	for _, c := range conformance.Checks() {
		if seen[c.ID] || strings.ContainsFunc(c.ID, func(r rune) bool { return r <= ' ' || r > 'z' }) {
			t.Errorf("the id %q is there twice, or odd", c.ID)
		}
		seen[c.ID] = true
		if c.Section == "" || c.Says == "" || c.Breaks == "" {
			t.Errorf("%s: section %q, says %q, breaks %q", c.ID, c.Section, c.Says, c.Breaks)
		}
		if c.Required {
			required++
		}
	}
	t.Logf("%d checks, %d of them required", len(seen), required)
	if a, b := ids(), ids(); !slices.Equal(a, b) {
		t.Error("the order of the checks changes")
	}
}

func ids() (all []string) {
	for _, c := range conformance.Checks() {
		all = append(all, c.ID)
	}
	return all
}
