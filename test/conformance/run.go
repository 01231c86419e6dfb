package conformance

import (
	"testing"
	"time"
)

// Run makes all checks and reports each as a subtest: a finding fails it, required or not, since a driver of ours has no excuse. What
// cannot be made is logged and returned, so that a test can say which it is ready to do without. only is as in How.
func Run(t *testing.T, target Target, only ...string) (notMade []string) {
	t.Helper()
	told := func(r Result) { t.Logf("%s (%s)", r, r.Took.Round(time.Millisecond)) } // while the rest is under way
	results, err := Judge(t.Context(), target, How{Only: only, Told: told})
	if err != nil {
		t.Error(err)
	}
	for _, r := range results {
		if r.Outcome == NotMade {
			notMade = append(notMade, r.Check.ID)
			continue
		}
		t.Run(r.Check.ID, func(t *testing.T) {
			if r.Outcome != Passed {
				t.Error(r)
			}
		})
	}
	return notMade
}
