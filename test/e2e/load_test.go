package e2e_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/test/companions"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// load: several sandboxes in one namespace are stopped, started and deleted at once while commands run in them, and nothing is left.
func load(t *testing.T, g *ground) {
	ns := g.namespace(t)
	var boxes []*supervisor.Box
	for range 4 {
		boxes = append(boxes, g.box(t, ns))
	}
	sessions := g.provisionAll(t, boxes...)
	busy := g.occupy(t, sessions)
	first := runs(boxes)
	g.release(t, boxes...)
	demandEnded(t, busy, sessions)
	g.demandOnly(t, ns, func(b *supervisor.Box) []string { return []string{supervisor.Services + "/" + b.ServiceName()} }, boxes...)

	sessions = g.restart(t, 2, boxes...)
	g.demandNone(t, ns, first) // of the old generation
	busy = g.occupy(t, sessions)
	g.remove(t, boxes...)
	each(t, boxes, func(_ int, b *supervisor.Box) error { return g.delete(t.Context(), b) })
	demandEnded(t, busy, sessions)
	g.demandOnly(t, ns, func(*supervisor.Box) []string { return nil })
}

// runs are the Secrets of the boxes' runs.
func runs(boxes []*supervisor.Box) (secrets []string) {
	for _, b := range boxes {
		for _, kind := range []string{"sandbox", "supervisor"} {
			secrets = append(secrets, b.SecretName(kind, b.Run.Generation))
		}
	}
	return secrets
}

func (g *ground) delete(ctx context.Context, b *supervisor.Box) error {
	return g.Cluster.Dynamic().Resource(g.Dialect.Version.Resource()).Namespace(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})
}

// occupy starts commands in each sandbox that do not end by themselves, one of which does not even when it is asked to.
func (g *ground) occupy(t testing.TB, sessions []*gatewayside.Session) (busy []*gatewayside.Process) {
	t.Helper()
	for _, s := range sessions {
		for _, how := range []string{"sleep", "stubborn"} {
			p, err := s.Start(companions.Workload(how), nil)
			noError(t, err)
			noError(t, p.AwaitOutput(t.Context(), "sleeping"))
			busy = append(busy, p)
		}
	}
	return busy
}

// demandEnded demands that the sessions are over, and the commands with them, which did not end well.
func demandEnded(t testing.TB, busy []*gatewayside.Process, sessions []*gatewayside.Session) {
	t.Helper()
	for _, s := range sessions {
		demandOver(t, s)
	}
	for _, p := range busy {
		if out, err := p.Wait(t.Context()); err == nil && out.Exit.Code == 0 && out.Exit.Signal == 0 {
			t.Errorf("a command that was under way ended well: %+v", out)
		}
	}
}

// demandOnly demands exactly these companions of all boxes of a namespace.
func (g *ground) demandOnly(t testing.TB, namespace string, of func(*supervisor.Box) []string, boxes ...*supervisor.Box) {
	t.Helper()
	now, err := g.History.Look(t.Context(), namespace)
	noError(t, err)
	var want []string
	for _, b := range boxes {
		want = append(want, of(b)...)
	}
	if got := now.Companions(); !sameSet(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// demandNone demands that none of these Secrets is there.
func (g *ground) demandNone(t testing.TB, namespace string, secrets []string) {
	t.Helper()
	for _, name := range secrets {
		if _, err := g.Cluster.Client().CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("Secret %s of the run before: %v", name, err)
		}
	}
}

// Names at their limits: a Sandbox of shared mode with 63 bytes, of which its Pod, its host name and its claim are made, beside another
// that differs in the last byte alone.
func TestLongNames(t *testing.T) {
	t.Parallel()
	g := newGround(t, supervisor.Shared)
	ns := g.namespace(t)
	var boxes []*supervisor.Box
	for _, last := range []string{"a", "b"} {
		short := strings.Repeat("x", 63-len("desk--")-1) + last
		boxes = append(boxes, g.box(t, ns, func(d *supervisor.Draft) {
			d.Sandbox.Name = "desk--" + short
			d.Sandbox.Labels["openshell.ai/sandbox-name"], d.Sandbox.Annotations["openshell.ai/sandbox-name"] = short, short
		}))
	}
	for i, s := range g.provisionAll(t, boxes...) {
		demandConfirmation(t, g, boxes[i], s)
		if got := does(t, s, "echo", boxes[i].Name); got != boxes[i].Name || len(got) != 63 {
			t.Errorf("the channel of %s says %q", boxes[i].Name, got)
		}
	}
	for _, b := range boxes { // a create that is not complete cannot be started anew (contract 7.11)
		g.awaitStatus(t, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
	}
	for i, s := range g.restart(t, 2, boxes...) {
		demandConfirmation(t, g, boxes[i], s)
	}
	g.remove(t, boxes...)
	g.demandOnly(t, ns, func(*supervisor.Box) []string { return nil }, boxes...)
}
