package plan_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestReplayL13AClaimThatIsNeverBound has the time that a volume may take, and then ends the run with its own reason and the scheduler's
// words, rather than leaving it on its way for ever. Package conduct tells the scheduler's words apart, see TestReplayL28AndItsCode.
func TestReplayL13AClaimThatIsNeverBound(t *testing.T) {
	const words = "pod has unbound immediate PersistentVolumeClaims"
	unbound := workloadPod(because(verdict.PodClaimUnbound, words, false))
	f := from(released, unbound)()
	if step := hold(t, wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Done || step.Reason != "" {
		t.Errorf("at first: %s %s", step.Action, step.Reason)
	}
	f = from(released, unbound, late)()
	step := hold(t, wants(plan.Keep, plan.Run{}), &f)
	if step.Action != plan.Write || step.Record.Phase != runstate.Releasing || step.Record.StopReason != string(verdict.PodClaimUnbound) || !strings.Contains(step.Record.StopExplanation, words) {
		t.Errorf("in the end: %s, %+v", step.Action, step.Record)
	}
}
