package allowlist

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestZeroValuesDeny(t *testing.T) {
	now := Instant{Mono: time.Second, Wall: wallStart}
	for name, v := range map[string]*View{"nil View": nil, "zero View": {}} {
		if a := v.Check("team-a", now); a.Allowed() || a.Reason != verdict.Unsynced || a.Proven {
			t.Errorf("%s answers %+v", name, a)
		}
	}
	var a Answer
	if a.Allowed() || a.Decision().Granted() {
		t.Error("the zero Answer grants")
	}
	var c Condition
	if c.State == Fresh {
		t.Error("the zero Condition is Fresh")
	}
	if got := (&View{condition: Condition{State: Fresh}, deadline: time.Hour}).Check("x", Instant{}); got.Allowed() || got.Reason != verdict.Stale {
		t.Errorf("the zero Instant: %+v", got)
	}
}

// freshView is a View of n namespaces, open from wallStart for an hour.
func freshView(t testing.TB, names []string) *View {
	return &View{
		condition: fresh(), stamp: stamp{7, 42}, proven: listOf(t, names...).index(), vouched: true,
		issued: time.Second, deadline: time.Hour, wall: time.Duration(wallStart.UnixNano()),
	}
}

func TestDecisions(t *testing.T) {
	v := freshView(t, []string{"team-a"})
	now := Instant{Mono: 3 * time.Second, Wall: wallStart.Add(3 * time.Second)}
	granted := v.Check("team-a", now).Decision()
	want := verdict.Evidence{Namespace: "team-a", Epoch: 7, Revision: 42, Proven: true, Age: 2 * time.Second, EntryUID: "uid-team-a"}
	if !granted.Granted() || granted.Allowlist != want {
		t.Errorf("granted %+v", granted)
	}
	refused := v.Check("team-b", now).Decision()
	want.Namespace, want.EntryUID = "team-b", ""
	if refused.Granted() || refused.Reason != verdict.NotListed || refused.Code() != codes.PermissionDenied || refused.Allowlist != want || refused.Explanation == "" {
		t.Errorf("refused %+v", refused)
	}
	now.Mono, now.Wall = time.Hour, wallStart.Add(time.Hour)
	unknown := v.Check("team-a", now).Decision()
	if unknown.Granted() || unknown.Reason != verdict.Stale || unknown.Code() != codes.Unavailable || unknown.Allowlist.EntryUID != "" {
		t.Errorf("unknown %+v", unknown)
	}
	// Every condition has a reason that is registered, except Fresh.
	for _, c := range []Condition{unsynced(), behind(), stale(), withdrawn(), invalid(), forked()} {
		if spec, ok := c.Reason.Spec(); !ok || spec.Outcome != verdict.Unknown {
			t.Errorf("%v has outcome %v", c, spec.Outcome)
		}
	}
}

func TestAgeIsNeverNegative(t *testing.T) {
	v := freshView(t, []string{"team-a"})
	// The clock was read just before a newer View was stored.
	if a := v.Check("team-a", Instant{Mono: 900 * time.Millisecond, Wall: wallStart.Add(900 * time.Millisecond)}); !a.Allowed() || a.Age != 0 {
		t.Errorf("answer %+v", a)
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	v := freshView(t, manyNames(100))
	pending := *v
	pending.pending = listOf(t, manyNames(99)...).index()
	now := Instant{Mono: 2 * time.Second, Wall: wallStart.Add(2 * time.Second)}
	names := append(manyNames(100), "not-listed")
	var granted int
	for _, v := range []*View{v, &pending, {}, nil} {
		if n := testing.AllocsPerRun(100, func() {
			for _, name := range names {
				if d := v.Check(name, now).Decision(); d.Granted() {
					granted++
				}
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	if granted == 0 {
		t.Error("nothing was granted: the test looked at refusals only")
	}
}

// TestViewsAreSharedWithoutLocks lets the race detector look at one atomic store per step and many loads.
func TestViewsAreSharedWithoutLocks(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "always")
	var current atomic.Pointer[View]
	current.Store(x.r.View())
	stop := make(chan struct{})
	now := x.at
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a := current.Load().Check("always", now); !a.Allowed() || a.Revision == 0 {
					t.Errorf("answer %+v", a)
					return
				}
			}
		})
	}
	for i := range uint64(50) {
		x.snapshot(a, i+2, "always", fmt.Sprintf("n%d", i))
		current.Store(x.r.View())
		x.heartbeat(a, i+2)
		current.Store(x.r.View())
	}
	close(stop)
	readers.Wait()
}

func BenchmarkCheck(b *testing.B) {
	names := manyNames(10_000)
	v := freshView(b, names)
	pending := *v
	pending.pending = v.proven
	var current atomic.Pointer[View]
	now := Instant{Mono: 2 * time.Second, Wall: wallStart.Add(2 * time.Second)}
	for name, view := range map[string]*View{"fresh": v, "pending": &pending} {
		b.Run(name, func(b *testing.B) {
			current.Store(view)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if !current.Load().Check(names[i], now).Allowed() {
					b.Fatal("refused")
				}
				if i++; i == len(names) {
					i = 0
				}
			}
		})
	}
	b.Run("not listed", func(b *testing.B) {
		current.Store(v)
		b.ReportAllocs()
		for b.Loop() {
			if current.Load().Check("team-that-is-not-there", now).Allowed() {
				b.Fatal("granted")
			}
		}
	})
}
