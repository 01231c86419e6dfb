package plan

import (
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Goal is what is wanted of the set. The zero Goal is refused.
type Goal uint8

// The goals.
const (
	// Provision raises the set of a new Sandbox (contract 7.2).
	Provision Goal = iota + 1
	// Restart raises the set of a stopped Sandbox, and stops another run first (contract 7.11).
	Restart
	// Release stops the run (contract 7.10).
	Release
	// Remove stops the run and takes away what a stop leaves.
	Remove
	// Keep finishes or undoes what is under way and nobody is at, and watches over what stands (contract 7.13).
	Keep
)

// Ref names the Sandbox.
type Ref struct {
	GatewayID, SandboxID, Namespace, Name string
	// UID is empty only for Remove of what a Sandbox that is gone has left.
	UID string
}

// Run names the run. Of Release and Remove an empty field matches any.
type Run struct {
	Generation, Session string
	Epoch               int64
}

// Named is the goal with the run named as the record names it, if it is the record's run: session and epoch tell runs apart, and a call
// that is repeated may give the generation another name (contract 2.6). A create is not repeated for a Sandbox that is made already.
func (w Want) Named(record runstate.Record) Want {
	same := w.Run.Session != "" && w.Run.Epoch > 0 && w.Run.Session == record.Session && w.Run.Epoch == record.Epoch
	if w.Goal != Provision && same && w.Run.Generation != "" && record.Generation != "" {
		w.Run.Generation = record.Generation
	}
	return w
}

// Want is a goal for one Sandbox.
type Want struct {
	Goal Goal
	Ref  Ref
	// Run to raise or to stop; not read for Keep.
	Run Run
	// Reason and Explanation are why a run is stopped that could not be raised; of Undone alone.
	Reason      verdict.Reason
	Explanation string
	// Attempt is the one that the record named at the refusal; of Undone alone.
	Attempt string
}

// Undone is the goal that takes away what a refused one made. attempt is what the record named when it was refused: the run of another
// one that takes over meanwhile is left alone.
func (w Want) Undone(refused Step, attempt string) Want {
	return Want{Goal: Release, Ref: w.Ref, Run: w.Run, Reason: refused.Reason, Explanation: refused.Explanation, Attempt: attempt}
}

// Next decides. The same Want and Facts lead to the same Step.
func Next(want Want, facts *Facts) Step {
	if facts == nil {
		facts = &Facts{}
	}
	p := planner{want: want, facts: *facts}
	return sure(p.next())
}

func (p *planner) next() Step {
	switch p.want.Goal {
	case Provision:
		return p.provision()
	case Restart:
		return p.restart()
	case Release:
		return p.release()
	case Remove:
		return p.remove()
	case Keep:
		return p.keep()
	}
	return refuse(IsAnother, "no goal was given")
}

// planner is one decision. box and record are what identify found.
type planner struct {
	want   Want
	facts  Facts
	box    sandboxapi.Object
	record runstate.Record
}

// identify finds the Sandbox that is meant and reads its record. False with the refusal.
func (p *planner) identify() (Step, bool) {
	ref := p.want.Ref
	if why, unknown := p.facts.Sandbox.unknown(); unknown {
		return unreadable("Sandbox "+ref.Namespace+"/"+ref.Name, why), false
	}
	box, ok := p.facts.Sandbox.Value()
	if !ok {
		return refuse(SandboxAbsent, "there is no Sandbox %s/%s", ref.Namespace, ref.Name), false
	}
	p.box = box
	if !box.Version.Known() || box.Mode != sandboxapi.Suspended && box.Mode != sandboxapi.Running {
		return unreadable("Sandbox "+ref.Namespace+"/"+ref.Name, "its version or its mode is not known"), false
	}
	if ref.UID == "" || box.UID != ref.UID {
		return refuse(SandboxReplaced, "the Sandbox %s/%s has uid %q, the request is for %q", ref.Namespace, ref.Name, box.UID, ref.UID), false
	}
	if foreign := p.foreign(); foreign != "" {
		return refuse(SandboxForeign, "the Sandbox %s/%s %s", ref.Namespace, ref.Name, foreign), false
	}
	record, err := runstate.Of(box.Annotations)
	if err != nil {
		return refuse(RecordInvalid, "%v", err), false
	}
	p.record, p.want = record, p.want.Named(record)
	return Step{}, true
}

// foreign says what of the Sandbox is not ours, its labels or its place; empty when all is.
func (p *planner) foreign() string {
	if p.facts.Misplaced != "" {
		return "is out of its place: " + p.facts.Misplaced
	}
	for _, l := range [...]struct{ key, want string }{
		{workspace.LabelManagedBy, workspace.ManagedByOpenShell},
		{workspace.LabelGatewayID, p.want.Ref.GatewayID},
		{workspace.LabelSandboxID, p.want.Ref.SandboxID},
	} {
		if l.want == "" || p.box.Labels[l.key] != l.want {
			return "has not the label " + l.key + "=" + l.want
		}
	}
	return ""
}

// complete reports whether a run can be raised by this name.
func (r Run) complete() bool { return r.Generation != "" && r.Session != "" && r.Epoch > 0 }

// matches reports whether the record is of the wanted run. What the record does not say matches only while nothing was raised for it.
func (p *planner) matches() bool {
	w, r := p.want.Run, p.record
	if !w.complete() || r.Generation != w.Generation {
		return false
	}
	unnamed := r.Session == "" && r.Epoch == 0 && r.Phase == runstate.Preparing && r.Attempt == "" && r.SupervisorUID == "" && r.WorkloadUID == ""
	return unnamed || r.Session == w.Session && r.Epoch == w.Epoch
}

// taken reports whether another attempt may be at work.
func (p *planner) taken() bool {
	a := p.facts.Attempt
	return p.record.Attempt != "" && p.record.Attempt != a.ID && !a.MayTake
}
