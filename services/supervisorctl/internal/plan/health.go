package plan

import "github.com/portcullis-mesh/portcullis/shared/verdict"

// policy is one of the two of the fence, as it was seen.
type policy struct {
	what string
	seen Known[Policy]
	make Action
}

func (p *planner) policies() [2]policy {
	return [...]policy{
		{"policy that fences workloads", p.facts.WorkloadFence, CreateWorkloadFence},
		{"policy for supervisors", p.facts.SupervisorFence, CreateSupervisorFence},
	}
}

// unfenced says what of the fence is known to be wrong; empty when nothing is. A policy that is missing is wrong when both must be
// there already.
func (p *planner) unfenced(must bool) (reason verdict.Reason, why string) {
	for _, policy := range p.policies() {
		found, ok := policy.seen.Value()
		switch {
		case policy.seen.Absent() && must:
			return Broke, "the " + policy.what + " is gone"
		case ok && found.Standing == Foreign:
			return Collision, "the " + policy.what + " is not ours: " + found.Difference
		case ok && found.Standing != Stands:
			return FenceAltered, "the " + policy.what + " is not what it must be: " + found.Difference
		}
	}
	return "", ""
}

// harm says what of the released run that the record names is known to be gone or changed; empty when nothing is. What is not known
// does no harm (availability of contract 7.13: Unavailable comes before Unknown).
func (p *planner) harm() (reason verdict.Reason, why string) {
	if reason, why := p.unfenced(true); why != "" {
		return reason, why
	}
	r := p.record
	if fence, ok := p.facts.WorkloadFence.Value(); ok && (fence.UID != r.FenceUID || fence.Generation != r.FenceGeneration) {
		return FenceAltered, "the policy that fences workloads was replaced or changed since the run was released behind it"
	}
	if s, ok := p.facts.Service.Value(); p.facts.Service.Absent() || ok && (s.Ownership != OfThisRun || s.Deleting) {
		return Broke, "the boundary Service is gone, replaced, altered or being deleted: " + s.Detail
	}
	if why := lost("supervisor", p.facts.Supervisor, r.SupervisorUID); why != "" {
		return Broke, why
	}
	s, _ := p.facts.Supervisor.Value()
	if s.Ended || s.Restarted && !s.Ready && r.Phase == "" {
		return Broke, "the supervisor has ended: " + s.Detail
	}
	if why := lost("workload", p.facts.Workload, r.WorkloadUID); why != "" {
		return Broke, why
	}
	if w, _ := p.facts.Workload.Value(); w.Ended && r.Phase != "" {
		return Broke, "the workload has ended before the run was ready: " + w.Detail
	}
	return "", ""
}

// lost says how a Pod of the run is not there any more; empty when it is, or when that is not known.
func lost(which string, seen Known[Pod], uid string) string {
	pod, ok := seen.Value()
	switch {
	case seen.Absent():
		return "the " + which + " Pod is gone"
	case !ok:
		return ""
	case uid == "" || pod.UID != uid:
		return "the " + which + " Pod is not the one that was released"
	case pod.Deleting:
		return "the " + which + " Pod is being deleted"
	case pod.Gated:
		return "the " + which + " Pod has its gate again"
	}
	return ""
}

// doubt says which part of the set could not be read, and why; empty when all could.
func (p *planner) doubt() (what, why string) {
	for _, policy := range p.policies() {
		if why, unknown := policy.seen.unknown(); unknown {
			return policy.what, why
		}
	}
	if why, unknown := p.facts.Service.unknown(); unknown {
		return "boundary Service", why
	}
	if why, unknown := p.facts.Supervisor.unknown(); unknown {
		return "supervisor Pod", why
	}
	if why, unknown := p.facts.Workload.unknown(); unknown {
		return "workload Pod", why
	}
	return "", ""
}
