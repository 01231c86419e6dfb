//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

// TestNewerDefinitions: the newer definitions are installed over the older ones while a sandbox runs. Nothing is restarted, the stream of before
// goes on, the sandbox stays as it is and can be stopped and started, and soon new ones are made in the newer version (contract 8.1, 8.2).
func TestNewerDefinitions(t *testing.T) {
	t.Parallel()
	d := raiseWithout(t)
	var f *stream
	var stands *standing
	if !t.Run("older", func(t *testing.T) { f, stands = d.older(t) }) {
		return
	}
	must(t, crd.Upgrade(t.Context(), d.Cluster.RESTConfig()))
	d.convert(t)
	d.with.Control(t, reconcile.Newest())

	d.restarts(t, f, stands)
	workspace := d.Workspace("newer")
	var newer *standing
	for n := 0; newer == nil; n++ {
		if n == 100 {
			t.Fatal("no sandbox is made in the newer version")
		}
		made := d.create(t, f, workspace, fmt.Sprintf("newer-%d", n))
		if d.madeIn(made.wish) == api.V1beta1 {
			newer = made
			continue
		}
		d.ends(t, f, made) // lifecycle does not try the newer one every time
	}
	d.restarts(t, f, newer)
	list, err := d.Driver.ListSandboxes(d.Context(), &computev1.ListSandboxesRequest{})
	if err != nil || len(list.GetSandboxes()) != 2 {
		t.Errorf("the list is %v, %v", list, err)
	}
	d.ends(t, f, stands)
	d.ends(t, f, newer)
}

// convert serves the conversion between the versions until the test ends.
func (d *definitions) convert(t *testing.T) {
	t.Helper()
	converter, err := crd.NewConverter(d.Cluster.RESTConfig(), zerolog.Nop())
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- converter.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	select {
	case <-converter.Ready():
	case <-d.Context().Done():
		t.Fatal("the API server does not convert")
	}
}

// restarts stops a sandbox, demands that it is suspended in both versions, and starts it.
func (d *definitions) restarts(t *testing.T, f *stream, of *standing) {
	t.Helper()
	_, err := d.Driver.StopSandbox(d.Context(), &computev1.StopSandboxRequest{SandboxId: of.wish.GetId()})
	must(t, err)
	f.demand(t, "it is not ready", func() bool { return !f.ready[of.wish.GetId()] })
	for _, version := range []api.Version{api.V1alpha1, api.V1beta1} {
		u, err := d.Cluster.Dynamic().Resource(version.Resource()).Namespace(d.NamespaceOf(of.wish.GetWorkspace())).Get(t.Context(), of.wish.GetName(), metav1.GetOptions{})
		must(t, err)
		if box, err := api.Decode(u); err != nil || !box.Suspended() {
			t.Errorf("in %s a stopped sandbox is %v, error %v", version, box, err)
		}
	}
	_, err = d.Driver.StartSandbox(d.Context(), &computev1.StartSandboxRequest{
		SandboxId: of.wish.GetId(), GenerationId: "g0000000000000002", LaunchAuthentication: d.Bundle(of.wish.GetId()), ExpectedRuntimeIdentity: of.identity,
	})
	must(t, err)
	f.demand(t, "it is ready again", func() bool { return f.ready[of.wish.GetId()] })
}
