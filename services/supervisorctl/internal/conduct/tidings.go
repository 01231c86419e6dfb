package conduct

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Reasons of Events that no refusal has. The others are reason codes in CamelCase.
const (
	eventSupervisorReplaced = "SupervisorReplaced"
	eventOrphanRemoved      = "OrphanRemoved"
)

// tiding is what somebody who looks at a Sandbox should know.
type tiding struct{ kind, reason, message string }

func warning(reason, format string, args ...any) tiding {
	return tiding{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// deed is what a round did that is told whatever comes of it.
type deed struct {
	action  plan.Action
	subject string
}

// tell has Events written of how a goal ended.
func (r *round) tell(ctx context.Context, out *Outcome) {
	ref := r.goal.Ref
	box, _ := out.Facts.Sandbox.Value()
	for _, t := range tidings(r.wanted, out, r.deeds) {
		r.events.announce(ctx, ref, box.Version, t)
	}
}

// tidings are what an outcome is worth telling: of the Sandbox that was meant, and of nothing that passes by itself. wanted is the goal,
// also when it was undone.
func tidings(wanted plan.Goal, out *Outcome, deeds []deed) []tiding {
	var all []tiding
	raising := wanted == plan.Provision || wanted == plan.Restart
	for _, d := range deeds {
		switch {
		case raising && d.action == plan.DeleteSupervisor:
			all = append(all, tiding{corev1.EventTypeNormal, eventSupervisorReplaced, "the " + d.subject + " is not what this run needs and is made anew"})
		case wanted == plan.Keep && out.Facts.Sandbox.Absent():
			all = append(all, tiding{corev1.EventTypeNormal, eventOrphanRemoved, "the Sandbox is gone and had left its " + d.subject + ", which is removed"})
		}
	}
	step := &out.Step
	switch {
	case wanted != plan.Keep && !raising:
	case step.Action == plan.Done && step.Reason != "":
		all = append(all, warning(step.Reason.CamelCase(), "the run is being stopped: %s", step.Explanation))
	case step.Action != plan.Refuse || !telling(step.Reason):
	case raising:
		all = append(all, warning(step.Reason.CamelCase(), "the sandbox was not started (%s): %s", wanted, step.Explanation))
	default:
		all = append(all, warning(step.Reason.CamelCase(), "the sandbox cannot be kept as it should be: %s", step.Explanation))
	}
	if openings, ok := out.Facts.Openings.Value(); ok && len(openings) > 0 && (raising || wanted == plan.Keep) {
		all = append(all, warning(verdict.FenceReopened.CamelCase(), "%s", plan.OpeningWords(openings)))
	}
	if s, ok := out.Facts.Supervisor.Value(); ok && wanted == plan.Keep && s.Restarted && !s.Ready && !s.Ended && !s.Deleting && awaited(out) {
		all = append(all, warning(eventSupervisorReplaced, "the supervisor's container was started again: %s", s.Detail))
	}
	return all
}

// telling reports whether a refusal is about the Sandbox that was meant, and stays until somebody does something.
func telling(reason verdict.Reason) bool {
	return !slices.Contains([]verdict.Reason{
		verdict.RunObjectUnreadable, verdict.RunIsTaken, verdict.RunIsAnother, verdict.RunSandboxAbsent, verdict.RunSandboxReplaced,
		verdict.RunSandboxForeign, verdict.RunSandboxDeleting, verdict.CallEnded,
	}, reason)
}

// awaited reports whether the readiness of a released run is awaited.
func awaited(out *Outcome) bool {
	box, ok := out.Facts.Sandbox.Value()
	if !ok {
		return false
	}
	record, err := runstate.Of(box.Annotations)
	return err == nil && record.Phase == runstate.Released
}
