package conduct

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// TestGates: one at a time for each name, and nothing is kept of those that left.
func TestGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates()
		leave, err := g.enter(t.Context(), "a", false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.enter(t.Context(), "a", false); !errors.Is(err, ErrBusy) {
			t.Errorf("who does not wait: %v", err)
		}
		other, err := g.enter(t.Context(), "b", false)
		if err != nil {
			t.Fatalf("another name: %v", err)
		}
		other()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.enter(ctx, "a", true); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits too long: %v", err)
		}
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				leave, err := g.enter(t.Context(), "a", true)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				leave()
			}()
		}
		synctest.Wait()
		if len(order) != 0 {
			t.Error("somebody entered while another was in")
		}
		leave()
		synctest.Wait()
		if len(order) != 3 {
			t.Errorf("%d entered", len(order))
		}
		if len(g.held) != 0 {
			t.Errorf("%d names are kept", len(g.held))
		}
	})
}

// TestWatched: an attempt of another process may be taken over when it was seen unchanged for long enough, and not before.
func TestWatched(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWatched(func() time.Time { return now })
	expect := func(step, attempt string, may bool) {
		t.Helper()
		if got := w.mayTake("me", "box", attempt); got != may {
			t.Errorf("%s: %t", step, got)
		}
	}
	expect("no attempt", "", true)
	expect("our own", "me-1", true)
	expect("another process", "other-1", false)
	now = now.Add(takeOver)
	expect("for as long as it may work", "other-1", false)
	now = now.Add(time.Nanosecond)
	expect("longer", "other-1", true)
	expect("the next one", "other-2", false)
	now = now.Add(2 * takeOver)
	expect("longer again", "other-2", true)
	expect("our own meanwhile", "me-2", true)
	expect("and it begins anew", "other-2", false)
	expect("a name that only begins like ours", "mean-1", false)
}

// TestWatchedIsBounded: more Sandboxes than are watched make somebody wait anew, and nobody takes over early.
func TestWatchedIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWatched(func() time.Time { return now })
	for i := range 2 * mostWatched {
		if w.mayTake("me", fmt.Sprint(i), "other-1") {
			t.Fatalf("%d is taken over at first sight", i)
		}
	}
	if len(w.seen) != mostWatched {
		t.Errorf("%d are watched", len(w.seen))
	}
	now = now.Add(takeOver + 1)
	w.seen["mine"] = sighting{"other-1", now.Add(-takeOver)}
	if w.mayTake("me", "mine", "other-1") {
		t.Error("taken over at the last moment in which the other may be at work")
	}
}

// TestLimits: an attempt has ended, with its last request and clocks that run apart, before another one may take over, and a call may
// before the loop takes the start for abandoned.
func TestLimits(t *testing.T) {
	if attemptLimit+10*time.Second >= takeOver || workloadLimit >= attemptLimit || takeOver >= plan.IdleLimit {
		t.Errorf("attemptLimit %s, takeOver %s, workloadLimit %s, IdleLimit %s", attemptLimit, takeOver, workloadLimit, plan.IdleLimit)
	}
}
