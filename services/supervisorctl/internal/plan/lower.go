package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

func (p *planner) release() Step {
	if step, ok := p.identify(); !ok {
		return step
	}
	if !p.mayStop() {
		return p.another()
	}
	if p.box.Deleting {
		return p.takeDown(true)
	}
	if p.want.Reason != "" {
		if named := p.record.Attempt; named != p.want.Attempt && named != p.facts.Attempt.ID && p.record.Generation != "" && !p.record.Stopping() {
			return refuse(IsAnother, "the run is attempt %q's by now, and not undone for the attempt that was refused", named)
		}
		return p.stopFor(p.want.Reason, p.want.Explanation)
	}
	return p.stop()
}

// mayStop reports whether the present run is the one to stop. A field that either side leaves open matches.
func (p *planner) mayStop() bool {
	w, r := p.want.Run, p.record
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return !differ(w.Generation, r.Generation) && !differ(w.Session, r.Session) && (w.Epoch == 0 || r.Epoch == 0 || w.Epoch == r.Epoch)
}

// remove also works for a Sandbox that is gone: a Sandbox of that name with another uid is another one. Neither a record that cannot
// be read nor a Pod that is somebody else's keeps what is ours from being removed.
func (p *planner) remove() Step {
	ref := p.want.Ref
	if why, unknown := p.facts.Sandbox.unknown(); unknown {
		return unreadable("Sandbox "+ref.Namespace+"/"+ref.Name, why)
	}
	box, ok := p.facts.Sandbox.Value()
	switch {
	case !ok:
		return p.takeDown(true)
	case ref.UID == "":
		return refuse(SandboxReplaced, "the Sandbox %s/%s exists with uid %q; what it has is removed only by its uid", ref.Namespace, ref.Name, box.UID)
	case box.UID != ref.UID:
		return p.takeDown(false)
	}
	if step, ok := p.identify(); !ok && step.Reason == RecordInvalid {
		return p.takeDown(true)
	} else if !ok {
		return step
	}
	if !p.mayStop() {
		return p.another()
	}
	if !p.box.Deleting {
		if step := p.stop(); step.Action != Done && step.Reason != Collision {
			return step
		}
	}
	return p.takeDown(true)
}

// takeDown removes what is ours without a word to the Sandbox, which is going or gone: the supervisor, the Secrets, the Service. Its
// workload goes with it, and is awaited. Secrets are not removed when the Sandbox is another one, and not by the reconcile loop, which
// would do it at every look; they go with the Pods that own them.
func (p *planner) takeDown(secrets bool) Step {
	if step, ok := p.withoutSupervisor(); !ok {
		return step
	}
	if p.facts.Sandbox.Absent() || p.box.Deleting || p.box.UID != p.want.Ref.UID {
		if why, unknown := p.facts.Workload.unknown(); unknown {
			return unreadable("workload Pod", why)
		}
		if step, ok := p.withoutOurWorkload(); !ok {
			return step
		}
	}
	generation := p.record.Generation
	if generation == "" {
		generation = p.want.Run.Generation
	}
	if secrets && generation != "" && !p.facts.Attempt.SecretsGone {
		return Step{Action: DeleteSecrets, Generation: generation}
	}
	if why, unknown := p.facts.Service.unknown(); unknown {
		return unreadable("boundary Service", why)
	}
	if s, ok := p.facts.Service.Value(); ok && s.Ownership != Theirs && !s.Deleting {
		return Step{Action: DeleteService, UID: s.UID}
	}
	return Step{Action: Done}
}

// withoutSupervisor is true when no supervisor Pod of ours is left, and false with the step that it needs.
func (p *planner) withoutSupervisor() (Step, bool) {
	if why, unknown := p.facts.Supervisor.unknown(); unknown {
		return unreadable("supervisor Pod", why), false
	}
	s, ok := p.facts.Supervisor.Value()
	switch {
	case !ok, !p.ours(s, p.record.SupervisorUID):
		return Step{}, true
	case s.Deleting:
		return Step{Action: Await, Subject: SubjectSupervisor}, false
	}
	return Step{Action: DeleteSupervisor, UID: s.UID}, false
}

// ours reports whether a Pod is of the run, by its owner or by the uid in the record: labels and owners of a Pod can be edited, and it
// runs on.
func (p *planner) ours(pod Pod, recorded string) bool {
	return pod.Ownership != Theirs || p.box.UID == p.want.Ref.UID && recorded != "" && pod.UID == recorded
}

// withoutOurWorkload is true when no workload Pod of ours is left. One that has lost its owner goes by our hand: neither the controller
// nor the garbage collector takes it.
func (p *planner) withoutOurWorkload() (Step, bool) {
	w, ok := p.facts.Workload.Value()
	switch {
	case !ok, !p.ours(w, p.record.WorkloadUID):
		return Step{}, true
	case w.Ownership == Theirs && !w.Deleting:
		return Step{Action: DeleteWorkload, UID: w.UID}, false
	}
	return Step{Action: Await, Subject: SubjectWorkload}, false
}

// stop is contract 7.10. It is Done only for a sandbox that is settled.
func (p *planner) stop() Step {
	r := p.record
	if !r.Stopping() {
		switch settled, step := p.settled(); {
		case step.Reason != "":
			return step
		case settled:
			return p.reported()
		}
		next := r
		next.Bootstrapping, next.StartedAt, next.Attempt = false, 0, ""
		next.Operation, next.Phase, next.Readiness = runstate.Stop, runstate.Releasing, runstate.Unavailable
		return Step{Action: Write, Record: next}
	}
	if step, ok := p.withoutSupervisor(); !ok {
		return step
	}
	if r.Phase == runstate.Releasing || p.box.Mode != sandboxapi.Suspended {
		next := r
		next.Phase = runstate.Suspending
		return Step{Action: Suspend, Record: next}
	}
	if step, ok := p.withoutWorkload(); !ok {
		return step
	}
	if r.Generation != "" && !p.facts.Attempt.SecretsGone {
		return Step{Action: DeleteSecrets, Generation: r.Generation}
	}
	return Step{Action: Write, Record: r.Stopped()}
}

// withoutWorkload is true when the workload Pod is gone and the controller says that the Sandbox is suspended, where it can.
func (p *planner) withoutWorkload() (Step, bool) {
	if why, unknown := p.facts.Workload.unknown(); unknown {
		return unreadable("workload Pod", why), false
	}
	if step, ok := p.withoutOurWorkload(); !ok {
		return step, false
	}
	if p.notOwned() {
		return p.heldUp(), false
	}
	w, ok := p.facts.Workload.Value()
	switch {
	case ok:
		return refuse(Collision, "the Pod %s is not the Sandbox's: %s", w.Name, w.Detail), false
	case p.box.Version == sandboxapi.V1beta1 && !p.box.ReportsSuspended():
		return Step{Action: Await, Subject: SubjectSandbox}, false
	}
	return Step{}, true
}

// reported is Done for a settled sandbox of which, where whoever asks rests on it and the controller can say so, it says that it is suspended:
// until then it may not have seen that it is to be (contract 7.10 step 6). The loop and an undo rest on what they saw themselves.
func (p *planner) reported() Step {
	asked := (p.want.Goal == Release || p.want.Goal == Restart) && p.want.Reason == ""
	switch {
	case !asked || p.box.Version != sandboxapi.V1beta1 || p.box.ReportsSuspended():
		return Step{Action: Done}
	case p.notOwned():
		return p.heldUp()
	}
	return Step{Action: Await, Subject: SubjectSandbox}
}

// notOwned reports whether the controller does not suspend the Sandbox because a Pod has the workload's name that is not its own.
func (p *planner) notOwned() bool {
	c, ok := p.box.Condition(sandboxapi.ConditionSuspended)
	return ok && c.Status == string(metav1.ConditionFalse) && c.Reason == sandboxapi.ReasonPodNotOwned
}

func (p *planner) heldUp() Step {
	c, _ := p.box.Condition(sandboxapi.ConditionSuspended)
	return refuse(Collision, "the controller does not suspend the Sandbox, because the Pod %s is not its own: %s", p.box.PodName(), c.Message)
}

// settled reports whether nothing of a run is left and none is recorded. The step has a reason when that cannot be told.
func (p *planner) settled() (bool, Step) {
	r := p.record
	if r.Bootstrapping || r.Phase != "" || r.Generation != "" || p.box.Mode != sandboxapi.Suspended {
		return false, Step{}
	}
	for _, pod := range p.pods() {
		if why, unknown := pod.seen.unknown(); unknown {
			return false, unreadable(pod.what, why)
		}
		if found, ok := pod.seen.Value(); ok && found.Ownership != Theirs {
			return false, Step{}
		}
	}
	return true, Step{}
}
