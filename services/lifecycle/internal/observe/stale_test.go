package observe

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

var errCut = errors.New("cut")

// cut ends the watch of a source and lets no other begin, and no list either, until it is mended.
func (s *script[T]) cut() {
	s.edit(func(s *script[T]) { s.refuse, s.failure = errCut, errCut })
	s.end <- errCut
}

func (s *script[T]) mend(version uint64) {
	s.edit(func(s *script[T]) { s.refuse, s.failure, s.listing.Version = nil, nil, version })
}

// TestNoStreamBeginsWithAnOldState: a gateway that has just taken over would write it over a newer one.
func TestNoStreamBeginsWithAnOldState(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		early := s.open()
		wantHeard(t, early, "a=10")
		s.boxes.cut()
		time.Sleep(brokenGrace - second)
		st := s.open()
		wantHeard(t, st, "a=10") // it takes a moment to take up another watch
		time.Sleep(time.Hour)
		wantHeard(t, early)
		late := s.open()
		select {
		case err := <-late.ended:
			if !errors.Is(err, ErrStale) {
				t.Errorf("a stream of an old view ends with %v", err)
			}
		case <-time.After(second):
			t.Errorf("a stream of an old view is open, and was told %v", late.take())
			late.close(t)
		}
		wantHeard(t, late)
		s.boxes.mend(20)
		time.Sleep(10 * second)
		s.boxes.feed <- Change[snapshot.Sandbox]{Form: Reached, Item: Item[snapshot.Sandbox]{Version: 20}}
		synctest.Wait()
		again := s.open()
		wantHeard(t, again, "a=10")
		for _, open := range []*stream{early, st, again} { // those that were open have outlived it
			open.close(t)
		}
	})
}

// conditions of a message, as type=status.
func conditions(d *computev1.DriverSandbox) string {
	var all []string
	for _, c := range d.GetStatus().GetConditions() {
		if c.GetType() != marker {
			all = append(all, c.GetType()+"="+c.GetStatus())
		}
	}
	return strings.Join(all, " ")
}

// TestOldPodsAreNotKnown: what the view has of Pods from before it was cut off says nothing about the sandbox of now.
func TestOldPodsAreNotKnown(t *testing.T) {
	restarted := object("u1", "a")
	restarted.Annotations = runstate.Record{Generation: "g2", Readiness: runstate.Ready, WorkloadUID: "new-w", SupervisorUID: "new-s"}.Annotations()
	restarted.Conditions = []sandboxapi.Condition{{Type: sandboxapi.ConditionReady, Status: "True", Reason: "DependenciesReady"}}
	stopped := object("u1", "a")
	stopped.Mode, stopped.Annotations = sandboxapi.Suspended, runstate.Record{Readiness: runstate.Unavailable}.Annotations()
	stopped.Conditions = []sandboxapi.Condition{{Type: sandboxapi.ConditionSuspended, Status: "True", Reason: "PodTerminated"}, {Type: sandboxapi.ConditionReady, Status: "False", Reason: "SandboxSuspended"}}
	silent := stopped
	silent.Version, silent.Conditions = sandboxapi.V1alpha1, stopped.Conditions[1:]
	for name, c := range map[string]struct {
		live             sandboxapi.Object
		podless          bool
		current, notKnow string
	}{
		"it was restarted":                  {restarted, false, "Ready=False", "Ready=True"},
		"it was stopped":                    {stopped, false, "Suspended=False Ready=False", "Suspended=True Ready=False"},
		"its Pod is there again, in silent": {silent, true, "Ready=False Suspended=True", "Ready=False"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				get := func(want string) {
					t.Helper()
					got, err := s.Get(t.Context(), "a")
					if conditions(got) != want || err != nil {
						t.Errorf("%q, %v; want %q", conditions(got), err, want)
					}
				}
				s.live.found = []sandboxapi.Object{c.live}
				if c.podless {
					s.pods.feed <- dropped[snapshot.Pod]("u1-w", 11)
				}
				s.boxes.cut()
				time.Sleep(brokenGrace + second)
				get(c.current) // the Pods are current, and those of the view
				s.pods.cut()
				time.Sleep(brokenGrace + second)
				get(c.notKnow)
			})
		})
	}
}

// TestPodsThatAreKnownAgain: a stream is told by the object alone while the Pods are not known, and with them when they are.
func TestPodsThatAreKnownAgain(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var told []string
		go func() {
			_ = s.Watch(t.Context(), func(e *computev1.WatchSandboxesEvent) error {
				told = append(told, said(e)+" "+conditions(e.GetSandbox().GetSandbox()))
				return nil
			})
		}()
		want := func(all ...string) {
			t.Helper()
			synctest.Wait()
			if got := strings.Join(told, ", "); got != strings.Join(all, ", ") {
				t.Errorf("told %s; want %s", got, strings.Join(all, ", "))
			}
			told = nil
		}
		want("a=10 Ready=True")
		s.pods.cut()
		time.Sleep(brokenGrace + second)
		want() // that nobody knows is no change
		restarted := boxItem("u1", "a", 11, 11)
		restarted.Value.Record.WorkloadUID = "new-w"
		s.boxes.feed <- put(restarted)
		want("a=11 Ready=True")
		s.boxes.feed <- put(boxItem("u2", "b", 12, 12))
		want("b=12 Ready=True")
		s.boxes.feed <- dropped[snapshot.Sandbox]("u2", 13)
		want("-b ")
		s.pods.mend(20) // it still has the Pod of the former run
		time.Sleep(10 * second)
		want("a=11 Ready=False")
		if n := len(s.core.blind); n != 0 {
			t.Errorf("%d are still to be told again", n)
		}
	})
}

// TestAListOfBeforeProvesNothing: an answer that is refused for its age, as every one is behind a restored backup, keeps no view current.
func TestAListOfBeforeProvesNothing(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.listing.Version = 5 })
		s.boxes.end <- ErrRelist
		time.Sleep(brokenGrace + second)
		wantList(t, s, ErrStale)
		if lists, _ := s.boxes.asked(); lists < 2 {
			t.Error("nothing was listed")
		}
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.listing.Version = 20 })
		time.Sleep(10 * second)
		wantList(t, s, nil, 10)
	})
}

// follow lets the view of Pods of a simulation be current, or not.
func (w *world) follow(current bool) {
	h := &w.core.health[pods]
	if h.proof = w.core.now; !current {
		h.proof = h.proof.Add(-w.core.maxAge - 1)
		w.stats["blinded"]++
	} else {
		w.stats["seen again"] += len(w.core.blind)
	}
	w.core.see()
}

// TestNothingHappens: in a quiet cluster nothing is heard of events, and that is no fault.
func TestNothingHappens(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		for n := range uint64(10) {
			time.Sleep(time.Minute)
			s.boxes.feed <- Change[snapshot.Sandbox]{Form: Reached, Item: Item[snapshot.Sandbox]{Version: 50 + n}}
			s.pods.feed <- Change[snapshot.Pod]{Form: Reached, Item: Item[snapshot.Pod]{Version: 50 + n}}
		}
		synctest.Wait()
		if lists, watches := s.events.asked(); lists != 1 || len(watches) != 1 {
			t.Errorf("%d lists and %d watches of events in which nothing happened", lists, len(watches))
		}
		current := func(want string) {
			t.Helper()
			synctest.Wait()
			want = `
# HELP portcullis_lifecycle_watch_current Whether the view of a resource is the cluster's present state (1) or not (0).
# TYPE portcullis_lifecycle_watch_current gauge
portcullis_lifecycle_watch_current{resource="events"} ` + want + `
portcullis_lifecycle_watch_current{resource="pods"} 1
portcullis_lifecycle_watch_current{resource="sandboxes"} 1
`
			if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), "portcullis_lifecycle_watch_current"); err != nil {
				t.Error(err)
			}
		}
		current("1")
		if n := testutil.ToFloat64(s.journal.failures.WithLabelValues(events.String(), "watch")); n != 0 {
			t.Errorf("%g failures", n)
		}
		s.events.cut()
		time.Sleep(brokenGrace + second)
		current("0")
		s.events.mend(60)
		time.Sleep(10 * second)
		current("1")
	})
}

// The server is asked to end a watch of events before this side gives it up.
func TestEventsAreWaitedFor(t *testing.T) {
	if eventPatience <= mostWatch+overtime {
		t.Errorf("a watch that lasts %s is given up after %s", mostWatch+overtime, eventPatience)
	}
}
