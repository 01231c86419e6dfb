package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// The annotations of OpenShift's allocator (contract 9.3).
const (
	sccUsers  = "openshift.io/sa.scc.uid-range"
	sccGroups = "openshift.io/sa.scc.supplemental-groups"
	sccLabel  = "openshift.io/sa.scc.mcs"
)

// ofSource are those of the source namespace: there is an allocator.
var ofSource = map[string]string{sccUsers: "1000700000/10000", sccGroups: "1000710000/10000", sccLabel: "s0:c26,c10"}

// TestOpenShift: where the source namespace has an allocator's annotations, sandboxes run as the users of their own namespace's ranges, under the
// ServiceAccount of the settings, which is made; and none is made in a namespace that has no ranges, whichever way it was to come by them.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	with := standIns(t)
	for scc, test := range map[string]func(*testing.T, *gated){"allocate": allocated, "copy": copied} {
		t.Run(scc, func(t *testing.T) {
			t.Parallel()
			g := raiseGated(t, with, "managed", func(o *mesh.Options) {
				o.Stock = append(o.Stock, `service_account_name = "sandbox"`)
				o.Extra = map[string][]string{mesh.Lifecycle: {fmt.Sprintf("openshift_scc = %q", scc)}}
			})
			annotate(t, g.Site, g.Shared, ofSource)
			test(t, g)
		})
	}
}

// allocated plays the allocator, and takes its time.
func allocated(t *testing.T, g *gated) {
	// One that somebody has given a range is passed over by the allocator for ever.
	g.owned(t, "passed-over", map[string]string{sccUsers: "1000800000/10000"})
	g.demandRefused(t, "passed-over")

	namespace := g.NamespaceOf("late")
	given := make(chan error, 1)
	go func() {
		_, err := g.Driver.EnsureWorkspace(g.Context(), &computev1.EnsureWorkspaceRequest{Workspace: "late"})
		given <- err
	}()
	g.awaitLooks(t, namespace, 2)
	// Nor is a sandbox made there before: its create waits as well, until its caller does not.
	wish := g.Wish("late", "early")
	ctx, cancel := context.WithCancel(g.Context())
	made := make(chan error, 1)
	go func() {
		_, err := g.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
		made <- err
	}()
	g.awaitLooks(t, namespace, 4)
	select {
	case err := <-given:
		t.Fatalf("before the allocator came EnsureWorkspace is answered %v", err)
	case err := <-made:
		t.Fatalf("before the allocator came a create is answered %v", err)
	default:
	}
	cancel()
	if err := <-made; status.Code(err) != codes.Canceled {
		t.Errorf("a create that is given up is answered %v", err)
	}
	g.demandNone(t, "late")

	annotate(t, g.Site, namespace, map[string]string{sccUsers: "1000810000/10000", sccGroups: "1000820000/10000", sccLabel: "s0:c27,c4"})
	must(t, <-given)
	g.demandRuns(t, "late", 1000810000, 1000820000)
}

// copied has nobody play the allocator, and gives a new namespace the ranges of the source.
func copied(t *testing.T, g *gated) {
	g.owned(t, "bare", nil)
	g.demandRefused(t, "bare")

	g.demandRuns(t, "team", 1000700000, 1000710000)
	ns, err := g.Cluster.Client().CoreV1().Namespaces().Get(t.Context(), g.NamespaceOf("team"), metav1.GetOptions{})
	must(t, err)
	if ns.Annotations[sccUsers] != ofSource[sccUsers] || ns.Annotations[sccGroups] != ofSource[sccGroups] || ns.Annotations[sccLabel] != "" {
		t.Errorf("the new namespace has the annotations %v", ns.Annotations)
	}

	annotate(t, g.Site, g.Shared, map[string]string{sccUsers: ""}) // what is left says that there is an allocator
	g.demandRefused(t, "after")
}

// owned makes the namespace of a workspace, as an earlier lifecycle left it.
func (g *gated) owned(t *testing.T, workspace string, annotations map[string]string) {
	t.Helper()
	namespace := g.NamespaceOf(workspace)
	g.In(t).Namespace(namespace, map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/gateway-id": g.GatewayID, "openshell.ai/sandbox-workspace": workspace,
	})
	annotate(t, g.Site, namespace, annotations)
}

// demandRefused demands that neither the workspace nor a sandbox in it comes about, and that the answers name the annotation.
func (g *gated) demandRefused(t *testing.T, workspace string) {
	t.Helper()
	_, prepared := g.Driver.EnsureWorkspace(g.Context(), &computev1.EnsureWorkspaceRequest{Workspace: workspace})
	_, made := g.Driver.CreateSandbox(g.Context(), &computev1.CreateSandboxRequest{Sandbox: g.Wish(workspace, "box")})
	for what, err := range map[string]error{"EnsureWorkspace": prepared, "a create": made} {
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(status.Convert(err).Message(), "openshift.io/") {
			t.Errorf("in %s %s is answered %v, want FAILED_PRECONDITION with the annotation", workspace, what, err)
		}
	}
	g.demandNone(t, workspace)
}

// demandNone demands that there is no sandbox in a workspace, nor a Pod.
func (g *gated) demandNone(t *testing.T, workspace string) {
	t.Helper()
	all, err := objects(t.Context(), g.Site, g.NamespaceOf(workspace), kinds[:2], func(*metav1.ObjectMeta) bool { return true })
	must(t, errors.Join(err, describe(all)))
}

// demandRuns demands that a sandbox of a workspace is made, under the ServiceAccount of the settings, and runs as a user and group. After a stop it
// still does.
func (g *gated) demandRuns(t *testing.T, workspace string, user, group int64) {
	t.Helper()
	wish, namespace := g.Wish(workspace, "box"), g.NamespaceOf(workspace)
	made, err := g.Driver.CreateSandbox(g.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	core := g.Cluster.Client().CoreV1()
	if _, err := core.ServiceAccounts(namespace).Get(t.Context(), "sandbox", metav1.GetOptions{}); err != nil {
		t.Errorf("the ServiceAccount of the settings: %v", err)
	}
	look := func(when string) {
		t.Helper()
		g.In(t).AwaitReady(wish.GetId())
		for _, name := range []string{wish.GetName(), "os-supervisor-" + wish.GetId()} {
			pod, err := core.Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
			must(t, err)
			as := pod.Spec.SecurityContext
			if as == nil || as.FSGroup == nil || *as.FSGroup != group {
				t.Errorf("%s Pod %s has the files of %+v, want group %d", when, name, as, group)
			}
			if name == wish.GetName() { // the supervisor's user is its image's
				demandUser(t, when, pod, user, group)
			}
			if pod.Spec.ServiceAccountName != "sandbox" {
				t.Errorf("%s Pod %s runs under the ServiceAccount %q", when, name, pod.Spec.ServiceAccountName)
			}
		}
	}
	look("at first")
	_, err = g.Driver.StopSandbox(g.Context(), &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	_, err = g.Driver.StartSandbox(g.Context(), &computev1.StartSandboxRequest{
		SandboxId: wish.GetId(), GenerationId: "g0000000000000002", LaunchAuthentication: g.Bundle(wish.GetId()), ExpectedRuntimeIdentity: made.GetRuntimeIdentity(),
	})
	must(t, err)
	look("after a start")
	_, err = g.Driver.DeleteSandbox(g.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
}

// demandUser demands that a workload Pod, and each container that says for itself, runs as a user and group.
func demandUser(t *testing.T, when string, pod *corev1.Pod, user, group int64) {
	t.Helper()
	if as := pod.Spec.SecurityContext; as.RunAsUser == nil || as.RunAsGroup == nil || *as.RunAsUser != user || *as.RunAsGroup != group {
		t.Errorf("%s the workload runs as %+v, want user %d, group %d", when, as, user, group)
	}
	for i := range pod.Spec.Containers {
		as := pod.Spec.Containers[i].SecurityContext
		if as != nil && (as.RunAsUser != nil && *as.RunAsUser != user || as.RunAsGroup != nil && *as.RunAsGroup != group) {
			t.Errorf("%s its container %s runs as %+v, want user %d, group %d", when, pod.Spec.Containers[i].Name, as, user, group)
		}
	}
}

// awaitLooks waits until lifecycle has looked at a namespace so often.
func (g *gated) awaitLooks(t *testing.T, namespace string, often int) {
	t.Helper()
	g.In(t).Eventually("lifecycle waits for namespace "+namespace, func() error {
		n := len(g.gate.Requests(func(r lifecycle.Request) bool {
			return r.Verb == "get" && r.Resource == "namespaces" && r.Mentions(namespace)
		}))
		if n < often {
			return fmt.Errorf("it has looked %d times", n)
		}
		return nil
	})
}

// annotate writes annotations of a namespace in one step, as the allocator does; an empty one is taken away.
func annotate(t *testing.T, s *lifecycle.Site, namespace string, annotations map[string]string) {
	t.Helper()
	to := map[string]any{}
	for key, value := range annotations {
		if to[key] = value; value == "" {
			to[key] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": to}})
	must(t, err)
	_, err = s.Cluster.Client().CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}
