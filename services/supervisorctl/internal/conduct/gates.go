package conduct

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// gates let one at a time through for each name.
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

// enter waits for its turn, or does not; leave must be called once.
func (g *gates) enter(ctx context.Context, name string, patient bool) (leave func(), err error) {
	g.mu.Lock()
	at, ok := g.held[name]
	if !ok {
		at = &gate{turn: make(chan struct{}, 1)}
		g.held[name] = at
	}
	at.users++
	g.mu.Unlock()
	forget := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if at.users--; at.users == 0 {
			delete(g.held, name)
		}
	}
	leave = func() { <-at.turn; forget() }
	select {
	case at.turn <- struct{}{}:
		return leave, nil
	default:
	}
	if !patient {
		forget()
		return nil, ErrBusy
	}
	select {
	case at.turn <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("%w, and the call ended before its turn: %w", ErrBusy, context.Cause(ctx))
	}
}

// watched knows for how long attempts of other processes were seen. It is no memory of what was done: without it the wait begins
// anew.
type watched struct {
	now  func() time.Time
	mu   sync.Mutex
	seen map[string]sighting // by uid of the Sandbox
}

type sighting struct {
	attempt string
	since   time.Time
}

// mostWatched is how many Sandboxes are watched at once; beyond, a wait may begin anew.
const mostWatched = 4096

func newWatched(now func() time.Time) *watched {
	return &watched{now: now, seen: map[string]sighting{}}
}

// mayTake reports whether the attempt that the record of a Sandbox names cannot be at work any more. Of this process, whose name it
// begins with, it never is: the caller has the gate of this Sandbox.
func (w *watched) mayTake(process, sandboxUID, attempt string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if attempt == "" || strings.HasPrefix(attempt, process+"-") {
		delete(w.seen, sandboxUID)
		return true
	}
	now := w.now()
	at, ok := w.seen[sandboxUID]
	if !ok || at.attempt != attempt {
		if !ok && len(w.seen) >= mostWatched {
			for uid := range w.seen {
				delete(w.seen, uid)
				break
			}
		}
		w.seen[sandboxUID] = sighting{attempt: attempt, since: now}
		return false
	}
	return now.Sub(at.since) > takeOver
}
