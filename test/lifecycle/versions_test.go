package lifecycle_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// definitions is a mesh on a control plane of its own, on which the Agent Sandbox definitions come and change under it.
type definitions struct {
	*gated
	with  *lifecycle.StandIns
	whole *testing.T
}

// raiseWithout launches a mesh where there are no definitions, and demands that those who need them say so and nothing else.
func raiseWithout(t *testing.T) *definitions {
	t.Helper()
	with := lifecycle.StartPods(t, cluster.StartPrivate(t).Cluster)
	s := with.Launch(t, "operator", []string{mesh.Lifecycle})
	d := &definitions{gated: &gated{Site: s, gate: s.Gates[mesh.Lifecycle]}, with: with, whole: t}
	for daemon, check := range map[string]string{mesh.Lifecycle: "view", mesh.Supervisorctl: "sandboxes", mesh.Tokenauth: "sandboxes"} {
		s.Eventually(daemon+" lacks the definitions and nothing else", func() error { return unready(t.Context(), s.Mesh.Admin(daemon), check) })
	}
	wish := s.Wish(s.Workspace("before"), "before")
	_, create := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	_, get := s.Driver.GetSandbox(s.Context(), &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
	_, list := s.Driver.ListSandboxes(s.Context(), &computev1.ListSandboxesRequest{})
	for call, is := range map[string]struct {
		err  error
		want codes.Code
	}{"create": {create, codes.FailedPrecondition}, "get": {get, codes.FailedPrecondition}, "list": {list, codes.FailedPrecondition}} {
		if status.Code(is.err) != is.want {
			t.Errorf("without the definitions a %s is answered %v, want %s", call, is.err, is.want)
		}
	}
	return d
}

// unready is nil when a daemon is not ready, for one check alone, which names the definitions.
func unready(ctx context.Context, address, check string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var failing []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "[-] ") {
			failing = append(failing, line)
		}
	}
	if response.StatusCode != http.StatusServiceUnavailable || len(failing) != 1 || !strings.HasPrefix(failing[0], "[-] "+check+": ") ||
		!strings.Contains(failing[0], "install") || !strings.Contains(strings.ToLower(failing[0]), "agent sandbox") {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}

// older installs the older definitions with a controller that ends with t. The mesh becomes ready, and a sandbox lives. One more, which stands
// then, is told to be ready on the stream, which ends with the whole test.
func (d *definitions) older(t *testing.T) (f *stream, stands *standing) {
	t.Helper()
	d.with.Control(t, reconcile.V1alpha1WithoutSuspended())
	s := d.In(t)
	s.AwaitDaemons()
	f = follow(d.whole, d.Site)
	lifeIn(t, s, "team")
	stands = d.create(t, f, d.Workspace("stands"), "stands") // which outlives t
	if got := d.madeIn(stands.wish); got != api.V1alpha1 {
		t.Errorf("it was made in %q", got)
	}
	return f, stands
}

// standing is a sandbox that runs.
type standing struct {
	wish     *computev1.DriverSandbox
	identity string
}

// create makes a sandbox and waits until the stream says that it is ready.
func (d *definitions) create(t *testing.T, f *stream, workspace, name string) *standing {
	t.Helper()
	s := d.In(t)
	s.Eventually("the workspace may be used", func() error {
		_, err := s.Driver.EnsureWorkspace(s.Context(), &computev1.EnsureWorkspaceRequest{Workspace: workspace})
		return err
	})
	wish := s.Wish(workspace, name)
	made, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	f.demand(t, "sandbox "+name+" is ready", func() bool { return f.ready[wish.GetId()] })
	return &standing{wish: wish, identity: made.GetRuntimeIdentity()}
}

// madeIn is the version in which lifecycle has last asked for a sandbox to be made.
func (d *definitions) madeIn(wish *computev1.DriverSandbox) (version api.Version) {
	for _, v := range []api.Version{api.V1alpha1, api.V1beta1} {
		for range d.gate.Requests(func(r lifecycle.Request) bool {
			return r.Verb == "create" && r.Resource == "sandboxes" && r.Mentions(wish.GetId()) && r.Mentions("/"+v.APIVersion()+"/")
		}) {
			version = v
		}
	}
	return version
}

// ends deletes a sandbox and waits until its end is told, once.
func (d *definitions) ends(t *testing.T, f *stream, of *standing) {
	t.Helper()
	wish := of.wish
	gone, err := d.Driver.DeleteSandbox(d.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	if err != nil || !gone.GetDeleted() {
		t.Fatalf("a delete is answered %v, %v", gone, err)
	}
	f.demand(t, "its end is told", func() bool { return f.deleted[wish.GetId()] == 1 })
}

// TestOlderDefinitions: without the Agent Sandbox definitions the daemons are not ready, for that reason alone. The older ones are installed, and
// without a restart all are ready, and a sandbox lives as it does with the newer ones.
func TestOlderDefinitions(t *testing.T) {
	t.Parallel()
	d := raiseWithout(t)
	f, stands := d.older(t)
	d.ends(t, f, stands)
}
