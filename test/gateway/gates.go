package gateway

import (
	"context"
	"sync"
)

// gates are the lifecycle gates, one per sandbox, held by whoever changes what runs.
type gates struct {
	mu  sync.Mutex
	all map[string]*gate
}

type gate struct {
	token chan struct{} // holds one value while the gate is held
	users int           // who hold it or wait for it
}

func newGates() *gates { return &gates{all: map[string]*gate{}} }

func (g *gates) use(id string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.all[id]
	if one == nil {
		one = &gate{token: make(chan struct{}, 1)}
		g.all[id] = one
	}
	one.users++
	return one
}

func (g *gates) leave(id string, one *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(g.all, id)
	}
}

// lock waits for the gate; unlock gives it back. The error is ctx's.
func (g *gates) lock(ctx context.Context, id string) (unlock func(), err error) {
	one := g.use(id)
	select {
	case one.token <- struct{}{}:
		return func() {
			<-one.token
			g.leave(id, one)
		}, nil
	case <-ctx.Done():
		g.leave(id, one)
		return nil, ctx.Err()
	}
}

// tryLock takes the gate if nobody has it.
func (g *gates) tryLock(id string) (unlock func(), ok bool) {
	one := g.use(id)
	select {
	case one.token <- struct{}{}:
		return func() {
			<-one.token
			g.leave(id, one)
		}, true
	default:
		g.leave(id, one)
		return nil, false
	}
}
