//go:build portcullis_long

package lifecycle_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestRelay: a sandbox lives through a relay before two lifecycles as it does at a socket. When the one dies that has the calls, what was under
// way is refused as something that may pass and is made nowhere else, the watch ends so that it is begun anew, and all that follows goes on
// with the other; so it is when one hangs. When both are away calls are refused, and they come back when there is one again.
func TestRelay(t *testing.T) {
	t.Parallel()
	g := raiseGated(t, standIns(t), "shared", relayed)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must(t, g.Mesh.Run(ctx, mesh.Replica))
	must(t, g.Mesh.Run(ctx, mesh.Relay))
	g.Driver = dial(t, g.Mesh.SocketOf(mesh.Relay))

	wish := g.Wish("team", "relayed")
	made, err := g.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	f := follow(t, g.Site)
	f.demand(t, "it is ready", func() bool { return f.ready[wish.GetId()] })
	if _, err := g.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second create: %v", err)
	}
	chosen, other := g.chosen(t, ctx)
	again := g.dies(t, ctx, f, wish.GetId(), chosen, other)

	must(t, g.Mesh.Run(ctx, chosen))
	g.hang(t, ctx, other)
	again.demandEnd(t, codes.Unavailable)

	g.away(t, ctx, wish.GetId(), chosen, other)
	g.livesOn(t, ctx, wish, made.GetRuntimeIdentity())
}

// dies kills the lifecycle that has the calls, with a create under way, and returns the stream that is begun anew then.
func (g *gated) dies(t *testing.T, ctx context.Context, f *stream, id, chosen, other string) (again *stream) {
	t.Helper()
	cut := g.attempt("cut", nil)
	g.holdPods()
	answered := make(chan error, 1)
	go func() { answered <- cut.create(ctx) }()
	cut.awaitHeld(t, ctx)
	g.Mesh.Kill(chosen)
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("a create whose lifecycle dies is answered %v", err)
	}
	f.demandEnd(t, codes.Unavailable)
	for range 10 {
		if _, err := g.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{}); err != nil {
			t.Errorf("with one of two lifecycles a list is answered %v", err)
		}
	}
	if n := g.creates(t, ctx, other); n != 0 {
		t.Errorf("the create was made again: the other lifecycle began with %d", n)
	}
	g.releasePods()
	must(t, cut.remove(ctx))
	again = follow(t, g.Site)
	again.demand(t, "a new stream tells of it", func() bool { return again.ready[id] })
	return again
}

// away kills both lifecycles and lets one come back, with which the sandbox is stopped.
func (g *gated) away(t *testing.T, ctx context.Context, id, chosen, other string) {
	t.Helper()
	g.Mesh.Kill(other)
	g.Mesh.Kill(chosen)
	if _, err := g.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("without lifecycle a list is answered %v", err)
	}
	must(t, g.Mesh.Run(ctx, chosen))
	g.Eventually("calls come back", func() error {
		_, err := g.Driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
		return err
	})
}

// livesOn starts the sandbox that was stopped, waits until it is ready, and deletes it.
func (g *gated) livesOn(t *testing.T, ctx context.Context, wish *computev1.DriverSandbox, former string) {
	t.Helper()
	started, err := g.Driver.StartSandbox(ctx, &computev1.StartSandboxRequest{
		SandboxId: wish.GetId(), GenerationId: "g0000000000000001", LaunchAuthentication: g.Bundle(wish.GetId()), ExpectedRuntimeIdentity: former,
	})
	if err != nil || started.GetRuntimeIdentity() == former {
		t.Fatalf("started as %q, error %v", started.GetRuntimeIdentity(), err)
	}
	f := follow(t, g.Site)
	f.demand(t, "it is ready again", func() bool { return f.ready[wish.GetId()] })
	_, err = g.Driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	g.Eventually("nothing is left", func() error { return nothingLeft(ctx, g.Site, g.Shared, wish.GetId(), wish.GetName()) })
}

// hang stops the lifecycle that has the calls, without its connection being closed: the call that waits for it ends when its connection is
// found to be dead, and the next goes to the other.
func (g *gated) hang(t *testing.T, ctx context.Context, daemon string) {
	t.Helper()
	must(t, syscall.Kill(g.Mesh.Process(daemon).PID(), syscall.SIGSTOP))
	began := time.Now()
	if _, err := g.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("when lifecycle hangs a list is answered %v", err)
	}
	t.Logf("a lifecycle that hangs is left after %s", time.Since(began).Round(time.Second))
	if _, err := g.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{}); err != nil {
		t.Errorf("when one of two lifecycles hangs the next list is answered %v", err)
	}
}

// demandEnd waits until the stream has ended, with a code.
func (f *stream) demandEnd(t *testing.T, code codes.Code) {
	t.Helper()
	cluster.Eventually(t, "the stream ends", func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.ended == nil {
			return errors.New("it goes on")
		}
		if status.Code(f.ended) != code {
			t.Fatalf("the stream ended with %v, want %s", f.ended, code)
		}
		return nil
	})
}

// chosen is the lifecycle that the relay has given the one open stream, and with it all calls; other is the one that has had none.
func (g *gated) chosen(t *testing.T, ctx context.Context) (chosen, other string) {
	t.Helper()
	both := []string{mesh.Lifecycle, mesh.Replica}
	if g.creates(t, ctx, both[0]) == 0 {
		slices.Reverse(both)
	}
	for n, daemon := range both {
		streams, creates := metric(t, ctx, g.Site, daemon, "portcullis_lifecycle_watch_callers"), g.creates(t, ctx, daemon)
		if streams != 1-n || (creates == 0) != (n == 1) {
			t.Fatalf("%s has %d streams and began with %d creates: the relay does not stay with one", daemon, streams, creates)
		}
	}
	return both[0], both[1]
}

// creates is how many creates a lifecycle has begun with.
func (g *gated) creates(t *testing.T, ctx context.Context, daemon string) int {
	t.Helper()
	return metric(t, ctx, g.Site, daemon, `portcullis_lifecycle_step_seconds_count{method="CreateSandbox",step="find"}`)
}

// metric is a series of a daemon; zero when there is none.
func metric(t *testing.T, ctx context.Context, s *lifecycle.Site, daemon, series string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Mesh.Admin(daemon)+"/metrics", nil)
	must(t, err)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			n, err := strconv.Atoi(value)
			must(t, err)
			return n
		}
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the metrics of %s: %s", daemon, response.Status)
	}
	return 0
}
