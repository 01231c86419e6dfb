package conduct

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
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

// TestAStartThatIsExpected is not taken for abandoned while its call waits, and is when it does not; another Sandbox's call is none, and
// what has come to harm is ended meanwhile.
func TestAStartThatIsExpected(t *testing.T) {
	keep := func(s *site) Goal {
		return Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}, Idle: plan.IdleLimit, Still: s.still()}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, newWorld(fresh()))
		forget, second := s.Expect(theRef()), s.Expect(theRef())
		s.do(keep(s))
		forget()
		s.do(keep(s))
		if done := s.world.done(); len(done) != 0 {
			t.Errorf("while a call waits: %v", done)
		}
		s.do(s.goal(plan.Provision))
		s.world.change(func(w *world) { w.end(supervisorPod) })
		if out := s.do(keep(s)); out.Step.Reason != plan.Broke {
			t.Errorf("of a run that broke while a call waits: %+v", out.Step)
		}
		second()
		if len(s.gates.held) != 0 {
			t.Errorf("%d names are kept", len(s.gates.held))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, newWorld(fresh()))
		other := theRef()
		other.Name += "-2"
		defer s.Expect(other)()
		if out := s.do(keep(s)); out.Step.Reason != plan.Broke {
			t.Errorf("nobody waits: %+v", out.Step)
		}
	})
}

// TestWhoLeads is known for as long as a term lasts, also when two of them overlap.
func TestWhoLeads(t *testing.T) {
	s := newSite(t, newWorld(fresh()))
	first, second := s.Lead(), s.Lead()
	first()
	if !s.Leads() {
		t.Error("the second term is not over")
	}
	if second(); s.Leads() {
		t.Error("both terms are over")
	}
}

// TestWatched: an attempt of another process may be taken over when it was seen unchanged for long enough, and not before.
func TestWatched(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWatched(func() time.Time { return now })
	pod := ""
	expect := func(step, attempt string, may bool) {
		t.Helper()
		if got := w.mayTake("me", "box", attempt, pod); got != may {
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
	pod = "workload"
	expect("longer, and it has come further", "other-1", false)
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
		if w.mayTake("me", fmt.Sprint(i), "other-1", "") {
			t.Fatalf("%d is taken over at first sight", i)
		}
	}
	if len(w.seen) != mostWatched {
		t.Errorf("%d are watched", len(w.seen))
	}
	now = now.Add(takeOver + 1)
	w.seen["mine"] = sighting{"other-1", "", now.Add(-takeOver)}
	if w.mayTake("me", "mine", "other-1", "") {
		t.Error("taken over at the last moment in which the other may be at work")
	}
}

// TestLimits: an attempt has ended, with its last request and clocks that run apart, before another one may take over, and a call may
// before the loop takes the start for abandoned; and what a call waits for, one after another, is over within a minute.
func TestLimits(t *testing.T) {
	if attemptLimit+undoLimit >= takeOver {
		t.Errorf("attemptLimit %s, undoLimit %s, takeOver %s: an attempt is undone while another one may take over", attemptLimit, undoLimit, takeOver)
	}
	if nameLimit+undoLimit >= takeOver { // an attempt without a Pod may be undone that late, so that the record has to be looked at
		now := newSite(t, newWorld(fresh()))
		now.world.change(func(w *world) {
			r := runstate.Record{Bootstrapping: true, StartedAt: 1, Operation: runstate.Create, Phase: runstate.Preparing, Generation: generation, Session: session, Epoch: 1, Attempt: "another-1", Readiness: runstate.Unavailable}
			w.box.Annotations = r.Annotations()
		})
		facts := now.Look(t.Context(), theRef()).Facts
		undo := now.goal(plan.Provision).Undone(plan.Step{Reason: plan.WorkloadMissing, Explanation: "no"}, "one-1")
		if step := plan.Next(undo, &facts); step.Action != plan.Refuse || step.Reason != plan.IsAnother {
			t.Errorf("an attempt that is undone late stops the run of another one: %+v", step)
		}
	}
	// What an API server, a controller and a garbage collector that are well take for a few steps.
	const prompt = 5 * time.Second
	for name, waits := range map[string]time.Duration{
		"a take-over that finds a Secret in its way, which it does not wait for": takeOver + longestPause + prompt + undoLimit + prompt,
		"a restart that waits for the Secrets of the former run":                 goingLimit + seldom + prompt + undoLimit + prompt,
		"a take-over of an attempt whose workload comes late":                    workloadLimit + prompt + undoLimit + prompt,
	} {
		if waits >= time.Minute {
			t.Errorf("%s settles after %s", name, waits)
		}
	}
	if goingLimit+seldom+10*time.Second >= attemptLimit {
		t.Errorf("goingLimit %s leaves an attempt of %s no time", goingLimit, attemptLimit)
	}
	if attemptLimit+10*time.Second >= takeOver || workloadLimit >= nameLimit || nameLimit >= takeOver || takeOver >= plan.IdleLimit {
		t.Errorf("attemptLimit %s, nameLimit %s, takeOver %s, workloadLimit %s, IdleLimit %s", attemptLimit, nameLimit, takeOver, workloadLimit, plan.IdleLimit)
	}
}

// TestIdleIsOfOneRecord: the time for which a record stood still says nothing about the next one, which the look finds, or a look after a
// write that was in conflict.
func TestIdleIsOfOneRecord(t *testing.T) {
	for name, begin := range map[string]func(s *site, start func()){
		"before the look": func(_ *site, start func()) { start() },
		"in conflict": func(s *site, start func()) {
			s.world.before = at("change sandbox to releasing", func(write string) error {
				start()
				return fmt.Errorf("%s: %w", write, cluster.ErrConflict)
			})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, newWorld(fresh()))
			still := s.still()
			begin(s, func() {
				s.world.change(func(w *world) {
					r, err := runstate.Of(w.box.Annotations)
					if err != nil {
						t.Error(err)
					}
					r.Attempt, r.Session, r.Epoch = "other-1", session, 1
					w.box.Annotations, w.box.ResourceVersion = r.Annotations(), w.next()
				})
			})
			s.do(Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}, Idle: plan.IdleLimit, Still: still})
			if r := s.record(); r.Phase != runstate.Preparing || len(s.world.done()) != 0 {
				t.Errorf("%s: a start that has just begun is stopped: %+v\n%v", name, r, s.world.done())
			}
		})
	}
}
