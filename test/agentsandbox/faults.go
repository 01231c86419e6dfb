package agentsandbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

// Faults lets a test interfere with a controller at a step. The zero value interferes with nothing. All methods may be
// called at any time and from any goroutine.
type Faults struct {
	mu    sync.Mutex
	rules map[reconcile.Step]rule
	held  map[waiting]int
	// changed is closed and replaced whenever rules or held change.
	changed chan struct{}
}

type rule struct {
	hold  bool
	delay time.Duration
	err   error
}

type waiting struct {
	step    reconcile.Step
	sandbox types.NamespacedName
}

// Hold stops every reconciliation that reaches the step until Release. Holding [reconcile.Observe] pauses the controller.
func (f *Faults) Hold(step reconcile.Step) { f.edit(step, func(r *rule) { r.hold = true }) }

// Release lets the held ones go on.
func (f *Faults) Release(step reconcile.Step) { f.edit(step, func(r *rule) { r.hold = false }) }

// Delay makes the step take at least d longer; 0 ends it.
func (f *Faults) Delay(step reconcile.Step, d time.Duration) {
	f.edit(step, func(r *rule) { r.delay = d })
}

// Fail makes the step fail with err instead of being carried out; nil ends it. The controller reports the failure as the
// real one would (Ready=False/ReconcilerError) and tries again with growing pauses.
func (f *Faults) Fail(step reconcile.Step, err error) { f.edit(step, func(r *rule) { r.err = err }) }

// AwaitHeld returns once the reconciliation of a Sandbox is held at the step, or with the reason why ctx ended first.
func (f *Faults) AwaitHeld(ctx context.Context, step reconcile.Step, sandbox types.NamespacedName) error {
	for {
		f.mu.Lock()
		there, changed := f.held[waiting{step, sandbox}] > 0, f.changes()
		f.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until sandbox %s is held at step %s: %w", sandbox, step, context.Cause(ctx))
		}
	}
}

// at applies the rules of a step: hold, then delay, then fail.
func (f *Faults) at(ctx context.Context, step reconcile.Step, sandbox types.NamespacedName) error {
	if f == nil {
		return nil
	}
	if err := f.pass(ctx, waiting{step, sandbox}); err != nil {
		return err
	}
	f.mu.Lock()
	r := f.rules[step]
	f.mu.Unlock()
	if r.delay > 0 {
		timer := time.NewTimer(r.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.err
}

// pass returns when the step is not held.
func (f *Faults) pass(ctx context.Context, w waiting) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.rules[w.step].hold {
		return nil
	}
	if f.held == nil {
		f.held = map[waiting]int{}
	}
	f.held[w]++
	f.announce()
	defer func() { f.held[w]--; f.announce() }()
	for f.rules[w.step].hold {
		changed := f.changes()
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		f.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Faults) edit(step reconcile.Step, change func(*rule)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rules == nil {
		f.rules = map[reconcile.Step]rule{}
	}
	r := f.rules[step]
	change(&r)
	f.rules[step] = r
	f.announce()
}

// changes returns the channel that the next announce closes. The caller holds mu.
func (f *Faults) changes() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

func (f *Faults) announce() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}
