package plan

import (
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Each part below is true when it is as it must be, and false with the step that it needs.

func (p *planner) acknowledged() (Step, bool) {
	if p.facts.Acknowledged {
		return Step{}, true
	}
	return undo(FenceNotAcknowledged, "set sandbox_runtime.network_policy_enforced to true once the cluster's network enforces NetworkPolicies"), false
}

func (p *planner) fenced() (Step, bool) {
	released := p.released()
	if reason, why := p.unfenced(released); why != "" {
		return undo(reason, "%s", why), false
	}
	for _, policy := range p.policies() {
		if why, unknown := policy.seen.unknown(); unknown {
			return unreadable(policy.what, why), false
		}
		if policy.seen.Absent() {
			return Step{Action: policy.make}, false
		}
	}
	return Step{}, true
}

func (p *planner) served() (Step, bool) {
	if why, unknown := p.facts.Service.unknown(); unknown {
		return unreadable("boundary Service", why), false
	}
	s, ok := p.facts.Service.Value()
	switch {
	case !ok && p.released():
		return undo(Broke, "the boundary Service is gone"), false
	case !ok:
		return Step{Action: CreateService}, false
	case s.Ownership == Theirs:
		return undo(Collision, "the boundary Service is not ours: %s", s.Detail), false
	case s.Deleting, s.Ownership != OfThisRun && p.released():
		return undo(Broke, "the boundary Service is being deleted or is not what it must be: %s", s.Detail), false
	case s.Ownership != OfThisRun && s.UID != "" && s.UID == p.facts.Attempt.Service:
		return undo(CompanionAltered, "the boundary Service, as the cluster made it: %s", s.Detail), false
	case s.Ownership != OfThisRun:
		return Step{Action: DeleteService, UID: s.UID}, false // of a run before the settings changed
	case s.ClusterIP == "":
		return undo(ServiceWithoutAddress, "the boundary Service has no cluster IP"), false
	}
	return Step{}, true
}

func (p *planner) supervised() (Step, bool) {
	if why, unknown := p.facts.Supervisor.unknown(); unknown {
		return unreadable("supervisor Pod", why), false
	}
	s, ok := p.facts.Supervisor.Value()
	switch {
	case !ok:
		return p.withNewSupervisor(), false
	case s.Ownership == Theirs:
		return undo(Collision, "the Pod %s is not ours: %s", s.Name, s.Detail), false
	case s.Deleting && s.Gated:
		return Step{Action: Await, Subject: SubjectSupervisor}, false
	case s.Deleting || s.Ended:
		return undo(Broke, "the supervisor Pod has ended or is being deleted: %s", s.Detail), false
	case s.Ownership != OfThisRun && p.released():
		return undo(Broke, "the supervisor Pod is not what it must be, after it was released: %s", s.Detail), false
	case s.Ownership != OfThisRun && s.UID != "" && s.UID == p.facts.Attempt.Supervisor:
		return undo(CompanionAltered, "the supervisor Pod %s, as the cluster made it: %s", s.Name, s.Detail), false
	case s.Ownership != OfThisRun:
		return Step{Action: DeleteSupervisor, UID: s.UID}, false
	case !s.Gated && !p.released() && s.UID != "" && s.UID != p.record.SupervisorUID && s.UID == p.facts.Attempt.MadeFor.Supervisor:
		return undo(Broke, "the record does not name the Pods any more for which this attempt made the Secrets: somebody changed it"), false
	case !s.Gated && !p.released():
		return undo(GateLifted, "the supervisor Pod %s has lost its gate before its Secrets were made", s.Name), false
	case s.Gated && p.takesOver() && s.UID == p.record.SupervisorUID:
		// The former attempt's last write may be on its way, and may be the one that lifts this Pod's gate.
		return Step{Action: DeleteSupervisor, UID: s.UID}, false
	}
	return Step{}, true
}

// withNewSupervisor makes a supervisor for a workload that has not read its Secrets, which name the supervisor.
func (p *planner) withNewSupervisor() Step {
	if why, unknown := p.facts.Workload.unknown(); unknown {
		return unreadable("workload Pod", why)
	}
	if w, ok := p.facts.Workload.Value(); ok && w.Ownership != Theirs && !w.Gated {
		return undo(Broke, "the supervisor Pod is gone, and the workload Pod has lost its gate")
	}
	return Step{Action: CreateSupervisor}
}

// running makes the Sandbox run, which brings the workload Pod, gated.
func (p *planner) running() (Step, bool) {
	if p.box.Mode == sandboxapi.Running {
		return Step{}, true
	}
	supervisor, _ := p.facts.Supervisor.Value()
	if !supervisor.Gated {
		return undo(Broke, "the Sandbox was suspended after its supervisor was released"), false
	}
	w, next := p.want.Run, p.record
	next.Session, next.Epoch, next.Generation = w.Session, w.Epoch, w.Generation
	next.SupervisorUID, next.WorkloadUID, next.Attempt = supervisor.UID, "", p.facts.Attempt.ID
	return Step{Action: Resume, Record: next, Afresh: p.takesOver()}, false
}

func (p *planner) admitted() (Step, bool) {
	if why, unknown := p.facts.Workload.unknown(); unknown {
		return unreadable("workload Pod", why), false
	}
	a := p.facts.Attempt
	w, ok := p.facts.Workload.Value()
	missing := !ok || w.Deleting && w.Ownership != Theirs
	switch {
	case missing && p.released():
		return undo(Broke, "the workload Pod is gone after the supervisor was released"), false
	case missing && a.Refusal != "":
		return undo(WorkloadRefused, "%s", a.Refusal), false
	case missing && a.WorkloadOverdue:
		return undo(WorkloadMissing, "the controller made no Pod %s in time; look at the Sandbox's conditions and at the controller", p.box.PodName()), false
	case missing:
		return Step{Action: Await, Subject: SubjectWorkload}, false
	case w.Ownership == Theirs:
		return undo(Collision, "the Pod %s is not the Sandbox's: %s", w.Name, w.Detail), false
	case w.Ownership != OfThisRun:
		return undo(WorkloadAltered, "the Pod %s is not this run's: %s", w.Name, w.Detail), false
	case w.Altered != "":
		return undo(WorkloadAltered, "the admitted Pod %s: %s", w.Name, w.Altered), false
	case p.released() && w.UID != p.record.WorkloadUID:
		return undo(Broke, "the workload Pod was replaced after the supervisor was released"), false
	case !w.Gated && !p.released():
		return undo(GateLifted, "the workload Pod %s has lost its gate before the supervisor's was lifted", w.Name), false
	case w.Ended:
		return undo(Broke, "the workload Pod has ended: %s", w.Detail), false
	}
	return Step{}, true
}

// recorded puts both Pods, the fence and this attempt into the record before Secrets are made.
func (p *planner) recorded() (Step, bool) {
	supervisor, _ := p.facts.Supervisor.Value()
	workload, _ := p.facts.Workload.Value()
	fence, _ := p.facts.WorkloadFence.Value()
	next := p.record
	next.WorkloadUID, next.SupervisorUID = workload.UID, supervisor.UID
	next.FenceUID, next.FenceGeneration = fence.UID, fence.Generation
	if p.released() {
		if next != p.record {
			return undo(FenceAltered, "the fence was replaced or changed after the supervisor was released"), false
		}
		return Step{}, true
	}
	next.Attempt, next.Session, next.Epoch = p.facts.Attempt.ID, p.want.Run.Session, p.want.Run.Epoch
	if next == p.record {
		return Step{}, true
	}
	step := Step{Action: Write, Record: next, Afresh: p.takesOver()}
	if p.takesOver() && p.record.WorkloadUID == workload.UID {
		step.Inherits = workload.UID
	}
	return step, false
}

// ungated makes the Secrets and lifts the gates, the supervisor's first.
func (p *planner) ungated() (Step, bool) {
	supervisor, _ := p.facts.Supervisor.Value()
	workload, _ := p.facts.Workload.Value()
	service, _ := p.facts.Service.Value()
	a, r := p.facts.Attempt, p.record
	bound := Bound{Workload: workload.UID, Supervisor: supervisor.UID, Fence: r.FenceUID, FenceGeneration: r.FenceGeneration, Address: service.ClusterIP}
	switch {
	case bound.Workload == "" || bound.Supervisor == "" || bound.Fence == "":
		return unreadable("set", "an object of it has no uid"), false
	case supervisor.Gated && a.MadeFor != bound:
		afresh := a.Inherited != workload.UID && (a.Afresh || a.MadeFor != Bound{} || r.Operation == runstate.Restart)
		return Step{Action: MakeSecrets, Generation: r.Generation, For: bound, Afresh: afresh}, false
	case supervisor.Gated:
		return Step{Action: UngateSupervisor, UID: supervisor.UID}, false
	case workload.Gated:
		return Step{Action: UngateWorkload, UID: workload.UID}, false
	}
	return Step{}, true
}
