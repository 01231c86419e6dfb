package flight

import (
	"context"
	"sync"
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

// run is one run of the work. value may be read once done is closed.
type run[V any] struct {
	work   func(context.Context) V
	ctx    context.Context
	cancel context.CancelFunc
	// wanted is how many calls wait; the group's lock guards it.
	wanted int
	done   chan struct{}
	value  V
}

// New makes a group without any work.
func New[K comparable, V any]() *Group[K, V] {
	return &Group[K, V]{lanes: map[K]*lane[V]{}}
}

// Do gives the result of work, run for this call alone or for several calls with the same key. work must be the same for
// the same key, must not panic, and ends soon after its context; it has the values of the context of one of the calls, and
// the deadline of none. shared says that more than this call wanted the run. The error is that of ctx, which ended before
// there was a result, or context.Canceled after Stop.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) V) (value V, shared bool, err error) {
	r, shared := g.join(ctx, key, work)
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
	g.leave(key, r)
	return value, shared, ctx.Err()
}

// join finds the run that begins after now, and makes it when there is none.
func (g *Group[K, V]) join(ctx context.Context, key K, work func(context.Context) V) (r *run[V], shared bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, false
	}
	l := g.lanes[key]
	if l != nil && l.waiting != nil {
		l.waiting.wanted++
		return l.waiting, true
	}
	r = &run[V]{work: work, wanted: 1, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // fly cancels it when the run has ended, leave when nobody wants it
	if l != nil {
		l.waiting = r
		return r, false
	}
	l = &lane[V]{running: r}
	g.lanes[key] = l
	g.ended.Go(func() { g.fly(key, l, r) })
	return r, false
}

// leave takes one call off a run.
func (g *Group[K, V]) leave(key K, r *run[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.wanted--; r.wanted > 0 {
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
		r.value = r.work(r.ctx)
		r.cancel()
		close(r.done)
		r = g.next(key, l)
	}
}

func (g *Group[K, V]) next(key K, l *lane[V]) *run[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.running, l.waiting = l.waiting, nil
	if l.running == nil {
		delete(g.lanes, key)
	}
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
