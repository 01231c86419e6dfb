package conduct

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// seen is what the last look, and the writes since, found. A nil object with a nil error is one that is not there.
type seen struct {
	box                  got[sandboxapi.Object]
	fence, egress        got[networkingv1.NetworkPolicy]
	service              got[corev1.Service]
	supervisor, workload got[corev1.Pod]
	// all are the policies of the namespace, which are only looked through for a report of Keep.
	all got[[]networkingv1.NetworkPolicy]
}

type got[T any] struct {
	value *T
	err   error
}

func take[T any](value *T, err error) got[T] {
	if errors.Is(err, cluster.ErrAbsent) {
		return got[T]{}
	}
	return got[T]{value: value, err: err}
}

// known is what was found, in the planner's words.
func known[T, P any](g got[T], in func(*T) P) plan.Known[P] {
	switch {
	case g.err != nil:
		return plan.Failed[P](g.err)
	case g.value == nil:
		return plan.Absent[P]()
	}
	return plan.Found(in(g.value))
}

// look reads everything, at once where one does not depend on another.
func (r *round) look(ctx context.Context) {
	ref, s := r.goal.Ref, &r.seen
	if first := !r.looked; r.goal.Goal == plan.Provision && first {
		r.looked = true
		r.lookAtNew(ctx)
		return
	}
	var all reads
	if r.goal.Goal == plan.Keep { // which reports it
		all.begin(func() {
			policies, err := r.cluster.Policies(ctx, ref.Namespace)
			s.all = got[[]networkingv1.NetworkPolicy]{value: &policies, err: err}
		})
	}
	r.lookAtSet(ctx)
	all.wait()
}

// lookAtNew reads the Sandbox and the fence, and the rest of the set unless the record says that nobody has begun to make it. Then it is
// taken for absent, which proves nothing and need not: what comes first for each of them is a write that is refused when it is there, and a
// whole look after that; and the workload Pod, which is there only when the Sandbox runs, is waited for, and looked at, before anything rests on
// it.
func (r *round) lookAtNew(ctx context.Context) {
	var all reads
	all.begin(func() { r.lookAt(ctx, plan.SubjectSandbox) })
	all.begin(func() { r.lookAtFence(ctx) })
	all.wait()
	if r.untouched() {
		return
	}
	ref, s := r.goal.Ref, &r.seen
	all.begin(func() {
		s.service = take(r.cluster.Service(ctx, ref.Namespace, workspace.BoundaryService(ref.SandboxID)))
	})
	all.begin(func() { r.lookAt(ctx, plan.SubjectSupervisor) })
	all.begin(func() { r.lookAtWorkload(ctx) })
	all.wait()
}

// untouched reports whether the Sandbox is as lifecycle makes it for a create.
func (r *round) untouched() bool {
	box := r.seen.box.value
	if box == nil || box.Mode != sandboxapi.Suspended {
		return false
	}
	record, err := runstate.Of(box.Annotations)
	return err == nil && record.Operation == runstate.Create && record.Phase == runstate.Preparing &&
		record.Attempt == "" && record.SupervisorUID == "" && record.WorkloadUID == ""
}

// lookAtSet reads the Sandbox and its set.
func (r *round) lookAtSet(ctx context.Context) {
	ref, s := r.goal.Ref, &r.seen
	var all reads
	all.begin(func() { s.fence = take(r.cluster.Policy(ctx, ref.Namespace, workspace.WorkloadFence)) })
	all.begin(func() { s.egress = take(r.cluster.Policy(ctx, ref.Namespace, workspace.SupervisorEgress)) })
	all.begin(func() {
		s.service = take(r.cluster.Service(ctx, ref.Namespace, workspace.BoundaryService(ref.SandboxID)))
	})
	all.begin(func() { s.supervisor = take(r.cluster.Pod(ctx, ref.Namespace, workspace.SupervisorPod(ref.SandboxID))) })
	// The workload Pod is read after the Sandbox: that it is absent while the Sandbox is suspended means that it is gone for good. Only a
	// call that raises a run has it read beside the Sandbox, by the name that it had last.
	name, beside := r.workloadName(), r.goal.Goal == plan.Provision
	if beside {
		all.begin(func() { s.workload = take(r.cluster.Pod(ctx, ref.Namespace, name)) })
	}
	all.begin(func() {
		s.box = take(r.cluster.Sandbox(ctx, ref.Namespace, ref.Name))
		if !beside {
			r.lookAtWorkload(ctx)
		}
	})
	all.wait()
	if beside && !r.tells(name) {
		r.lookAtWorkload(ctx)
	}
}

// tells reports whether what was read of a Pod of that name, beside the Sandbox, says something about its workload: the Pod is there, or
// is not there yet because the Sandbox is still suspended.
func (r *round) tells(name string) bool {
	s := &r.seen
	return s.box.value != nil && s.box.value.PodName() == name && s.workload.err == nil &&
		(s.workload.value != nil || s.box.value.Mode == sandboxapi.Suspended)
}

// releases reports whether an action lets something go that cannot be had back: credentials, or a Pod. What it rests on is read right
// before it, so that whatever somebody has done to the fence meanwhile is seen.
func releases(action plan.Action) bool {
	return action == plan.MakeSecrets || action == plan.UngateSupervisor || action == plan.UngateWorkload
}

// lookBefore reads again what an action that releases something rests on: before the Secrets the whole set, and before each gate both
// policies. The Pod is not: its gate is lifted only of the very version that was seen.
func (r *round) lookBefore(ctx context.Context, action plan.Action) {
	if action == plan.MakeSecrets {
		r.lookAtSet(ctx)
		return
	}
	r.lookAtFence(ctx)
}

func (r *round) lookAtFence(ctx context.Context) {
	var all reads
	all.begin(func() { r.seen.fence = take(r.cluster.Policy(ctx, r.goal.Ref.Namespace, workspace.WorkloadFence)) })
	all.begin(func() { r.seen.egress = take(r.cluster.Policy(ctx, r.goal.Ref.Namespace, workspace.SupervisorEgress)) })
	all.wait()
}

// lookAround reads again what may have changed while a workload was waited for, and what is needed next: the Sandbox, and the uid of the
// namespace unless it is known. The fence is read again before anything is let go.
func (r *round) lookAround(ctx context.Context) {
	var all reads
	name := r.workloadName()
	all.begin(func() { r.lookAt(ctx, plan.SubjectSandbox) })
	all.begin(func() { r.seen.workload = take(r.cluster.Pod(ctx, r.goal.Ref.Namespace, name)) })
	all.begin(func() { r.namespace = r.lookAtNamespace(ctx) })
	all.wait()
}

// workloadName is the name of the workload Pod as far as is known.
func (r *round) workloadName() string {
	if box := r.seen.box.value; box != nil {
		return box.PodName()
	}
	return r.goal.Ref.Name
}

// lookAtWorkload reads the workload Pod, whose name only the Sandbox knows.
func (r *round) lookAtWorkload(ctx context.Context) {
	s, name := &r.seen, r.goal.Ref.Name
	switch {
	case s.box.err != nil:
		s.workload = got[corev1.Pod]{err: s.box.err}
		return
	case s.box.value != nil:
		name = s.box.value.PodName()
	}
	s.workload = take(r.cluster.Pod(ctx, r.goal.Ref.Namespace, name))
}

// lookAt reads one subject again.
func (r *round) lookAt(ctx context.Context, subject plan.Subject) {
	ref, s := r.goal.Ref, &r.seen
	switch subject {
	case plan.SubjectSupervisor:
		s.supervisor = take(r.cluster.Pod(ctx, ref.Namespace, workspace.SupervisorPod(ref.SandboxID)))
	case plan.SubjectWorkload:
		r.lookAtWorkload(ctx)
	case plan.SubjectSandbox:
		s.box = take(r.cluster.Sandbox(ctx, ref.Namespace, ref.Name))
	}
}
