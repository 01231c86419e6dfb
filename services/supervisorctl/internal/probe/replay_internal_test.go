package probe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary/canarytest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestReplayP09APolicyThatNobodyEnforces: both policies stand, word for word, and the network plug-in looks at neither. That is a proven
// no and never a doubt, and a daemon that requires the fence starts nothing there.
func TestReplayP09APolicyThatNobodyEnforces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand()
		s.raise(t, 5500)
		s.world.Out, s.world.Shut = canarytest.Open, canarytest.Open
		r := s.prober(t).Probe(t.Context(), "sandboxes")
		s.stop()
		if r.Decision.Outcome() != verdict.Denied || r.Decision.Reason != verdict.FenceEgressOpen || len(r.Made) != 0 {
			t.Errorf("%s, made %v", r.Decision.Explain(), r.Made)
		}
		b := walk(t, func(*Settings) {}, map[string]verdict.Decision{"a": r.Decision, "b": yes})
		after(30 * time.Second)
		b.demand(t, "a", verdict.Denied, string(verdict.FenceEgressOpen))
		b.demand(t, "b", verdict.Granted, "")
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
}
