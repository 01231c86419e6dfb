package conduct

import (
	"context"
	"sync"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// teller says once that a Pod may have changed. Nothing is decided by it but when to look. The zero teller never says so.
type teller struct {
	// changed is closed when the Pod is said to have changed, or else ended when nobody will say so.
	changed, ended chan struct{}
	// heard says that it was said.
	heard bool
}

// told has a Pod watched from the state that was seen; of a Sandbox nobody tells. stop must be called.
func (r *round) told(ctx context.Context, subject plan.Subject) (t *teller, stop func()) {
	name, seen := workspace.SupervisorPod(r.goal.Ref.SandboxID), r.seen.supervisor
	switch subject {
	case plan.SubjectSupervisor:
	case plan.SubjectWorkload:
		name, seen = r.workloadName(), r.seen.workload
	default:
		return &teller{}, func() {}
	}
	version := ""
	if seen.value != nil {
		version = seen.value.ResourceVersion
	}
	t = &teller{changed: make(chan struct{}), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		if err := r.cluster.AwaitPod(ctx, r.goal.Ref.Namespace, name, version); err != nil {
			close(t.ended)
			return
		}
		close(t.changed)
	})
	return t, func() { cancel(); watching.Wait() }
}

// watches reports whether it is still to be said.
func (t *teller) watches() bool {
	select {
	case <-t.changed:
		return false
	case <-t.ended:
		return false
	default:
		return t.changed != nil
	}
}

// sleep waits until the Pod is said to have changed, which it then reports, until nobody will say so, or for a time, which is short where
// that is so already. ok is false when ctx ends first.
func (t *teller) sleep(ctx context.Context, short time.Duration) (heard, ok bool) {
	wait, changed, ended := unasked, t.changed, t.ended
	if !t.watches() {
		wait, ended = short, nil
	}
	if t.heard {
		changed = nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
		t.heard = true
		return true, true
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
		return false, false
	}
	return false, true
}
