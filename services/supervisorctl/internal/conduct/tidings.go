package conduct

import (
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
	eventFenceClosed        = "FenceClosed"
)

// tiding is what somebody who looks at a Sandbox should know.
type tiding struct {
	kind, reason, message string
	// standing is what goes on until it is another one, and is told once; empty for what is told again after a while. over says that it
	// has come to its end, which is worth telling only where it was told of.
	standing string
	state    mark
	over     bool
}

func normal(reason, format string, args ...any) tiding {
	return tiding{kind: corev1.EventTypeNormal, reason: reason, message: fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) tiding {
	return tiding{kind: corev1.EventTypeWarning, reason: reason, message: fmt.Sprintf(format, args...)}
}

// subject is what is remembered of it for a Sandbox.
func (t *tiding) subject(uid string) subject {
	if t.standing != "" {
		return subject{what: markOf(uid, t.standing), state: t.state, stands: true, over: t.over}
	}
	return subject{what: markOf(uid, t.reason, t.message)}
}

// ofTheFence is which policies of others open the fence, and that none does.
func ofTheFence(openings []plan.Opening) tiding {
	t := normal(eventFenceClosed, "no policy of somebody else opens the sandbox's fence any more")
	if len(openings) > 0 {
		t = warning(verdict.FenceReopened.CamelCase(), "%s", plan.OpeningWords(openings))
	}
	said := make([]string, 0, 3*len(openings))
	for _, o := range openings {
		said = append(said, o.Policy, o.UID, o.Opens)
	}
	t.standing, t.state, t.over = "fence", markOf(said...), len(openings) == 0
	return t
}

// deed is what a round did that is told whatever comes of it.
type deed struct {
	action  plan.Action
	subject string
}

// tell has Events written of how a goal ended.
func (r *round) tell(out *Outcome) {
	ref := r.goal.Ref
	box, _ := out.Facts.Sandbox.Value()
	for _, t := range tidings(r.wanted, out, r.deeds) {
		r.events.announce(ref, box.Version, &t)
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
			all = append(all, normal(eventSupervisorReplaced, "the %s is not what this run needs and is made anew", d.subject))
		case wanted == plan.Keep && out.Facts.Sandbox.Absent():
			all = append(all, normal(eventOrphanRemoved, "the Sandbox is gone and had left its %s, which is removed", d.subject))
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
	if openings, ok := out.Facts.Openings.Value(); ok && wanted == plan.Keep { // of one process, which leads
		all = append(all, ofTheFence(openings))
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
