package service

import (
	"context"
	"sync"
)

// turns let at most so many work at once, in all and for each namespace. Who waits for a namespace takes no room of the others.
type turns struct {
	all          chan struct{}
	perNamespace int

	mu         sync.Mutex
	namespaces map[string]*lane
}

// lane is a namespace's room, and how many use it or wait for it.
type lane struct {
	room  chan struct{}
	users int
}

func newTurns(all, perNamespace int) *turns {
	return &turns{all: make(chan struct{}, all), perNamespace: perNamespace, namespaces: map[string]*lane{}}
}

// take waits for a turn. leave must be called once when the error is nil.
func (t *turns) take(ctx context.Context, namespace string) (leave func(), err error) {
	t.mu.Lock()
	l, ok := t.namespaces[namespace]
	if !ok {
		l = &lane{room: make(chan struct{}, t.perNamespace)}
		t.namespaces[namespace] = l
	}
	l.users++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.namespaces, namespace)
		}
	}
	select {
	case l.room <- struct{}{}:
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
	select {
	case t.all <- struct{}{}:
		return func() { <-t.all; <-l.room; forget() }, nil
	case <-ctx.Done():
		<-l.room
		forget()
		return nil, context.Cause(ctx)
	}
}

func (t *turns) taken() int { return len(t.all) }
