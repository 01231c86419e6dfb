package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// onStage runs a test on a stage that runs, in time that goes by when nobody works.
func onStage(t *testing.T, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.start(t)
		defer func() { s.stop() }()
		synctest.Wait()
		test(t, s)
	})
}

func wantHeard(t *testing.T, st *stream, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, st.take()); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

func wantList(t *testing.T, s *stage, want error, marks ...int) {
	t.Helper()
	all, err := s.List()
	var got []int
	for _, d := range all {
		got = append(got, markOf(d))
	}
	if !errors.Is(err, want) || !cmp.Equal(got, marks) {
		t.Errorf("List: %v, %v; want %v, %v", got, err, marks, want)
	}
	if check := s.Check(context.Background()); (check == nil) != (want == nil) {
		t.Errorf("the check says %v", check)
	}
}

// TestStreamOutlivesTheClustersWatches is bug corpus W20 and G10.
func TestStreamOutlivesTheClustersWatches(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		st := s.open()
		wantHeard(t, st, "a=10")
		s.boxes.feed <- put(boxItem("u1", "a", 11, 11))
		wantHeard(t, st, "a=11")
		time.Sleep(5 * second)
		s.boxes.end <- nil // in the normal course
		synctest.Wait()
		s.boxes.feed <- put(boxItem("u1", "a", 12, 12))
		s.boxes.end <- errors.New("connection reset")
		time.Sleep(second)
		s.boxes.feed <- put(boxItem("u1", "a", 13, 13))
		wantHeard(t, st, "a=12", "a=13")
		if lists, watches := s.boxes.asked(); lists != 1 || !cmp.Equal(watches, []uint64{10, 11, 12}) {
			t.Errorf("%d lists, watches from %v", lists, watches)
		}
		// 410: what happened meanwhile is in the list.
		s.boxes.edit(func(b *script[snapshot.Sandbox]) {
			b.listing = Listing[snapshot.Sandbox]{Version: 20, Items: []Item[snapshot.Sandbox]{boxItem("u2", "b", 19, 19)}}
		})
		s.boxes.end <- ErrRelist
		time.Sleep(second)
		wantHeard(t, st, "-a", "b=19")
		wantList(t, s, nil, 19)
		st.close(t)
	})
}

// TestRefusedWatchesDoNotLoop is bug corpus W04 and W05.
func TestRefusedWatchesDoNotLoop(t *testing.T) {
	for name, refuse := range map[string]error{"expired": ErrRelist, "failing": errors.New("no"), "closed at once": errClosedAtOnce} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				if !errors.Is(refuse, errClosedAtOnce) {
					s.boxes.refuse = refuse
				}
				s.start(t)
				defer func() { s.stop() }()
				if errors.Is(refuse, errClosedAtOnce) {
					stop := make(chan struct{})
					defer close(stop)
					go func() {
						for {
							select {
							case s.boxes.end <- nil:
							case <-stop:
								return
							}
						}
					}()
				}
				time.Sleep(5 * time.Minute)
				lists, watches := s.boxes.asked()
				if lists > 200 || len(watches) > 200 || len(watches) < 40 {
					t.Errorf("%d lists and %d watches in 5 minutes", lists, len(watches))
				}
				if errors.Is(refuse, ErrRelist) && lists < 40 {
					t.Errorf("only %d lists", lists)
				}
			})
		})
	}
}

var errClosedAtOnce = errors.New("closed at once")

// TestSilentWatchIsGivenUp is bug corpus W10 and W11: nothing fails, and nothing comes.
func TestSilentWatchIsGivenUp(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		age := DefaultSettings().MaxAge.Std()
		time.Sleep(age - second)
		s.boxes.feed <- Change[snapshot.Sandbox]{Form: Reached, Item: Item[snapshot.Sandbox]{Version: 50}}
		s.pods.feed <- Change[snapshot.Pod]{Form: Reached, Item: Item[snapshot.Pod]{Version: 50}}
		time.Sleep(age - second)
		wantList(t, s, nil, 10)
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.hang = true })
		time.Sleep(2 * second)
		synctest.Wait()
		wantList(t, s, ErrStale)
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.hang, b.listing.Version = false, 60 })
		s.pods.edit(func(p *script[snapshot.Pod]) { p.listing.Version = 60 })
		time.Sleep(listLimit + 10*second)
		synctest.Wait()
		wantList(t, s, nil, 10)
	})
}

func TestListIsNeverOfAViewThatIsNotCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		wantList(t, s, ErrStale)
		s.pods.hang = true
		s.start(t)
		defer func() { s.stop() }()
		synctest.Wait()
		wantList(t, s, ErrStale) // the Pods are not known
		s.pods.edit(func(p *script[snapshot.Pod]) { p.hang = false })
		time.Sleep(listLimit + second)
		synctest.Wait()
		wantList(t, s, nil, 10)
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = errors.New("refused") })
		s.boxes.end <- errors.New("cut")
		time.Sleep(brokenGrace - second)
		synctest.Wait()
		wantList(t, s, nil, 10)
		time.Sleep(2 * second)
		wantList(t, s, ErrStale)
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = nil })
		time.Sleep(10 * second)
		synctest.Wait()
		wantList(t, s, nil, 10)
		s.boxes.feed <- put(boxItem("u2", "a", 99, 99))
		synctest.Wait()
		wantList(t, s, nil) // two of one id: neither
		// Events are no state: without them the list is whole.
		s.events.edit(func(e *script[progressEvent]) { e.refuse = errors.New("forbidden") })
		s.events.end <- errors.New("forbidden")
		s.boxes.feed <- dropped[snapshot.Sandbox]("u2", 100)
		time.Sleep(time.Minute)
		wantList(t, s, nil, 10)
	})
}

func TestGet(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		get := func(id string, want error, mark int) {
			t.Helper()
			got, err := s.Get(context.Background(), id)
			if !errors.Is(err, want) || markOf(got) != mark || (want == nil) != (got.GetId() == id) {
				t.Errorf("Get %s: %v, %v; want %d, %v", id, got, err, mark, want)
			}
		}
		live := object("u7", "b")
		get("a", nil, 10)
		if s.live.asked != 0 {
			t.Error("what is in the view is looked for live")
		}
		get("b", ErrAbsent, 0)
		s.live.found = append(s.live.found, live)
		get("b", nil, 0)
		s.live.found = append(s.live.found, object("u8", "b"))
		get("b", ErrAmbiguous, 0)
		s.live.found = append(s.live.found[:1], object("u9", "c")) // not what was asked for
		get("b", nil, 0)
		s.live.found = s.live.found[1:]
		get("b", ErrUnreadable, 0)
		foreign := object("u7", "b")
		foreign.Namespace = "elsewhere"
		s.live.found = append(s.live.found[:0], foreign)
		get("b", ErrUnreadable, 0)
		s.live.found, s.live.err = nil, ErrNotServed
		get("b", ErrNotServed, 0)
		s.live.err = nil
		asked := s.live.asked
		if _, err := s.look(context.Background(), "a"); !errors.Is(err, ErrAbsent) || s.live.asked != asked+1 {
			t.Errorf("a live look is not one: %v", err)
		}
		// A view that is not current answers nothing by itself.
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = errors.New("refused") })
		s.boxes.end <- errors.New("cut")
		time.Sleep(brokenGrace + second)
		get("a", ErrAbsent, 0)
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = nil })
		time.Sleep(10 * second)
		synctest.Wait()
		s.boxes.feed <- put(boxItem("u2", "a", 99, 99))
		synctest.Wait()
		get("a", ErrAmbiguous, 0)
	})
}

// TestOneIdOfTwoObjects: whoever makes a Sandbox with the id of another's harms that one alone, and does not have it taken for absent.
func TestOneIdOfTwoObjects(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.boxes.feed <- put(boxItem("u3", "b", 11, 11))
		st := s.open()
		wantHeard(t, st, "a=10", "b=11")
		wantList(t, s, nil, 10, 11)
		get := func(id string, want error) {
			t.Helper()
			got, err := s.Get(context.Background(), id)
			if !errors.Is(err, want) || errors.Is(err, ErrAbsent) || (want == nil) != (got.GetId() == id) {
				t.Errorf("Get %s: %v, %v; want %v", id, got, err, want)
			}
		}
		s.boxes.feed <- put(boxItem("u9", "a", 12, 12))
		s.boxes.feed <- put(boxItem("u3", "b", 13, 13))
		wantHeard(t, st, "b=13")
		wantList(t, s, nil, 13)
		get("a", ErrAmbiguous)
		get("b", nil)
		// Nor when only the live look can tell.
		s.live.found = []sandboxapi.Object{object("u1", "a"), object("u9", "a")}
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = errors.New("refused") })
		s.boxes.end <- errors.New("cut")
		time.Sleep(brokenGrace + second)
		get("a", ErrAmbiguous)
		s.boxes.edit(func(b *script[snapshot.Sandbox]) {
			b.refuse, b.listing = nil, Listing[snapshot.Sandbox]{Version: 20, Items: []Item[snapshot.Sandbox]{boxItem("u1", "a", 10, 10), boxItem("u3", "b", 13, 13)}}
		})
		s.boxes.end <- ErrRelist
		time.Sleep(10 * second)
		wantHeard(t, st, "a=10")
		wantList(t, s, nil, 10, 13)
		get("a", nil)
		st.close(t)
	})
}

func TestRepublish(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		time.Sleep(second)
		st := s.open()
		wantHeard(t, st, "a=10")
		time.Sleep(95 * second)
		wantHeard(t, st, "a=10", "a=10", "a=10")
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = errors.New("refused") })
		s.boxes.end <- errors.New("cut")
		time.Sleep(3 * time.Minute)
		wantHeard(t, st) // what nobody knows is not repeated
		st.close(t)
	})
}

func TestStreamsWaitForTheViewAndEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.boxes.failure = ErrNotServed
		early := s.open()
		gone := s.open()
		s.start(t)
		time.Sleep(time.Minute)
		wantHeard(t, early)
		gone.close(t)
		if err := s.Check(context.Background()); !errors.Is(err, ErrNotServed) || !errors.Is(err, ErrStale) {
			t.Errorf("the check says %v", err)
		}
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.failure = nil })
		time.Sleep(10 * second)
		wantHeard(t, early, "a=10")
		s.stop()
		if err := <-early.ended; !errors.Is(err, ErrStopped) {
			t.Errorf("%v", err)
		}
		late := s.open()
		if err := <-late.ended; !errors.Is(err, ErrStopped) {
			t.Errorf("%v", err)
		}
		if err := s.Run(context.Background()); err == nil {
			t.Error("it runs twice")
		}
	})
}

// TestBlockedCallerIsReset: a send that never returns does not keep the stream from being ended.
func TestBlockedCallerIsReset(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		release, entered, ended := make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)
		go func() {
			ended <- s.Watch(context.Background(), func(*computev1.WatchSandboxesEvent) error {
				entered <- struct{}{}
				<-release
				return errors.New("too late")
			})
		}()
		<-entered
		for n := range uint64(DefaultSettings().Queue + 1) {
			s.events.feed <- put(eventItem("e", "u1-w", 20+n, int32(n+1)))
		}
		if err := <-ended; !errors.Is(err, ErrBehind) {
			t.Errorf("%v", err)
		}
		close(release)
	})
}

func TestSendErrorEndsTheStream(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		gone := errors.New("gone")
		if err := s.Watch(context.Background(), func(*computev1.WatchSandboxesEvent) error { return gone }); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
		if n := len(s.core.callers); n != 0 {
			t.Errorf("%d callers are left", n)
		}
	})
}

func TestMetrics(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		st := s.open()
		s.boxes.feed <- put(Item[snapshot.Sandbox]{UID: "x", Version: 30, Problem: snapshot.ErrMisplaced})
		s.pods.feed <- put(podItem("of nobody", 30, false, true))
		s.pods.feed <- put(Item[snapshot.Pod]{UID: "y", Version: 31, Problem: snapshot.ErrForeign})
		synctest.Wait()
		problems, err := testutil.GatherAndLint(s.registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
		want := `
# HELP portcullis_lifecycle_watch_passed_over_objects Objects that are passed over now since they are foreign, misplaced or malformed, by resource and reason.
# TYPE portcullis_lifecycle_watch_passed_over_objects gauge
portcullis_lifecycle_watch_passed_over_objects{reason="foreign",resource="pods"} 2
portcullis_lifecycle_watch_passed_over_objects{reason="misplaced",resource="sandboxes"} 1
# HELP portcullis_lifecycle_watch_callers Open streams of the watch.
# TYPE portcullis_lifecycle_watch_callers gauge
portcullis_lifecycle_watch_callers 1
# HELP portcullis_lifecycle_watch_current Whether the view of a resource is the cluster's present state (1) or not (0).
# TYPE portcullis_lifecycle_watch_current gauge
portcullis_lifecycle_watch_current{resource="events"} 1
portcullis_lifecycle_watch_current{resource="pods"} 1
portcullis_lifecycle_watch_current{resource="sandboxes"} 1
# HELP portcullis_lifecycle_watch_objects Objects in the view of the cluster, by resource; of events those that are remembered.
# TYPE portcullis_lifecycle_watch_objects gauge
portcullis_lifecycle_watch_objects{resource="events"} 0
portcullis_lifecycle_watch_objects{resource="pods"} 2
portcullis_lifecycle_watch_objects{resource="sandboxes"} 1
`
		if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), "portcullis_lifecycle_watch_passed_over_objects",
			"portcullis_lifecycle_watch_callers", "portcullis_lifecycle_watch_current", "portcullis_lifecycle_watch_objects"); err != nil {
			t.Error(err)
		}
		st.close(t)
	})
}

func TestNewRefuses(t *testing.T) {
	s := newStage(t)
	sources := Sources{Sandboxes: s.boxes, Pods: s.pods, Events: s.events}
	for name, edit := range map[string]func(cfg *Settings, at *workspace.Scheme, from *Sources, live *Finder){
		"no age":            func(cfg *Settings, _ *workspace.Scheme, _ *Sources, _ *Finder) { cfg.MaxAge = 0 },
		"too small a queue": func(cfg *Settings, _ *workspace.Scheme, _ *Sources, _ *Finder) { cfg.Queue = 1 },
		"no scheme":         func(_ *Settings, at *workspace.Scheme, _ *Sources, _ *Finder) { *at = workspace.Scheme{} },
		"no sandboxes":      func(_ *Settings, _ *workspace.Scheme, from *Sources, _ *Finder) { from.Sandboxes = nil },
		"no pods":           func(_ *Settings, _ *workspace.Scheme, from *Sources, _ *Finder) { from.Pods = nil },
		"no events":         func(_ *Settings, _ *workspace.Scheme, from *Sources, _ *Finder) { from.Events = nil },
		"no finder":         func(_ *Settings, _ *workspace.Scheme, _ *Sources, live *Finder) { *live = nil },
	} {
		cfg, at, from, live := DefaultSettings(), scheme, sources, Finder(s.live)
		edit(&cfg, &at, &from, &live)
		if _, err := New(cfg, at, from, live, zerolog.Nop(), prometheus.NewRegistry()); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(DefaultSettings(), scheme, sources, s.live, zerolog.Nop(), s.registry); err == nil {
		t.Error("its metrics are registered twice")
	}
}
