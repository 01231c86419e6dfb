//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/conformance"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestConformance: the whole mesh keeps the contract, call by call, in each mode and through a relay. Operator mode is asked for most: it has
// what may not be used, and a driver that takes driver_config.
func TestConformance(t *testing.T) {
	with := standIns(t)
	for name, c := range map[string]struct {
		mode   string
		way    string // the process whose socket the suite is given
		how    []func(*mesh.Options)
		target func(*testing.T, *lifecycle.Site, *underTest) conformance.Target
		// notMade begin the ids of checks that cannot be made in this mode, or with these settings.
		notMade []string
	}{
		"operator": {mode: "operator", way: mesh.Lifecycle, how: []func(*mesh.Options){withConfig}, target: withForbidden, notMade: takesConfig},
		"relay":    {mode: "operator", way: mesh.Relay, how: []func(*mesh.Options){withConfig, relayed}, target: withForbidden, notMade: takesConfig},
		"shared":   {mode: "shared", way: mesh.Lifecycle, target: asItIs, notMade: slices.Concat(forbidsNothing, refusesConfig)},
		"managed":  {mode: "managed", way: mesh.Lifecycle, how: []func(*mesh.Options){sshIngress}, target: asItIs, notMade: slices.Concat(forbidsNothing, refusesConfig)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := with.Raise(t, c.mode, nil, c.how...)
			if c.way == mesh.Relay {
				must(t, s.Mesh.Run(s.Context(), mesh.Relay))
			}
			u := under(t, s, c.way, s.Workspace("one"), s.Workspace("two"))
			u.usable(s)
			without(t, conformance.Run(t, c.target(t, s, u)), c.notMade...)
		})
	}
}

// What a driver with such settings cannot be asked. The credential that is no sandbox's is another check where one is authenticated.
var (
	takesConfig    = []string{"authenticate.absent", "hostile.config-disabled", "field.config-disabled"}
	refusesConfig  = []string{"authenticate.absent", "hostile.config-", "field.config-"}
	forbidsNothing = []string{"create.forbidden", "workspace.forbidden"}
)

func asItIs(_ *testing.T, _ *lifecycle.Site, u *underTest) conformance.Target { return u }

func withForbidden(_ *testing.T, s *lifecycle.Site, u *underTest) conformance.Target {
	target := &operated{underTest: u, forbidden: s.GatewayID + "-closed"}
	s.Namespace(target.forbidden, nil)
	return target
}

// without fails the test when a check was not made that does not begin with one of these.
func without(t *testing.T, notMade []string, expected ...string) {
	t.Helper()
	for _, id := range notMade {
		known := false
		for _, begins := range expected {
			known = known || strings.HasPrefix(id, begins)
		}
		if !known {
			t.Errorf("the check %s was not made", id)
		}
	}
}

// underTest is the mesh as a target of the suite.
type underTest struct {
	conn       *grpc.ClientConn
	site       *lifecycle.Site
	authority  *credentials.Authority
	workspaces []string
	next       atomic.Int64
}

func under(t *testing.T, s *lifecycle.Site, way string, workspaces ...string) *underTest {
	t.Helper()
	// As a gateway does: a driver that was killed is found again soon after it is back.
	conn, err := udsock.NewClient(s.Mesh.SocketOf(way), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)), grpc.WithConnectParams(grpc.ConnectParams{
		MinConnectTimeout: time.Second, Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, MaxDelay: 500 * time.Millisecond, Jitter: 0.2},
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var ring credentials.Ring
	if ring, err = ring.Rotated(); err != nil {
		t.Fatal(err)
	}
	authority, err := credentials.New(s.GatewayID, ring, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return &underTest{conn: conn, site: s, authority: authority, workspaces: workspaces}
}

// usable waits until the workspaces may be used.
func (u *underTest) usable(s *lifecycle.Site) {
	for _, workspace := range u.workspaces {
		s.Eventually("workspace "+workspace+" may be used", func() error {
			_, err := s.Driver.EnsureWorkspace(s.Context(), &computev1.EnsureWorkspaceRequest{Workspace: workspace})
			return err
		})
	}
}

func (u *underTest) Conn() grpc.ClientConnInterface { return u.conn }

func (u *underTest) Patience() time.Duration { return time.Minute }

func (u *underTest) Workspace(context.Context) (string, error) {
	return u.workspaces[int(u.next.Add(1))%len(u.workspaces)], nil
}

func (u *underTest) Bundle(run credentials.Run) (secret.Value, error) { return u.authority.Bundle(run) }

func (u *underTest) Reset(ctx context.Context) error {
	driver := computev1.NewComputeDriverClient(u.conn)
	list, err := driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return err
	}
	for _, one := range list.GetSandboxes() {
		if _, err := driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: one.GetId()}); err != nil {
			return err
		}
	}
	return nil
}

func (u *underTest) Objects(ctx context.Context, workspace, id string) ([]string, error) {
	kinds, fit := kinds, func(o *metav1.ObjectMeta) bool { return bears(o, id) }
	if id == "" {
		kinds, fit = kinds[:1], func(o *metav1.ObjectMeta) bool { return o.Labels["openshell.ai/sandbox-workspace"] == workspace }
	}
	for _, kind := range kinds { // one thing that is there says enough, and it is asked for again and again
		all, err := objects(ctx, u.site, u.site.NamespaceOf(workspace), []schema.GroupVersionResource{kind}, fit)
		if err != nil || len(all) > 0 {
			var found []string
			for _, o := range all {
				found = append(found, o.kind.Resource+"/"+o.Name)
			}
			return found, err
		}
	}
	return nil, nil
}

// bears reports whether an object is of the sandbox with the id. What is too short for an id of a sandbox is no part of a name.
func bears(object *metav1.ObjectMeta, id string) bool {
	const uuid = 36
	if len(id) >= uuid && strings.Contains(object.Name, strings.ToLower(id)) {
		return true
	}
	for _, values := range []map[string]string{object.Labels, object.Annotations} {
		for _, value := range values {
			if strings.EqualFold(value, id) {
				return true
			}
		}
	}
	return false
}

func (u *underTest) Runs(ctx context.Context, workspace, id string) (bool, error) {
	pods, err := u.site.Cluster.Client().CoreV1().Pods(u.site.NamespaceOf(workspace)).List(ctx, metav1.ListOptions{LabelSelector: "openshell.ai/boundary-pair=" + id})
	return err != nil || len(pods.Items) > 0, err
}

func (u *underTest) Disturb(ctx context.Context) error {
	u.site.Mesh.Kill(mesh.Lifecycle)
	return u.site.Mesh.Run(ctx, mesh.Lifecycle)
}

func (u *underTest) Touch(ctx context.Context, workspace, id string) error {
	at := u.site.Cluster.Dynamic().Resource(boxes).Namespace(u.site.NamespaceOf(workspace))
	list, err := at.List(ctx, metav1.ListOptions{LabelSelector: "openshell.ai/sandbox-id=" + id})
	if err == nil && len(list.Items) != 1 {
		err = fmt.Errorf("sandbox %s has %d objects", id, len(list.Items))
	}
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"portcullis.test/touched":"%d"}}}`, u.next.Add(1))
	_, err = at.Patch(ctx, list.Items[0].GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (u *underTest) Credential(ctx context.Context, workspace, id string) (secret.Value, error) {
	core := u.site.Cluster.Client().CoreV1()
	supervisor, err := core.Pods(u.site.NamespaceOf(workspace)).Get(ctx, "os-supervisor-"+id, metav1.GetOptions{})
	if err != nil {
		return secret.Value{}, err
	}
	answer, err := core.ServiceAccounts(supervisor.Namespace).CreateToken(ctx, supervisor.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{"openshell-gateway"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: supervisor.Name, UID: supervisor.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return secret.Value{}, err
	}
	return secret.New([]byte(answer.Status.Token)), nil
}

// operated is one in operator mode, with a namespace that is not on the list.
type operated struct {
	*underTest
	forbidden string
}

func (o *operated) Forbidden(context.Context) (string, error) { return o.forbidden, nil }

var (
	_ conformance.Forbidder = (*operated)(nil)
	_ conformance.Inspector = (*underTest)(nil)
	_ conformance.Disturber = (*underTest)(nil)
	_ conformance.Toucher   = (*underTest)(nil)
	_ conformance.Presenter = (*underTest)(nil)
)
