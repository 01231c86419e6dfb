package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestGroupProperty draws groups of all behaviours: Run always waits for every
// task, and is nil exactly when the stop was requested and nothing failed.
func TestGroupProperty(t *testing.T) {
	noLeaks(t)
	random := rand.New(rand.NewPCG(7, 11))
	late := func(end func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			return end(ctx)
		}
	}
	boom := func(context.Context) error { return errBoom }
	behaviours := []struct {
		fails, stops bool
		run          func(context.Context) error
	}{
		{run: untilCancelled},
		{run: late(context.Cause)},
		{run: late(passing)},
		{run: late(boom), fails: true},
		{run: late(func(context.Context) error { panic(errBoom) }), fails: true},
		{run: passing, fails: true, stops: true},
		{run: boom, fails: true, stops: true},
		{run: func(context.Context) error { panic(errBoom) }, fails: true, stops: true},
	}
	for round := range 300 {
		g := newGroup(t, patience)
		fails, stops := false, false
		var running sync.WaitGroup
		for i := range 1 + random.IntN(6) {
			b := behaviours[random.IntN(len(behaviours))]
			if round%2 == 0 {
				b = behaviours[random.IntN(3)] // half of the groups are healthy
			}
			fails, stops = fails || b.fails, stops || b.stops
			running.Add(1)
			g.Add(fmt.Sprint(i), func(ctx context.Context) error {
				defer running.Done()
				return b.run(ctx)
			})
		}
		started := make(chan struct{})
		g.Add("last", func(ctx context.Context) error {
			close(started)
			return untilCancelled(ctx)
		})
		cancel, result := start(g.Run)
		receive(t, "start", started)
		if !stops { // else the group must stop by itself
			cancel(StopRequest{Signal: 2})
		}
		if err := receive(t, "Run", result); (err != nil) != fails {
			t.Fatalf("round %d: Run = %v, a task fails: %v", round, err, fails)
		}
		running.Wait()
		cancel(nil)
	}
}
