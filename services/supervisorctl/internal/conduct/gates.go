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

// gate is a channel with room for one, how many use it, and how many are on their way to it.
type gate struct {
	turn            chan struct{}
	users, expected int
}

func newGates() *gates { return &gates{held: map[string]*gate{}} }

// at is the gate of a name, of which forget must be called once.
func (g *gates) at(name string) (at *gate, forget func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.held[name]
	if !ok {
		at = &gate{turn: make(chan struct{}, 1)}
		g.held[name] = at
	}
	at.users++
	return at, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if at.users--; at.users == 0 {
			delete(g.held, name)
		}
	}
}

// expect notes that somebody will enter, until forget is called once.
func (g *gates) expect(name string) (forget func()) {
	at, leave := g.at(name)
	g.count(at, 1)
	return func() { g.count(at, -1); leave() }
}

func (g *gates) count(at *gate, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at.expected += n
}

// expected reports whether somebody is noted.
func (g *gates) expected(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.held[name]
	return ok && at.expected > 0
}

// enter waits for its turn, or does not; leave must be called once.
func (g *gates) enter(ctx context.Context, name string, patient bool) (leave func(), err error) {
	at, forget := g.at(name)
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
	attempt, workload string
	since             time.Time
}

// mostWatched is how many Sandboxes are watched at once; beyond, a wait may begin anew.
const mostWatched = 4096

func newWatched(now func() time.Time) *watched {
	return &watched{now: now, seen: map[string]sighting{}}
}

// mayTake reports whether the attempt that the record of a Sandbox names cannot be at work any more. Of this process, whose name it
// begins with, it never is: the caller has the gate of this Sandbox. workload is the Pod that the record names: with it the time of an
// attempt begins anew.
func (w *watched) mayTake(process, sandboxUID, attempt, workload string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if attempt == "" || strings.HasPrefix(attempt, process+"-") {
		delete(w.seen, sandboxUID)
		return true
	}
	now := w.now()
	at, ok := w.seen[sandboxUID]
	if !ok || at.attempt != attempt || at.workload != workload {
		if !ok && len(w.seen) >= mostWatched {
			for uid := range w.seen {
				delete(w.seen, uid)
				break
			}
		}
		w.seen[sandboxUID] = sighting{attempt: attempt, workload: workload, since: now}
		return false
	}
	return now.Sub(at.since) > takeOver
}
