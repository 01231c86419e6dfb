package flight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/flight"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// bench is work whose runs wait until they are let go.
type bench struct {
	group *flight.Group[string, int]
	begun chan context.Context
	let   chan struct{}
	runs  atomic.Int64
}

func newBench() *bench {
	return &bench{group: flight.New[string, int](), begun: make(chan context.Context, 100), let: make(chan struct{}, 100)}
}

func (b *bench) work(ctx context.Context) int {
	n := int(b.runs.Add(1))
	b.begun <- ctx
	select {
	case <-b.let:
	case <-ctx.Done():
		return -n
	}
	return n
}

type outcome struct {
	value  int
	shared bool
	err    error
}

// call makes a call of its own and says where its outcome will be.
func (b *bench) call(ctx context.Context, key string) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		value, shared, err := b.group.Do(ctx, key, b.work)
		out <- outcome{value, shared, err}
	}()
	return out
}

func get[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// wait returns when so many calls want the run of a key that has not begun.
func (b *bench) wait(t *testing.T, key string, wanted int) {
	t.Helper()
	for end := time.Now().Add(patience); b.group.Waiting(key) != wanted; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d calls wait, want %d", b.group.Waiting(key), wanted)
		}
	}
}

// TestNoCallGetsWorkThatBeganBeforeIt is the reason for this package.
func TestNoCallGetsWorkThatBeganBeforeIt(t *testing.T) {
	b := newBench()
	first := b.call(t.Context(), "k")
	get(t, b.begun)
	second := b.call(t.Context(), "k")
	b.wait(t, "k", 1)
	third := b.call(t.Context(), "k")
	b.wait(t, "k", 2)
	b.let <- struct{}{}
	if got := get(t, first); got != (outcome{1, false, nil}) {
		t.Errorf("the first: %+v", got)
	}
	get(t, b.begun)
	fourth := b.call(t.Context(), "k") // the second run is under way
	b.wait(t, "k", 1)
	b.let <- struct{}{}
	if x, y := get(t, second), get(t, third); x != (outcome{2, false, nil}) || y != (outcome{2, true, nil}) {
		t.Errorf("the second: %+v, the third: %+v", x, y)
	}
	b.let <- struct{}{}
	if got := get(t, fourth); got != (outcome{3, false, nil}) {
		t.Errorf("the fourth: %+v", got)
	}
	b.group.Stop()
}

func TestOtherKeysDoNotWait(t *testing.T) {
	b := newBench()
	one, two := b.call(t.Context(), "a"), b.call(t.Context(), "b")
	get(t, b.begun)
	get(t, b.begun)
	b.let <- struct{}{}
	b.let <- struct{}{}
	if x, y := get(t, one), get(t, two); x.err != nil || y.err != nil || x.value+y.value != 3 {
		t.Errorf("%+v %+v", x, y)
	}
	b.group.Stop()
}

// TestACallThatEndsTakesNobodyAlong: who began the work, and who waits first, may go.
func TestACallThatEndsTakesNobodyAlong(t *testing.T) {
	b := newBench()
	first := b.call(t.Context(), "k")
	get(t, b.begun)
	leaving, leave := context.WithCancel(t.Context())
	second := b.call(leaving, "k")
	b.wait(t, "k", 1)
	third := b.call(t.Context(), "k")
	b.wait(t, "k", 2)
	leave()
	if got := get(t, second); !errors.Is(got.err, context.Canceled) {
		t.Errorf("the second: %+v", got)
	}
	b.let <- struct{}{}
	get(t, first)
	if ctx := get(t, b.begun); ctx.Err() != nil {
		t.Error("the run of the third was cancelled with the second, which made it")
	}
	b.let <- struct{}{}
	if got := get(t, third); got.err != nil || got.value != 2 {
		t.Errorf("the third: %+v", got)
	}
	b.group.Stop()
}

func TestWorkThatNobodyWantsEnds(t *testing.T) {
	b := newBench()
	leaving, leave := context.WithCancel(t.Context())
	first := b.call(leaving, "k")
	running := get(t, b.begun)
	before, leaveBefore := context.WithCancel(t.Context())
	second := b.call(before, "k")
	b.wait(t, "k", 1)
	leaveBefore()
	if got := get(t, second); got.err == nil {
		t.Errorf("%+v", got)
	}
	leave()
	if got := get(t, first); got.err == nil {
		t.Errorf("%+v", got)
	}
	get(t, running.Done())
	// A later call does not get the result of the cancelled run, and the one that nobody waited for has not begun.
	third := b.call(t.Context(), "k")
	get(t, b.begun)
	b.let <- struct{}{}
	if got := get(t, third); got.value != 2 || got.err != nil {
		t.Errorf("the third: %+v", got)
	}
	b.group.Stop()
}

// TestARunHasTheLatestDeadlineOfTheCallsThatWantIt: those that have left do not count, and one without a deadline makes it none.
func TestARunHasTheLatestDeadlineOfTheCallsThatWantIt(t *testing.T) {
	now := time.Now()
	in := func(d time.Duration) func(*testing.T) (context.Context, context.CancelFunc) {
		return func(t *testing.T) (context.Context, context.CancelFunc) {
			return context.WithDeadline(t.Context(), now.Add(d))
		}
	}
	never := func(t *testing.T) (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }
	type caller = func(*testing.T) (context.Context, context.CancelFunc)
	for name, c := range map[string]struct {
		stay, leave []caller
		want        time.Time
	}{
		"one":                       {stay: []caller{in(time.Hour)}, want: now.Add(time.Hour)},
		"the first is the latest":   {stay: []caller{in(2 * time.Hour), in(time.Hour)}, want: now.Add(2 * time.Hour)},
		"one of many is the latest": {stay: []caller{in(time.Hour), in(2 * time.Hour), in(4 * time.Hour), in(2 * time.Hour), in(time.Hour), in(3 * time.Hour)}, want: now.Add(4 * time.Hour)},
		"the last is the latest":    {stay: []caller{in(time.Hour), in(2 * time.Hour)}, want: now.Add(2 * time.Hour)},
		"the latest has left":       {stay: []caller{in(time.Hour)}, leave: []caller{in(2 * time.Hour)}, want: now.Add(time.Hour)},
		"one has none":              {stay: []caller{in(time.Hour), never}},
		"the one without left":      {stay: []caller{in(time.Hour)}, leave: []caller{never}, want: now.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			first, cancel := in(3 * time.Hour)(t)
			defer cancel()
			outcomes := []<-chan outcome{b.call(first, "k")}
			if at, _ := get(t, b.begun).Deadline(); !at.Equal(now.Add(3 * time.Hour)) {
				t.Errorf("a run for one call has the deadline %v", at)
			}
			waiting := 0
			for _, caller := range c.stay {
				ctx, cancel := caller(t)
				defer cancel()
				outcomes = append(outcomes, b.call(ctx, "k"))
				waiting++
				b.wait(t, "k", waiting)
			}
			for _, caller := range c.leave {
				ctx, cancel := caller(t)
				left := b.call(ctx, "k")
				b.wait(t, "k", waiting+1)
				cancel()
				get(t, left)
			}
			b.wait(t, "k", waiting)
			b.let <- struct{}{}
			at, bounded := get(t, b.begun).Deadline()
			if !at.Equal(c.want) || bounded == c.want.IsZero() {
				t.Errorf("the run has the deadline %v, want %v", at, c.want)
			}
			b.let <- struct{}{}
			for _, o := range outcomes {
				if got := get(t, o); got.err != nil || got.value <= 0 {
					t.Errorf("%+v", got)
				}
			}
			b.group.Stop()
		})
	}
}

func TestStopEndsAllWork(t *testing.T) {
	b := newBench()
	first := b.call(t.Context(), "k")
	get(t, b.begun)
	second := b.call(t.Context(), "k")
	b.wait(t, "k", 1)
	b.group.Stop()
	if x, y := get(t, first), get(t, second); x.value >= 0 || y.value >= 0 {
		t.Errorf("%+v %+v", x, y)
	}
	if got := get(t, b.call(t.Context(), "k")); !errors.Is(got.err, context.Canceled) {
		t.Errorf("after the stop: %+v", got)
	}
}

// TestManyCalls: whatever the interleaving, each call's work began after it, and the group is empty in the end.
func TestManyCalls(t *testing.T) {
	group := flight.New[int, int64]()
	var clock atomic.Int64
	var calls sync.WaitGroup
	for i := range 400 {
		calls.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%7 == 0 {
				go cancel()
			}
			came := clock.Add(1)
			began, _, err := group.Do(ctx, i%3, func(context.Context) int64 { return clock.Add(1) })
			if err == nil && began <= came {
				t.Errorf("the work began at %d, the call came at %d", began, came)
			}
			if err != nil && i%7 != 0 {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	group.Stop()
	if n := group.Lanes(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
