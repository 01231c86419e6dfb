package conduct

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// TestAReadThatPanics: whoever asked for the goal recovers, with the stack of the read and without its value; the next goal goes on.
func TestAReadThatPanics(t *testing.T) {
	for what, goal := range map[string]plan.Goal{
		"policies": plan.Keep, "policy": plan.Provision, "service": plan.Provision, "pod": plan.Provision, "sandbox": plan.Provision, "namespace": plan.Provision,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, newWorld(fresh()))
			s.world.read = func(read string) error {
				if strings.HasPrefix(read, what) {
					panic("a private word")
				}
				return nil
			}
			caught := func() (p *Panic) {
				defer func() { p = Recovered(recover()) }()
				_, _ = s.Do(t.Context(), s.goal(goal))
				return nil
			}()
			if caught.Kind != "string" || strings.Contains(caught.String(), "private") || !strings.Contains(string(caught.Stack), "reads_internal_test.go") {
				t.Errorf("%s: %v\n%s", what, caught, caught.Stack)
			}
			s.world.read = nil
			s.do(s.goal(plan.Provision))
		})
	}
}
