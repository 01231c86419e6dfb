package driver

import (
	"context"
	"strings"
	"sync"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// gates let one call at a time through for each sandbox id (contract 7.1).
type gates struct {
	mu   sync.Mutex
	held map[string]*gate
}

// gate is a channel with room for one, and how many use it.
type gate struct {
	turn  chan struct{}
	users int
}

func newGates() *gates { return &gates{held: map[string]*gate{}} }

// enter waits for its turn. leave must be called once when there is no error. Ids that differ only in case have the same
// companions (contract 4.2) and so one gate.
func (g *gates) enter(ctx context.Context, id string) (leave func(), err error) {
	id = strings.ToLower(id)
	g.mu.Lock()
	at, ok := g.held[id]
	if !ok {
		at = &gate{turn: make(chan struct{}, 1)}
		g.held[id] = at
	}
	at.users++
	g.mu.Unlock()
	forget := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if at.users--; at.users == 0 {
			delete(g.held, id)
		}
	}
	select {
	case at.turn <- struct{}{}:
		return func() { <-at.turn; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, refuse(verdict.CallEnded, "gate", "another call works on the sandbox, and this one ended before its turn: %v", context.Cause(ctx))
	}
}
