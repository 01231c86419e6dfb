package conduct

import (
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/rejection"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Reasons of refusals that are made while a step is executed.
const (
	// CompanionRefused: the cluster refuses a companion, or it cannot be rendered.
	CompanionRefused = verdict.CompanionRefused
	// StopOverdue: a Pod or the controller does not come to an end in the time that it has.
	StopOverdue = verdict.RunStopOverdue
)

// Keys of log lines.
const (
	keyNamespace   = "namespace"
	keySandbox     = "sandbox"
	keyGoal        = "goal"
	keyAction      = "action"
	keyReason      = "reason"
	keyExplanation = "explanation"
)

// Outcome is how the work on a goal ended, and what was seen last.
type Outcome struct {
	// Step is Done or a refusal. Done of Keep has the Reason and the Explanation of a stop that it began.
	Step plan.Step
	// Facts are what it rests on.
	Facts plan.Facts
}

func (r *round) outcome(last plan.Step) Outcome {
	out := Outcome{Step: last, Facts: r.facts()}
	out.Facts.Openings = r.openings()
	return out
}

// diagnosis is why the controller makes no workload Pod for the run that is being raised, when it says so and trying again cannot help
// by itself; empty otherwise (bug corpus L12, L28).
func (r *round) diagnosis() string {
	o := r.seen.box.value
	if o == nil || o.Mode != sandboxapi.Running {
		return ""
	}
	if record, err := runstate.Of(o.Annotations); err != nil || record.Phase != runstate.Preparing {
		return ""
	}
	c, ok := o.Condition(sandboxapi.ConditionReady)
	if !ok || c.Status == "True" {
		return ""
	}
	if !rejection.Of(c.Message) {
		return ""
	}
	return "the controller reports: " + short(c.Message)
}

// short is somebody else's text, of at most 500 bytes.
func short(text string) string { return rejection.Bounded(text, 500) }
