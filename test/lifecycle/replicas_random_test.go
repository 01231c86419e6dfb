//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// contested are the codes that a call may be answered with while others work on the same sandbox (contract 2.7). INTERNAL is in none of them:
// nothing is wrong with the cluster.
var contested = map[string]map[codes.Code]bool{
	// A create that loses to one that there is already; that is refused, since its Sandbox was deleted under it; that has to be made again.
	"create": {codes.OK: true, codes.AlreadyExists: true, codes.FailedPrecondition: true, codes.Unavailable: true},
	// Nothing is there to be stopped; the run is being begun.
	"stop": {codes.OK: true, codes.NotFound: true, codes.FailedPrecondition: true, codes.Unavailable: true},
	// The same; and another run stands, or the Sandbox is another one by now.
	"start": {codes.OK: true, codes.NotFound: true, codes.FailedPrecondition: true, codes.Unavailable: true},
	// A conflict is retried, and what is absent is deleted (contract 15.11).
	"delete": {codes.OK: true},
}

// atRandom has both replicas asked for whatever comes, by several at once, and judges what stays in the end. A sandbox that stands can
// then be stopped, started and deleted as ever.
func (c *contended) atRandom(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const each, calls = 2, 15
	wrong := make(chan string, len(c.replicas)*each*calls)
	var running sync.WaitGroup
	for k := range c.replicas {
		for n := range each {
			random := rand.New(rand.NewPCG(seed, uint64(k*each+n)))
			running.Go(func() {
				for range calls {
					call, err := c.any(ctx, k, random)
					if !contested[call][status.Code(err)] {
						wrong <- fmt.Sprintf("a %s at replica %d: %v", call, k, err)
					}
				}
			})
		}
	}
	running.Wait()
	close(wrong)
	for problem := range wrong {
		t.Errorf("seed %d: %s", seed, problem)
	}
	at := c.rests(t, "after all calls", func(rest) error { return nil })
	t.Logf("seed %d: it is %+v", seed, at)
	if !at.stands {
		must(t, c.create(ctx, 0))
		c.demandRun(t, "after a create at the first", c.newest())
	}
	expected := c.newest()
	must(t, c.stop(ctx, 0))
	c.demandStopped(t, "after a stop at the first")
	identity, err := c.start(ctx, 1, <-c.bundles, expected)
	must(t, err)
	c.demandRun(t, "after a start at the second", identity)
	must(t, c.delete(ctx, 0))
	c.demandGone(t, "after a delete at the first")
	if t.Failed() {
		t.Log(c.said())
	}
}

// any makes a call that is drawn. The calls of a gateway's life are drawn more often than the one that ends it.
func (c *contended) any(ctx context.Context, replica int, random *rand.Rand) (call string, err error) {
	const all, creates, stops, starts = 11, 3, 6, 10
	switch n := random.IntN(all); {
	case n < creates:
		return "create", c.create(ctx, replica)
	case n < stops:
		return "stop", c.stop(ctx, replica)
	case n < starts && c.newest() != "":
		_, err = c.start(ctx, replica, <-c.bundles, c.newest())
		return "start", err
	case n < starts:
		return "create", c.create(ctx, replica)
	default:
		return "delete", c.delete(ctx, replica)
	}
}
