package conduct

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// restarted are the writes of a Restart of a stopped sandbox, in the order of contract 7.11.
var restarted = []string{
	"change sandbox to preparing",
	"create pod " + supervisorPod,
	"change sandbox to preparing, Running",
	"change sandbox to preparing",
	"create secret " + sandboxSecret,
	"create secret " + supervisorFile,
	"ungate " + supervisorPod,
	"ungate " + boxName,
	"change sandbox to released",
}

// stopped is a site whose sandbox ran and was stopped.
func stopped(t *testing.T) *site {
	s := newSite(t, newWorld(fresh()))
	s.do(s.goal(plan.Provision))
	s.do(s.goal(plan.Release))
	s.world.change(func(w *world) { w.writes, w.handed = nil, nil })
	return s
}

// TestRestartStopsWhatIsThere: a run that lost a part is stopped first, and the new one stands whole.
func TestRestartStopsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stopped(t)
		s.do(s.goal(plan.Restart))
		if diff := cmp.Diff(restarted, s.world.done()); diff != "" {
			t.Errorf("the order of writes (-want +got):\n%s", diff)
		}
		s.whole()
		s.world.change(func(w *world) { w.writes = nil; w.end(boxName) })
		s.do(s.goal(plan.Restart))
		s.whole()
		if done := s.world.done(); done[0] != "change sandbox to releasing" || !slices.Contains(done, "delete pod "+supervisorPod) {
			t.Errorf("%v", done)
		}
	})
}

// TestEveryWriteOfARestartMayBeTheLast: as of a Provision.
func TestEveryWriteOfARestartMayBeTheLast(t *testing.T) {
	for n := range restarted {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, %s, done %t", n, restarted[n], done), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := stopped(t)
					ctx, end := context.WithCancel(t.Context())
					defer end()
					ends := nth(n+1, func(string) error { end(); return context.Canceled })
					if done {
						s.world.after = ends
					} else {
						s.world.before = ends
					}
					out, err := s.Do(ctx, s.goal(plan.Restart))
					if err != nil || out.Step.Action != plan.Done && out.Step.Reason != verdict.CallEnded {
						t.Fatalf("%v, %+v", err, out.Step)
					}
					s.world.fenced(t)
					s.world.before, s.world.after = nil, nil
					other := newSite(t, s.world)
					if n%2 == 0 {
						if half := s.world.half(); other.finish(plan.Restart) == half {
							t.Errorf("half-made: %t\n%v", half, s.world.done())
						} else if half {
							other.bare()
							other.finish(plan.Restart)
						}
						other.whole()
						return
					}
					other.keep()
					if phase := other.record().Phase; phase == "" {
						other.bare()
					} else {
						other.whole()
					}
					other.finish(plan.Restart)
					other.whole()
				})
			})
		}
	}
}

// TestTheOlderVersion of the resource says nothing of a suspension, and a stop is complete without it.
func TestTheOlderVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := fresh()
		box.Version = sandboxapi.V1alpha1
		s := newSite(t, newWorld(box))
		s.do(s.goal(plan.Provision))
		s.whole()
		s.do(s.goal(plan.Release))
		s.bare()
	})
}

// TestTwoReplicasAtOneRun: of two processes at one run, one comes to its end and the other is told so.
func TestTwoReplicasAtOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		results := make(chan Outcome, 2)
		for range 2 {
			s := newSite(t, w)
			goal := s.goal(plan.Provision)
			go func() {
				out, err := s.Do(t.Context(), goal)
				if err != nil {
					t.Error(err)
				}
				results <- out
			}()
		}
		for range 2 {
			if out := <-results; out.Step.Action != plan.Done && out.Step.Reason != plan.IsTaken {
				t.Errorf("%s: %s", out.Step.Reason, out.Step.Explanation)
			}
		}
		s := newSite(t, w)
		s.finish(plan.Provision)
		s.whole()
	})
}

// TestARepeatedRestartIsUndone: what the cluster refuses of a call that is repeated for a run, to another process and with another name for
// the generation, is taken away at once as of the first one.
func TestARepeatedRestartIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stopped(t)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		s.world.before = at("create secret "+sandboxSecret, func(string) error { end(); return context.Canceled })
		if out, err := s.Do(ctx, s.goal(plan.Restart)); err != nil || out.Step.Reason != verdict.CallEnded {
			t.Fatalf("%v, %+v", err, out.Step)
		}
		s.world.before = at("create secret "+sandboxSecret, func(write string) error {
			return fmt.Errorf("%s: %w: exceeded quota", write, cluster.ErrRefused)
		})
		other := newSite(t, s.world)
		again := other.goal(plan.Restart)
		again.Run.Generation = "g000000000000002"
		var out Outcome
		for range 3 { // until the first process may be taken for gone
			var err error
			if out, err = other.Do(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			if out.Step.Reason != plan.IsTaken {
				break
			}
			time.Sleep(takeOver)
		}
		if out.Step.Reason != CompanionRefused {
			t.Fatalf("%+v", out.Step)
		}
		other.bare()
	})
}
