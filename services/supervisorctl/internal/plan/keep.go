package plan

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	// IdleLimit is for how long a start may make no progress before it is taken for abandoned. It is just longer than an attempt may
	// work after it wrote its name into the record: a leader that follows one that died counts it from its first look, and all is to be
	// settled within a minute of the death. A start that is misjudged is lost, and harms nobody.
	IdleLimit = 34 * time.Second
	// ReadyLimit is how long a released run may take until it is ready (contract 7.15).
	ReadyLimit = 5 * time.Minute
	// ImageLimit is the same for a run of which a registry has answered that it has no such image, or does not give it. By then the kubelet
	// has asked at least twice, so that an image that was pushed a moment late, or a credential, is still found.
	ImageLimit = 30 * time.Second
	// WatchLimit is how long a process must have seen a released run not ready itself before the time in the record counts, which was
	// another one's and may be of a clock that runs apart.
	WatchLimit = time.Minute
)

const suspendedByHand = "somebody suspended the Sandbox while its run was up"

// keep is one look of the reconcile loop (contract 7.13).
func (p *planner) keep() Step {
	p.want.Run = Run{}
	if p.want.Ref.UID == "" {
		return refuse(SandboxReplaced, "a set is kept only for a Sandbox with a uid")
	}
	if p.facts.Sandbox.Absent() {
		return p.takeDown(false)
	}
	if step, ok := p.identify(); !ok {
		switch {
		case step.Reason == SandboxForeign:
			return Step{Action: Done}
		case step.Reason == SandboxReplaced:
			return p.takeDown(false)
		}
		return step
	}
	r := p.record
	switch {
	case p.box.Deleting:
		return p.takeDown(false)
	case r.Stopping():
		return p.stop()
	case r.Phase == runstate.Preparing:
		return p.keepPreparing()
	case r.Phase == runstate.Released:
		return p.keepReleased()
	case p.box.Mode == sandboxapi.Running:
		return p.keepRunning()
	case r.Generation != "": // a stop of ours is in the record before the Sandbox is suspended
		return p.stopFor(Broke, suspendedByHand)
	}
	return p.stop()
}

// stopFor is the next step of a stop that is begun for a reason.
func (p *planner) stopFor(reason verdict.Reason, why string) Step {
	begun := p.record.Stopping()
	step := p.stop()
	if step.Reason != "" || step.Action == Done {
		return step
	}
	step.Reason, step.Explanation = reason, why
	if step.Action == Write && !begun {
		step.Record.StopReason, step.Record.StopExplanation = string(reason), bounded(why)
	}
	return step
}

// bounded is a text that may stay in an annotation.
func bounded(text string) string {
	const most = 1024
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// keepPreparing leaves a start to the call that is at it. One that nobody is at is finished when its Secrets are with its Pods, and
// else undone: the credentials went with the call.
func (p *planner) keepPreparing() Step {
	if p.facts.Idle < IdleLimit {
		return Step{Action: Done}
	}
	if why, unknown := p.facts.Supervisor.unknown(); unknown {
		return unreadable("supervisor Pod", why)
	}
	if !p.released() {
		return p.stopFor(Broke, "the start was abandoned before its Secrets were made")
	}
	p.want.Run = Run{Generation: p.record.Generation, Session: p.record.Session, Epoch: p.record.Epoch}
	p.facts.Attempt.MayTake = true
	step := p.raise()
	if step.Undo {
		return p.stopFor(step.Reason, step.Explanation)
	}
	return step
}

// keepReleased completes a start when all is ready (contract 7.9), and ends one that broke or took too long.
func (p *planner) keepReleased() Step {
	if p.box.Mode == sandboxapi.Suspended {
		return p.stopFor(Broke, suspendedByHand)
	}
	if reason, why := p.harm(); why != "" {
		return p.stopFor(reason, why)
	}
	if what, why := p.doubt(); why != "" {
		return unreadable(what, why)
	}
	if p.ready() {
		next := p.record
		next.Bootstrapping, next.StartedAt, next.Operation, next.Phase, next.Attempt = false, 0, "", "", ""
		next.Readiness = runstate.Ready
		return Step{Action: Write, Record: next}
	}
	if reason, why := p.hopeless(); reason != "" {
		return p.stopFor(reason, why)
	}
	if reason, why := p.doomed(); reason != "" && p.facts.Idle >= ImageLimit {
		return p.stopFor(reason, why+" ("+ImageLimit.String()+" after the run was released)")
	}
	if p.overdue() {
		reason, why := p.hindrance()
		return p.stopFor(reason, "the run was not ready within "+ReadyLimit.String()+" of its start: "+why)
	}
	return Step{Action: Done}
}

// overdue reports whether a released run has had its time. What this process has seen decides. Only where another one saw the run
// released, and led before, the time in the record shortens that.
func (p *planner) overdue() bool {
	idle := p.facts.Idle
	return idle > ReadyLimit || !p.facts.Witnessed && idle >= WatchLimit && p.facts.Now.Sub(p.record.Began()) > ReadyLimit
}

// ready reports whether the supervisor is ready and the controller says so of the Sandbox.
func (p *planner) ready() bool {
	s, ok := p.facts.Supervisor.Value()
	c, says := p.box.Condition(sandboxapi.ConditionReady)
	return ok && s.Ready && p.box.Mode == sandboxapi.Running && says && c.Status == string(metav1.ConditionTrue)
}

// keepRunning ends a run that broke, and publishes the readiness of one that stands. A workload that has ended by itself is not
// broken: the controller says of the Sandbox how it ended, and that must stay to be seen.
func (p *planner) keepRunning() Step {
	if p.record.Generation == "" {
		return Step{Action: Done} // not raised by us: whoever did watches over it (contract 14.2 "2965")
	}
	if reason, why := p.harm(); why != "" {
		return p.stopFor(reason, why)
	}
	what, why := p.doubt()
	s, known := p.facts.Supervisor.Value()
	next := p.record
	switch {
	case known && !s.Ready:
		next.Readiness = runstate.Unavailable
	case why != "":
		return unreadable(what, why) // and what was published last stays
	default:
		next.Readiness = runstate.Ready
	}
	if next == p.record {
		return Step{Action: Done}
	}
	return Step{Action: Write, Record: next}
}
