//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestReplicas: two lifecycles, each beside a gateway of the same id, are asked to do the same, and whatever comes, to the same sandboxes at
// the same time. Every answer is one that the contract has for the call, and in the end each sandbox is one run that its gateway was told of,
// one Sandbox without a run, or nothing.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := standIns(t).Raise(t, "shared", nil)
	must(t, s.Mesh.Run(s.Context(), mesh.Replica))
	p := &pair{Site: s, replicas: []computev1.ComputeDriverClient{s.Driver, dial(t, s.Mesh.SocketOf(mesh.Replica))}}
	seen := newCensus(t, s)
	var ids []string
	prepared := func(name string) *contended {
		c := p.prepare("team", name)
		ids = append(ids, c.wish.GetId())
		return c
	}
	inStep := []*contended{prepared("step-a"), prepared("step-b"), prepared("step-c")}
	atRandom := []*contended{prepared("rand-a"), prepared("rand-b"), prepared("rand-c"), prepared("rand-d")}
	t.Run("lives", func(t *testing.T) {
		for _, c := range inStep {
			t.Run(c.wish.GetName(), func(t *testing.T) {
				t.Parallel()
				c.inStep(t)
			})
		}
		for n, c := range atRandom {
			t.Run(c.wish.GetName(), func(t *testing.T) {
				t.Parallel()
				c.atRandom(t, uint64(n))
			})
		}
	})
	seen.demand(t, ids)
}

// pair is a site with two lifecycles.
type pair struct {
	*lifecycle.Site
	replicas []computev1.ComputeDriverClient
}

// contended is a sandbox that both are asked about.
type contended struct {
	*pair
	wish    *computev1.DriverSandbox
	bundles chan []byte // each of a run of its own

	mu      sync.Mutex
	last    string          // the identity that was granted last
	granted map[string]bool // all of them
	log     []string
}

// prepare belongs to the test's goroutine.
func (p *pair) prepare(workspace, name string) *contended {
	const runs = 200
	c := &contended{pair: p, wish: p.Wish(workspace, name), bundles: make(chan []byte, runs), granted: map[string]bool{}}
	for range runs {
		c.bundles <- p.Bundle(c.wish.GetId())
	}
	return c
}

// note writes down an answer, with the identity that it grants.
func (c *contended) note(replica int, call, identity string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf("%s %d %s: %v", time.Now().Format("05.000"), replica, call, err))
	if identity != "" {
		c.last, c.granted[identity] = identity, true
	}
}

func (c *contended) newest() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *contended) create(ctx context.Context, replica int) error {
	made, err := c.replicas[replica].CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: c.wish})
	c.note(replica, "create", made.GetRuntimeIdentity(), err)
	return err
}

func (c *contended) stop(ctx context.Context, replica int) error {
	_, err := c.replicas[replica].StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: c.wish.GetId()})
	c.note(replica, "stop", "", err)
	return err
}

func (c *contended) delete(ctx context.Context, replica int) error {
	_, err := c.replicas[replica].DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: c.wish.GetId()})
	c.note(replica, "delete", "", err)
	return err
}

func (c *contended) start(ctx context.Context, replica int, bundle []byte, expected string) (string, error) {
	started, err := c.replicas[replica].StartSandbox(ctx, &computev1.StartSandboxRequest{
		SandboxId: c.wish.GetId(), GenerationId: "g0000000000000001", LaunchAuthentication: bundle, ExpectedRuntimeIdentity: expected,
	})
	c.note(replica, "start", started.GetRuntimeIdentity(), err)
	return started.GetRuntimeIdentity(), err
}

// atOnce has every replica make a call at the same time.
func (c *contended) atOnce(call func(replica int) error) []codes.Code {
	answers := make([]codes.Code, len(c.replicas))
	var running sync.WaitGroup
	for k := range c.replicas {
		running.Go(func() { answers[k] = status.Code(call(k)) })
	}
	running.Wait()
	slices.Sort(answers)
	return answers
}

// demand fails the test when the answers, in the order of the codes, are others.
func (c *contended) demand(t *testing.T, what string, got []codes.Code, want ...codes.Code) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s, at both at once, is answered %v, want %v\n%s", what, got, want, c.said())
	}
}

func (c *contended) said() (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.log {
		text += line + "\n"
	}
	return text
}

// rests waits until the sandbox has come to rest, and demands that a run that stands was granted to somebody.
func (c *contended) rests(t *testing.T, what string, fits func(rest) error) rest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		at, err := restOf(ctx, c.Site, c.replicas, c.wish)
		if err == nil {
			c.mu.Lock()
			if at.runs && !c.granted[at.identity] {
				err = fmt.Errorf("the run %s was granted to nobody", at.identity)
			}
			c.mu.Unlock()
		}
		if err == nil {
			err = fits(at)
		}
		if err == nil {
			return at
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v\n%s", what, err, c.said())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *contended) demandRun(t *testing.T, what, identity string) {
	t.Helper()
	c.rests(t, what, func(at rest) error {
		if !at.runs || at.identity != identity {
			return fmt.Errorf("it is %+v, and %s was granted", at, identity)
		}
		return nil
	})
}

func (c *contended) demandStopped(t *testing.T, what string) {
	t.Helper()
	c.rests(t, what, func(at rest) error {
		if !at.stands || at.runs {
			return fmt.Errorf("it is %+v", at)
		}
		return nil
	})
}

func (c *contended) demandGone(t *testing.T, what string) {
	t.Helper()
	c.rests(t, what, func(at rest) error {
		if at.stands {
			return fmt.Errorf("it is %+v", at)
		}
		return nil
	})
}

// inStep leads the sandbox through its life, every call at both at once, and looks at the cluster after each.
func (c *contended) inStep(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	create := func(k int) error { return c.create(ctx, k) }
	stop := func(k int) error { return c.stop(ctx, k) }
	c.demand(t, "a create", c.atOnce(create), codes.OK, codes.AlreadyExists)
	c.demandRun(t, "after the creates", c.newest())
	c.demand(t, "a create of what there is", c.atOnce(create), codes.AlreadyExists, codes.AlreadyExists)
	c.demand(t, "a stop", c.atOnce(stop), codes.OK, codes.OK)
	c.demandStopped(t, "after the stops")

	// Two gateways that start one sandbox at once agree on the run: the loser takes the winner's (contract 2.6).
	same, expected, identity := <-c.bundles, c.newest(), make([]string, len(c.replicas))
	start := func(k int) (err error) {
		identity[k], err = c.start(ctx, k, same, expected)
		return err
	}
	c.demand(t, "a start of the same run", c.atOnce(start), codes.OK, codes.OK)
	if identity[0] != identity[1] {
		t.Fatalf("one start was granted as %q and as %q", identity[0], identity[1])
	}
	c.demandRun(t, "after the starts of one run", identity[0])

	// If they did not, the start of the other run meets one that is being begun, and is refused, or one that stands, and takes its place
	// (contract 7.11): one is granted, and the run that stands is it or, of two, the later.
	c.demand(t, "a stop", c.atOnce(stop), codes.OK, codes.OK)
	expected = identity[0]
	bundles := [][]byte{<-c.bundles, <-c.bundles}
	start = func(k int) (err error) {
		identity[k], err = c.start(ctx, k, bundles[k], expected)
		return err
	}
	if got := c.atOnce(start); got[0] != codes.OK || got[1] != codes.OK && got[1] != codes.FailedPrecondition {
		t.Fatalf("a start of two runs, at both at once, is answered %v\n%s", got, c.said())
	}
	c.rests(t, "after the starts of two runs", func(at rest) error {
		if !at.runs || !slices.Contains(identity, at.identity) {
			return fmt.Errorf("it is %+v, and %q were granted", at, identity)
		}
		return nil
	})

	c.demand(t, "a delete", c.atOnce(func(k int) error { return c.delete(ctx, k) }), codes.OK, codes.OK)
	c.demandGone(t, "after the deletes")
}
