package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// gated is a mesh whose lifecycle asks the API server through a Gate.
type gated struct {
	*lifecycle.Site
	gate *lifecycle.Gate
	// sequence is what a create that goes well asks for, in order, as "verb resource".
	sequence []string
}

func raiseGated(t *testing.T, with *lifecycle.StandIns, mode string, changes ...func(*mesh.Options)) *gated {
	t.Helper()
	s := with.Raise(t, mode, []string{mesh.Lifecycle}, changes...)
	return &gated{Site: s, gate: s.Gates[mesh.Lifecycle]}
}

// standIns are those of the shared API server.
func standIns(t *testing.T) *lifecycle.StandIns {
	t.Helper()
	return lifecycle.StartStandIns(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
}

// in is the same for a subtest.
func (g *gated) in(t *testing.T) *gated {
	own := *g
	own.Site = g.In(t)
	return &own
}

// learn finds out the sequence.
func (g *gated) learn(t *testing.T) {
	t.Helper()
	whole := g.attempt("whole", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := whole.create(ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range g.gate.Requests(whole.fits) {
		g.sequence = append(g.sequence, r.Verb+" "+r.Resource)
	}
	if err := whole.remove(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("a create in %s mode asks for: %s", g.Mode, strings.Join(g.sequence, ", "))
}

// sshIngress asks for the policy of managed mode, so that all requests of that mode are made.
func sshIngress(o *mesh.Options) {
	if o.Mode == "managed" {
		o.Stock = append(o.Stock, `managed_ssh_ingress = { enabled = true, gateway_namespace = "gateway", gateway_pod_selector = { app = "gateway" } }`)
	}
}

// attempt is one create in a workspace of its own, where the mode has such.
type attempt struct {
	*gated
	wish      *computev1.DriverSandbox
	namespace string
	mentions  []string
	harm      lifecycle.Harm
}

// attempt belongs to the test's goroutine; what is done with it does not.
func (g *gated) attempt(name string, changes func(*computev1.DriverSandbox)) *attempt {
	wish := g.Wish(g.Workspace("ws-"+name), name)
	if changes != nil {
		changes(wish)
	}
	a := &attempt{gated: g, wish: wish, namespace: g.NamespaceOf(wish.GetWorkspace()), mentions: []string{wish.GetId()}}
	if g.Mode == "shared" {
		a.mentions = append(a.mentions, wish.GetName())
	} else {
		a.mentions = append(a.mentions, a.namespace)
	}
	return a
}

// fits are the requests of this create: those that mention it, and that no watch makes.
func (a *attempt) fits(r lifecycle.Request) bool {
	return r.Verb != "watch" && r.Mentions(a.mentions...)
}

func (a *attempt) create(ctx context.Context) error {
	for {
		_, err := a.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: a.wish})
		if a.Mode != "operator" || status.Code(err) != codes.FailedPrecondition && status.Code(err) != codes.Unavailable || ctx.Err() != nil ||
			!strings.Contains(status.Convert(err).Message(), "allowlist") {
			return err
		}
		time.Sleep(50 * time.Millisecond) // the label is not known yet
	}
}

// remove deletes the sandbox and waits until nothing is left.
func (a *attempt) remove(ctx context.Context) error {
	for {
		if _, err := a.Driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: a.wish.GetId()}); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		err := nothingLeft(ctx, a.Site, a.namespace, a.wish.GetId(), a.wish.GetName())
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// fitting are the codes that a create may answer with when it cannot be done for a reason that is not the request's (contract 2.7).
var fitting = map[codes.Code]bool{codes.Unavailable: true, codes.Internal: true, codes.Canceled: true, codes.FailedPrecondition: true, codes.DeadlineExceeded: true}

// settled judges what a create that answered with err has left: everything, or in the end nothing, and no second create is hindered.
func (a *attempt) settled(ctx context.Context, err error) error {
	if err == nil {
		return a.remove(ctx)
	}
	if !fitting[status.Code(err)] {
		return fmt.Errorf("it answers %w", err)
	}
	for last := error(nil); ; time.Sleep(100 * time.Millisecond) {
		now := nothingLeft(ctx, a.Site, a.namespace, a.wish.GetId(), a.wish.GetName())
		if now == nil {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it answered %w, and %w", err, errors.Join(last, now))
		}
		last = now
	}
	_, gone := a.Driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: a.wish.GetId()})
	if status.Code(gone) != codes.NotFound {
		return fmt.Errorf("nothing is left, and a get answers %w", gone)
	}
	return nil
}

// suffer has the n-th request harmed, cancels the call where nobody else ends it, and judges what is left.
func (a *attempt) suffer(ctx context.Context, n int) error {
	trap := a.gate.Set(a.harm, n, false, a.fits)
	defer trap.Release()
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- a.create(calling) }()
	var err error
	select {
	case <-trap.Reached():
		if a.harm == lifecycle.Kept || a.harm == lifecycle.Done {
			cancel() // while it waits for the answer
		}
		err = <-answered
	case err = <-answered:
		return fmt.Errorf("no request number %d came before the answer %w", n, err)
	}
	// The trap stays shut until everything is judged: an answer let go now could reach the daemon before the cancellation does, and
	// then the create has gone well for everybody but its caller.
	return a.settled(ctx, err)
}

// rollBack harms each request of a create in each of the ways: whatever request fails, is lost or is waited for when the caller goes,
// nothing of the sandbox is left.
func rollBack(t *testing.T, g *gated, harms ...lifecycle.Harm) {
	g.learn(t)
	for n := range g.sequence {
		for _, harm := range harms {
			name := fmt.Sprintf("%d-%s", n+1, harm)
			a := g.attempt(name, nil)
			a.harm = harm
			t.Run(fmt.Sprintf("%s %s", g.sequence[n], name), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if err := a.suffer(ctx, n+1); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
