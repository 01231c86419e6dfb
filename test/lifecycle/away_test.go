//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

type wish = computev1.DriverSandbox

func createOf(a *attempt) *computev1.CreateSandboxRequest {
	return &computev1.CreateSandboxRequest{Sandbox: a.wish}
}

func (a *attempt) stop(ctx context.Context) error {
	_, err := a.Driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: a.wish.GetId()})
	return err
}

// holdPods has no workload Pod made until releasePods.
func (g *gated) holdPods()    { g.Faults.Hold(reconcile.CreatePod) }
func (g *gated) releasePods() { g.Faults.Release(reconcile.CreatePod) }

// awaitHeld waits until the sandbox's workload Pod is about to be made, so supervisorctl is in the middle of its work.
func (a *attempt) awaitHeld(t *testing.T, ctx context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		all, err := left(ctx, a.Site, a.namespace, a.wish.GetId(), a.wish.GetName())
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 && all[0].kind == boxes {
			if err := a.Faults.AwaitHeld(ctx, reconcile.CreatePod, types.NamespacedName{Namespace: all[0].Namespace, Name: all[0].Name}); err != nil {
				t.Fatal(err)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatal("no Sandbox was made")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestDaemonsAway: a create during which supervisorctl dies, or for which it is away, is refused as something that may pass and leaves
// nothing, with nobody there but the cluster; a delete needs neither; a token is then not judged, and that is no refusal.
func TestDaemonsAway(t *testing.T) {
	t.Parallel()
	g := raiseGated(t, standIns(t), "managed", sshIngress)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stands := g.attempt("stands", nil)
	if err := stands.create(ctx); err != nil {
		t.Fatal(err)
	}
	cut := g.attempt("cut", nil)
	g.holdPods()
	answered := make(chan error, 1)
	go func() { answered <- cut.create(ctx) }()
	cut.awaitHeld(t, ctx)
	g.Mesh.Kill(mesh.Supervisorctl)
	killed := time.Now()
	err := <-answered
	t.Logf("answered %s after supervisorctl was killed: %v", time.Since(killed).Round(time.Millisecond), err)
	g.releasePods()
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a create during which supervisorctl dies answers %v", err)
	}
	if err := cut.settled(ctx, err); err != nil {
		t.Error(err)
	}

	away := g.attempt("away", nil)
	asked := time.Now()
	err = away.create(ctx)
	t.Logf("answered after %s without supervisorctl: %v", time.Since(asked).Round(time.Millisecond), err)
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without supervisorctl a create answers %v", err)
	}
	if err := away.settled(ctx, err); err != nil {
		t.Error(err)
	}
	asked = time.Now()
	if err := stands.remove(ctx); err != nil {
		t.Errorf("without supervisorctl: %v", err)
	}
	t.Logf("deleted, with nothing left, after %s without supervisorctl", time.Since(asked).Round(time.Millisecond))

	g.Mesh.Kill(mesh.Tokenauth)
	_, err = g.Driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: "some.bearer.token"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without tokenauth an authentication answers %v", err)
	}
	if err := g.Mesh.Run(ctx, mesh.Supervisorctl); err != nil {
		t.Fatal(err)
	}
	again := g.attempt("again", nil)
	g.Eventually("a create is granted again", func() error { return again.create(ctx) })
	if err := again.remove(ctx); err != nil {
		t.Error(err)
	}
}
