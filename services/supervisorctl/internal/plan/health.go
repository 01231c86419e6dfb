package plan

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

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
	switch s, ok := p.facts.Service.Value(); {
	case p.facts.Service.Absent():
		return Broke, "the boundary Service is gone"
	case ok && s.Deleting:
		return Broke, "the boundary Service is being deleted"
	case ok && s.Ownership != OfThisRun:
		return Broke, "the boundary Service was replaced or altered: " + s.Detail
	}
	if why := lost("supervisor", p.facts.Supervisor, r.SupervisorUID); why != "" {
		return Broke, why
	}
	s, seen := p.facts.Supervisor.Value()
	switch {
	case s.Altered != "":
		return Broke, "the supervisor Pod was altered: " + s.Altered
	case seen && s.Ownership == Theirs:
		return Broke, "the supervisor Pod was altered: " + s.Detail
	}
	if s.Ended || s.Restarted && !s.Ready && r.Phase == "" {
		return cmp.Or(s.Cause, Broke), "the supervisor has ended: " + s.Detail
	}
	if why := lost("workload", p.facts.Workload, r.WorkloadUID); why != "" {
		return Broke, why
	}
	w, seen := p.facts.Workload.Value()
	switch {
	case w.Altered != "":
		return WorkloadAltered, "the workload Pod was altered after it was released: " + w.Altered
	case seen && w.Ownership == Theirs:
		return WorkloadAltered, "the workload Pod was altered after it was released: " + w.Detail
	}
	if w.Ended && r.Phase != "" {
		return cmp.Or(w.Cause, Broke), "the workload has ended before the run was ready: " + w.Detail
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

// sight is one of the Pods, as it was seen.
type sight struct {
	what string
	seen Known[Pod]
}

// pods are both, the workload first: as long as it does not run, its supervisor cannot be ready.
func (p *planner) pods() [2]sight {
	return [...]sight{{"workload Pod", p.facts.Workload}, {"supervisor Pod", p.facts.Supervisor}}
}

// hopeless says what keeps a run from ever being ready, whatever is waited for; empty when nothing does.
func (p *planner) hopeless() (reason verdict.Reason, why string) {
	for _, pod := range p.pods() {
		if found, ok := pod.seen.Value(); ok && found.Hopeless && !found.Ready {
			return cmp.Or(found.Cause, NotReady), "the " + pod.what + " can never be ready: " + found.Detail
		}
	}
	return "", ""
}

// doomed says what hardly lets a run ever be ready; empty when nothing does.
func (p *planner) doomed() (reason verdict.Reason, why string) {
	for _, pod := range p.pods() {
		if found, ok := pod.seen.Value(); ok && found.Doomed && !found.Ready {
			return cmp.Or(found.Cause, NotReady), "the " + pod.what + " is not ready: " + found.Detail
		}
	}
	return "", ""
}

// hindrance is what was said last about why a run is not ready: the reason of the first Pod that has one, and the words of all.
func (p *planner) hindrance() (reason verdict.Reason, why string) {
	var said []string
	for _, pod := range p.pods() {
		found, ok := pod.seen.Value()
		if !ok || found.Ready {
			continue
		}
		reason = cmp.Or(reason, found.Cause)
		said = append(said, "the "+pod.what+" is not ready: "+cmp.Or(found.Detail, "nothing says why"))
	}
	if c, ok := p.box.Condition(sandboxapi.ConditionReady); ok && c.Status != string(metav1.ConditionTrue) && c.Message != "" {
		said = append(said, "the controller says of the Sandbox: "+bounded(c.Message))
	}
	if len(said) == 0 {
		said = []string{"nothing says why"}
	}
	return cmp.Or(reason, NotReady), strings.Join(said, "; ")
}
