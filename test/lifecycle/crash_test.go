//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestRollBack harms the requests of a create in every way, in every mode.
func TestRollBack(t *testing.T) {
	with := standIns(t)
	for _, mode := range []string{"operator", "shared", "managed"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := raiseGated(t, with, mode, sshIngress)
			t.Run("requests", func(t *testing.T) {
				rollBack(t, g.in(t), lifecycle.Refused, lifecycle.Dropped, lifecycle.Lost, lifecycle.Kept, lifecycle.Done)
			})
		})
	}
}

// TestCrash: lifecycle is killed at each request of a create, before the API server does it, after, and with the request arriving when
// its sender is dead. What is left then bears the mark, and the next process's reaper deletes it with everything that belongs to it.
// The one exception is the last request, which takes the mark away: from there on the sandbox is the gateway's, whole, and can be deleted
// by its id.
func TestCrash(t *testing.T) {
	for _, mode := range []string{"operator", "shared", "managed"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := raiseGated(t, standIns(t), mode, shortLived, sshIngress)
			g.learn(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var reaped []*attempt
			for n := range g.sequence {
				for _, harm := range []lifecycle.Harm{lifecycle.Kept, lifecycle.Done, lifecycle.Late} {
					a := g.attempt(fmt.Sprintf("%d-%s", n+1, harm), nil)
					a.harm = harm
					if err := a.dieAt(ctx, n+1, n+1 == len(g.sequence)); err != nil {
						t.Errorf("killed at request %d, %s, which was %s: %v", n+1, g.sequence[n], harm, err)
						continue
					}
					reaped = append(reaped, a)
				}
			}
			reaped = append(reaped, g.dieDuringProvision(t, ctx))
			for _, a := range reaped {
				a.demandReaped(t, ctx)
			}
		})
	}
}

// shortLived has the reaper act as early as it may.
func shortLived(o *mesh.Options) {
	o.Extra = map[string][]string{mesh.Lifecycle: {`create_timeout = "30s"`, `abandoned_after = "90s"`, `reap_interval = "1s"`}}
}

// dieAt kills lifecycle at the n-th request of a create and starts it again. What is left is marked, unless the last request was done:
// that one is deleted here.
func (a *attempt) dieAt(ctx context.Context, n int, last bool) error {
	trap := a.gate.Set(a.harm, n, false, a.fits)
	defer trap.Release()
	answered := make(chan error, 1)
	go func() { answered <- a.create(ctx) }()
	select {
	case <-trap.Reached():
	case err := <-answered:
		return fmt.Errorf("it was answered before: %w", err)
	}
	a.Mesh.Kill(mesh.Lifecycle)
	if err := <-answered; err == nil {
		return errors.New("the call was granted by a process that was dead")
	}
	if a.harm == lifecycle.Kept { // the gate may learn later than we that its sender is dead, and would pass it on until then
		select {
		case <-trap.Left():
		case <-ctx.Done():
			return errors.New("the gate does not learn that the sender of what it keeps is dead")
		}
	}
	trap.Release()
	if err := a.Mesh.Run(ctx, mesh.Lifecycle); err != nil {
		return err
	}
	all, err := left(ctx, a.Site, a.namespace, a.wish.GetId(), a.wish.GetName())
	if err != nil {
		return err
	}
	if last && a.harm != lifecycle.Kept {
		return a.remove(ctx)
	}
	return describe(unmarked(all))
}

// dieDuringProvision kills lifecycle while supervisorctl waits for the workload Pod.
func (g *gated) dieDuringProvision(t *testing.T, ctx context.Context) *attempt {
	t.Helper()
	a := g.attempt("provision", nil)
	g.holdPods()
	answered := make(chan error, 1)
	go func() { answered <- a.create(ctx) }()
	a.awaitHeld(t, ctx)
	g.Mesh.Kill(mesh.Lifecycle)
	if err := <-answered; err == nil {
		t.Error("the call was granted by a process that was dead")
	}
	g.releasePods()
	if err := g.Mesh.Run(ctx, mesh.Lifecycle); err != nil {
		t.Fatal(err)
	}
	all, err := left(ctx, g.Site, a.namespace, a.wish.GetId(), a.wish.GetName())
	if err = errors.Join(err, describe(unmarked(all))); err != nil {
		t.Errorf("killed during Provision: %v", err)
	}
	return a
}

// demandReaped waits until nothing is left of a create that nobody undid.
func (a *attempt) demandReaped(t *testing.T, ctx context.Context) {
	t.Helper()
	for {
		err := nothingLeft(ctx, a.Site, a.namespace, a.wish.GetId(), a.wish.GetName())
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s was never deleted: %v", a.wish.GetName(), err)
			return
		case <-time.After(time.Second):
		}
	}
}

// TestNATSAway: without NATS a create is refused or granted as the list that is known says, and leaves nothing when it is refused; what
// runs can be stopped and deleted.
func TestNATSAway(t *testing.T) {
	t.Parallel()
	g := raiseGated(t, standIns(t), "operator")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stands := g.attempt("stands", nil)
	if err := stands.create(ctx); err != nil {
		t.Fatal(err)
	}
	g.Mesh.Kill(mesh.NATS)
	for n := 0; ; n++ {
		a := g.attempt(fmt.Sprintf("away-%d", n), func(w *wish) { w.Workspace = stands.wish.GetWorkspace() })
		_, err := g.Driver.CreateSandbox(ctx, createOf(a))
		a.namespace = stands.namespace
		if wrong := a.settled(ctx, err); wrong != nil {
			t.Fatal(wrong)
		}
		if err != nil {
			if code := status.Code(err); code != codes.Unavailable {
				t.Errorf("without NATS a create answers %v; that nobody knows is UNAVAILABLE", err)
			}
			break // the gate has closed
		}
	}
	if err := stands.stop(ctx); err != nil {
		t.Error(err)
	}
	if err := stands.remove(ctx); err != nil {
		t.Error(err)
	}
}

// unmarked are the Sandboxes among objects that no reaper would delete.
func unmarked(all []object) []object {
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool {
		return o.kind != boxes || o.Labels[workspace.LabelCreate] == workspace.CreatePending || o.DeletionTimestamp != nil
	})
}
