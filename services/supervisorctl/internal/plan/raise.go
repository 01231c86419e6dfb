package plan

import (
	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// raisable is true when the Sandbox is there and a run may be raised in it, and false with the refusal.
func (p *planner) raisable() (Step, bool) {
	if step, ok := p.identify(); !ok {
		return step, false
	}
	switch {
	case p.box.Deleting:
		return refuse(SandboxDeleting, "the Sandbox is being deleted"), false
	case !p.want.Run.complete():
		return refuse(IsAnother, "the request does not name the run: generation %q, session %q, epoch %d", p.want.Run.Generation, p.want.Run.Session, p.want.Run.Epoch), false
	case p.facts.Attempt.ID == "":
		return refuse(IsTaken, "the attempt has no name, so that it could not be told from another"), false
	}
	return Step{}, true
}

func (p *planner) provision() Step {
	if step, ok := p.raisable(); !ok {
		return step
	}
	r := p.record
	switch {
	case !p.matches():
		return p.another()
	case p.up():
		return p.standing()
	case r.Operation != runstate.Create || r.Phase != runstate.Preparing:
		return p.another()
	}
	return p.raise()
}

// up reports whether the recorded run was raised to its end.
func (p *planner) up() bool {
	return p.record.Phase == runstate.Released || p.record.Phase == "" && p.box.Mode == sandboxapi.Running
}

func (p *planner) another() Step {
	r, w := p.record, p.want.Run
	return refuse(IsAnother, "the Sandbox records operation %q in phase %q of generation %q, session %q, epoch %d; the request is for generation %q, session %q, epoch %d",
		r.Operation, r.Phase, r.Generation, r.Session, r.Epoch, w.Generation, w.Session, w.Epoch)
}

func (p *planner) restart() Step {
	if step, ok := p.raisable(); !ok {
		return step
	}
	r, same := p.record, p.matches()
	switch {
	case p.outdated():
		return p.another()
	case same && p.up():
		// The run that stands answers a repeated call; one that broke is what a restart mends.
		if step := p.standing(); !step.Undo {
			return step
		}
	case r.Operation == runstate.Create:
		return p.another()
	case same && r.Operation == runstate.Restart:
		return p.raise()
	}
	if p.facts.Attempt.Began {
		return p.another() // what it began was stopped or replaced: whoever did so came later
	}
	if step := p.stop(); step.Action != Done {
		return step
	}
	return p.begin()
}

// outdated reports whether the record is of a later run than the wanted one: epochs of a generation go up by one with every start
// (contract 2.6), so the request is a late one.
func (p *planner) outdated() bool {
	w, r := p.want.Run, p.record
	return r.Generation == w.Generation && r.Epoch > w.Epoch
}

// begin records the intent before anything is made for the run.
func (p *planner) begin() Step {
	w, r := p.want.Run, p.record
	return Step{Action: Begin, Generation: w.Generation, Afresh: true, Record: runstate.Record{
		Bootstrapping: true, StartedAt: p.facts.Now.UnixMilli(), Operation: runstate.Restart, Phase: runstate.Preparing,
		Session: w.Session, Epoch: w.Epoch, Generation: w.Generation, Attempt: p.facts.Attempt.ID, Readiness: runstate.Unavailable,
		MainProcess: again(r.MainProcess), LogLevel: r.LogLevel,
	}}
}

// again is the main process of a later run: only a create waits for somebody to attach (contract 2.5), and nobody will. What cannot be read
// stays, and is refused by whoever renders it.
func again(spec string) string {
	main, err := mainprocess.Decode(spec)
	if err != nil || !main.AwaitAttachment {
		return spec
	}
	main.AwaitAttachment = false
	changed, err := mainprocess.Encode(main)
	if err != nil {
		return spec
	}
	return changed
}

// standing is Done for a run that stands whole, and a refusal for one that lost a part.
func (p *planner) standing() Step {
	if reason, why := p.harm(); why != "" {
		return undo(reason, "%s", why)
	}
	if what, why := p.doubt(); why != "" {
		return unreadable(what, why)
	}
	return Step{Action: Done}
}

// raise makes what is missing, in the order of contract 7.2 steps 10 to 26. The record is in phase preparing and of the wanted
// run.
func (p *planner) raise() Step {
	if p.taken() {
		return refuse(IsTaken, "attempt %q is raising this run", p.record.Attempt)
	}
	for _, part := range [...]func() (Step, bool){p.acknowledged, p.fenced, p.served, p.supervised, p.running, p.admitted, p.recorded, p.ungated} {
		if step, ok := part(); !ok {
			return step
		}
	}
	released := p.record
	released.Phase = runstate.Released
	if p.facts.Attempt.MadeFor != (Bound{}) {
		released.Secrets, released.FenceEvidence = p.facts.Attempt.Secrets, p.facts.Attempt.Evidence
	}
	return Step{Action: Write, Record: released}
}

// released reports whether the supervisor's gate was lifted in its time, so that nothing before that may be made anew. Only the
// attempt in the record lifts it in its time: if that is this one, it knows whether the time had come.
func (p *planner) released() bool {
	a, r := p.facts.Attempt, p.record
	s, ok := p.facts.Supervisor.Value()
	if !ok || s.Gated || s.UID == "" || s.UID != r.SupervisorUID || r.WorkloadUID == "" {
		return false
	}
	return r.Attempt != a.ID || a.MadeFor.Workload == r.WorkloadUID && a.MadeFor.Supervisor == r.SupervisorUID
}

// takesOver reports whether another attempt may have made Secrets.
func (p *planner) takesOver() bool {
	r := p.record
	return r.Attempt != p.facts.Attempt.ID && (r.Attempt != "" || r.SupervisorUID != "")
}
