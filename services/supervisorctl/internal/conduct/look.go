package conduct

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// seen is what the last look, and the writes since, found. A nil object with a nil error is one that is not there.
type seen struct {
	box                  got[sandboxapi.Object]
	fence, egress        got[networkingv1.NetworkPolicy]
	service              got[corev1.Service]
	supervisor, workload got[corev1.Pod]
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
	var reads sync.WaitGroup
	reads.Go(func() { s.fence = take(r.cluster.Policy(ctx, ref.Namespace, workspace.WorkloadFence)) })
	reads.Go(func() { s.egress = take(r.cluster.Policy(ctx, ref.Namespace, workspace.SupervisorEgress)) })
	reads.Go(func() {
		s.service = take(r.cluster.Service(ctx, ref.Namespace, workspace.BoundaryService(ref.SandboxID)))
	})
	reads.Go(func() { s.supervisor = take(r.cluster.Pod(ctx, ref.Namespace, workspace.SupervisorPod(ref.SandboxID))) })
	reads.Go(func() {
		s.box = take(r.cluster.Sandbox(ctx, ref.Namespace, ref.Name))
		r.lookAtWorkload(ctx)
	})
	reads.Wait()
}

// lookAround reads again what may have changed while a workload was waited for: both policies, and the Sandbox, of which the
// controller will have written the status.
func (r *round) lookAround(ctx context.Context) {
	var reads sync.WaitGroup
	reads.Go(func() { r.lookAt(ctx, plan.SubjectSandbox) })
	reads.Go(func() { r.seen.fence = take(r.cluster.Policy(ctx, r.goal.Ref.Namespace, workspace.WorkloadFence)) })
	reads.Go(func() { r.seen.egress = take(r.cluster.Policy(ctx, r.goal.Ref.Namespace, workspace.SupervisorEgress)) })
	reads.Wait()
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
