package flight

import (
	"context"
	"sync"
	"time"
)

// Group runs work for keys. Make it with New.
type Group[K comparable, V any] struct {
	mu      sync.Mutex
	lanes   map[K]*lane[V]
	stopped bool
	ended   sync.WaitGroup
}

// lane is what is to do for one key.
type lane[V any] struct {
	running, waiting *run[V]
}

// call is one that wants a run, with its deadline; the zero time is none.
type call struct{ deadline time.Time }

// run is one run of the work. value may be read once done is closed.
type run[V any] struct {
	work   func(context.Context) V
	ctx    context.Context
	cancel context.CancelFunc
	// calls are those that want it; the group's lock guards them.
	calls map[*call]struct{}
	// deadline is the latest of the calls', from when the run begins; the zero time is none.
	deadline time.Time
	done     chan struct{}
	value    V
}

// New makes a group without any work.
func New[K comparable, V any]() *Group[K, V] {
	return &Group[K, V]{lanes: map[K]*lane[V]{}}
}

// Do gives the result of work, run for this call alone or for several calls with the same key. work must be the same for
// the same key, must not panic, and ends soon after its context. That has the values of the context of one of the calls, and
// the latest deadline of the calls that want the run when it begins; none when one of them has none. shared says that the call
// came to a run that another call had made; the one that made it is not told whether others came. The error is that of ctx,
// which ended before there was a result, or context.Canceled after Stop.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) V) (value V, shared bool, err error) {
	c := &call{}
	c.deadline, _ = ctx.Deadline()
	r, shared := g.join(ctx, c, key, work)
	if r == nil {
		return value, false, context.Canceled
	}
	select {
	case <-r.done:
		return r.value, shared, nil
	case <-ctx.Done():
	}
	select {
	case <-r.done: // there is a result after all
		return r.value, shared, nil
	default:
	}
	g.leave(key, r, c)
	return value, shared, ctx.Err()
}

// join finds the run that begins after now, and makes it when there is none.
func (g *Group[K, V]) join(ctx context.Context, c *call, key K, work func(context.Context) V) (r *run[V], shared bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, false
	}
	l := g.lanes[key]
	if l != nil && l.waiting != nil {
		l.waiting.calls[c] = struct{}{}
		return l.waiting, true
	}
	r = &run[V]{work: work, calls: map[*call]struct{}{c: {}}, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // fly cancels it when the run has ended, leave when nobody wants it
	if l != nil {
		l.waiting = r
		return r, false
	}
	l = &lane[V]{running: r}
	g.lanes[key] = l
	r.deadline = r.latest()
	g.ended.Go(func() { g.fly(key, l, r) })
	return r, false
}

// latest is the latest deadline of the calls that want r; the group's lock is held.
func (r *run[V]) latest() time.Time {
	var latest time.Time
	for c := range r.calls {
		if c.deadline.IsZero() {
			return time.Time{}
		}
		if c.deadline.After(latest) {
			latest = c.deadline
		}
	}
	return latest
}

// leave takes one call off a run.
func (g *Group[K, V]) leave(key K, r *run[V], c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(r.calls, c)
	if len(r.calls) > 0 {
		return
	}
	r.cancel()
	if l := g.lanes[key]; l != nil && l.waiting == r {
		l.waiting = nil
	}
}

// fly runs what there is to run for a key, one after the other.
func (g *Group[K, V]) fly(key K, l *lane[V], r *run[V]) {
	for r != nil {
		r.fly()
		r = g.next(key, l)
	}
}

func (r *run[V]) fly() {
	defer close(r.done)
	defer r.cancel()
	ctx := r.ctx
	if !r.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.deadline)
		defer cancel()
	}
	r.value = r.work(ctx)
}

func (g *Group[K, V]) next(key K, l *lane[V]) *run[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.running, l.waiting = l.waiting, nil
	if l.running == nil {
		delete(g.lanes, key)
		return nil
	}
	l.running.deadline = l.running.latest()
	return l.running
}

// Stop ends the contexts of all runs, waits until none is left, and refuses every later Do.
func (g *Group[K, V]) Stop() {
	g.mu.Lock()
	g.stopped = true
	for _, l := range g.lanes {
		for _, r := range []*run[V]{l.running, l.waiting} {
			if r != nil {
				r.cancel()
			}
		}
	}
	g.mu.Unlock()
	g.ended.Wait()
}
