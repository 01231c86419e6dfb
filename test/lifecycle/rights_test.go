package lifecycle_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	shippedrights "github.com/portcullis-mesh/portcullis/test/rights"
)

// shipped are the cluster-wide rules of files of deploy/kustomize/base, by what they allow: "verb resource.group".
func shipped(t *testing.T, files ...string) map[string]bool {
	t.Helper()
	rights := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kustomize", "base", file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			if role.Kind != "ClusterRole" { // in the daemon's own namespace, for Events about its own Pod, which here is none
				continue
			}
			for _, rule := range role.Rules {
				for _, verb := range rule.Verbs {
					for _, group := range rule.APIGroups {
						for _, of := range rule.Resources {
							rights[right(verb, group, of)] = true
						}
					}
				}
			}
		}
	}
	if len(rights) == 0 {
		t.Fatalf("%v grant nothing", files)
	}
	return rights
}

func right(verb, group, of string) string {
	if group != "" {
		of += "." + group
	}
	return verb + " " + of
}

// withClaims are the rights that go with withConfig, of the component driver-config.
func withClaims(t *testing.T) map[string]bool {
	t.Helper()
	base := filepath.Join("..", "..", "deploy", "kustomize", "base")
	role := &unstructured.Unstructured{Object: map[string]any{"kind": "ClusterRole", "metadata": map[string]any{"name": "portcullis-lifecycle"}}}
	added, err := shippedrights.WithDriverConfig(base, []*unstructured.Unstructured{role})
	must(t, err)
	all := map[string]bool{}
	for _, rule := range added {
		for _, verb := range rule.Verbs {
			for _, of := range rule.Resources {
				all[right(verb, rule.APIGroups[0], of)] = true
			}
		}
	}
	return all
}

// withConfig lets sandboxes be attached to things.
func withConfig(o *mesh.Options) { o.Stock = append(o.Stock, "allow_driver_config = true") }

// rights: in each mode lifecycle does its work with the rights that are shipped for that mode; nothing is denied, and between the
// handshake and the end of a sandbox that is attached to everything it may be attached to, and of its workspace, every right is used.
func rights(t *testing.T, s *lifecycle.Site) {
	workspace := s.Workspace("attached")
	s.Eventually("the workspace may be used", func() error {
		_, err := s.Driver.EnsureWorkspace(s.Context(), &computev1.EnsureWorkspaceRequest{Workspace: workspace})
		return err
	})
	live(t, s, attached(t, s, workspace))
	if s.Mode == "managed" {
		if _, err := s.Driver.DeleteWorkspace(s.Context(), &computev1.DeleteWorkspaceRequest{Workspace: workspace}); err != nil {
			t.Error(err)
		}
	}
	want := shipped(t, "lifecycle/rbac.yaml")
	maps.Copy(want, withClaims(t))
	if s.Mode == "managed" {
		maps.Copy(want, shipped(t, "lifecycle/managed/managed.yaml"))
		// A server-side apply is a patch; that it makes what is not there is checked as a create, which is no request of its own.
		delete(want, "create networkpolicies.networking.k8s.io")
	}
	demandUsed(t, s, want)
	demandPowerless(t, s)
}

// demandUsed demands that lifecycle has used all of the rights and no other, and that nothing was denied.
func demandUsed(t *testing.T, s *lifecycle.Site, want map[string]bool) {
	t.Helper()
	cluster.Eventually(t, "every right is used", func(context.Context) error {
		granted, denied := s.Gates[mesh.Lifecycle].Uses()
		if len(denied) > 0 {
			t.Fatalf("denied: %+v", denied)
		}
		used := map[string]bool{}
		for use := range granted {
			if !strings.HasPrefix(use.Resource, "/") { // what is about no resource needs no right that could be given
				used[right(use.Verb, use.Group, use.Resource)] = true
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(used))); diff != "" {
			return fmt.Errorf("rights (-shipped +used):\n%s", diff)
		}
		return nil
	})
}

// attached asks for a sandbox with a claim, a runtime class, a priority class and a graphics processor, which some node offers.
func attached(t *testing.T, s *lifecycle.Site, workspace string) *computev1.DriverSandbox {
	t.Helper()
	ctx, client := t.Context(), s.Cluster.Client()
	wish := s.Wish(workspace, "attached")
	name := s.GatewayID + "-class"
	labels := map[string]string{"openshell.ai/sandbox-attachable": "true", "openshell.ai/sandbox-attachable-workspace": workspace}
	_, err := client.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Handler: "runc"}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Value: 1}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.CoreV1().PersistentVolumeClaims(s.NamespaceOf(workspace)).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "cache", Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		_ = client.NodeV1().RuntimeClasses().Delete(ctx, name, metav1.DeleteOptions{})
		_ = client.SchedulingV1().PriorityClasses().Delete(ctx, name, metav1.DeleteOptions{})
	})
	config, err := structpb.NewStruct(map[string]any{
		"pod":        map[string]any{"runtime_class_name": name, "priority_class_name": name},
		"volumes":    []any{map[string]any{"name": "cache", "persistent_volume_claim": map[string]any{"claim_name": "cache", "read_only": false}}},
		"containers": map[string]any{"agent": map[string]any{"volume_mounts": []any{map[string]any{"name": "cache", "mount_path": "/cache"}}}},
	})
	must(t, err)
	wish.Spec.Template = &computev1.DriverSandboxTemplate{DriverConfig: config}
	return wish
}

// live has a sandbox run, stop, start and go. The answer to the request that makes it is lost, so that it is looked for by its name.
func live(t *testing.T, s *lifecycle.Site, wish *computev1.DriverSandbox) {
	t.Helper()
	s.Gates[mesh.Lifecycle].Set(lifecycle.Lost, 1, false, func(r lifecycle.Request) bool {
		return r.Verb == "create" && r.Resource == "sandboxes" && r.Mentions(wish.GetId())
	})
	made, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	// That no node offers one, or one does, is found out either way.
	gpu := s.Wish(wish.GetWorkspace(), "gpu")
	gpu.Spec.ResourceRequirements = &computev1.ResourceRequirements{Gpu: &computev1.GpuResourceRequirements{}}
	_, _ = s.Driver.ValidateSandboxCreate(s.Context(), &computev1.ValidateSandboxCreateRequest{Sandbox: gpu})
	_, err = s.Driver.StopSandbox(s.Context(), &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	_, err = s.Driver.StartSandbox(s.Context(), &computev1.StartSandboxRequest{
		SandboxId: wish.GetId(), GenerationId: "g0000000000000001", LaunchAuthentication: s.Bundle(wish.GetId()), ExpectedRuntimeIdentity: made.GetRuntimeIdentity(),
	})
	must(t, err)
	_, err = s.Driver.DeleteSandbox(s.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	s.Eventually("nothing is left", func() error {
		return nothingLeft(t.Context(), s, s.NamespaceOf(wish.GetWorkspace()), wish.GetId(), wish.GetName())
	})
}

func must(t *testing.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// powers are what none, or few, of the daemons may do; who may is named.
var powers = []struct {
	verb, group, of, name string
	may                   []string
}{
	{verb: "get", of: "secrets"},
	{verb: "list", of: "secrets"},
	{verb: "watch", of: "secrets"},
	{verb: "create", of: "secrets", may: []string{mesh.Supervisorctl}},
	{verb: "create", of: "pods", may: []string{mesh.Supervisorctl}},
	{verb: "delete", of: "pods", may: []string{mesh.Supervisorctl}},
	{verb: "create", of: "pods/exec"},
	{verb: "get", of: "pods/exec"},
	{verb: "create", of: "pods/attach"},
	{verb: "create", of: "pods/portforward"},
	{verb: "update", of: "pods/ephemeralcontainers"},
	{verb: "create", of: "pods/binding"},
	{verb: "get", of: "configmaps"},
	{verb: "create", of: "serviceaccounts/token"},
	{verb: "impersonate", of: "users"},
	{verb: "impersonate", of: "serviceaccounts"},
	{verb: "patch", of: "namespaces"},
	{verb: "update", of: "namespaces"},
	{verb: "create", group: "authentication.k8s.io", of: "tokenreviews", may: []string{mesh.Tokenauth}},
	{verb: "patch", group: "networking.k8s.io", of: "networkpolicies", name: "openshell-sandbox-workloads"},
	{verb: "patch", group: "networking.k8s.io", of: "networkpolicies", name: "openshell-sandbox-supervisors"},
	{verb: "delete", group: "networking.k8s.io", of: "networkpolicies", name: "openshell-sandbox-workloads"},
	{verb: "update", group: "networking.k8s.io", of: "networkpolicies", name: "openshell-sandbox-workloads"},
	{verb: "create", group: "rbac.authorization.k8s.io", of: "rolebindings"},
	{verb: "bind", group: "rbac.authorization.k8s.io", of: "clusterroles"},
	{verb: "escalate", group: "rbac.authorization.k8s.io", of: "clusterroles"},
	{verb: "create", group: "apps", of: "deployments"},
	{verb: "update", group: "agents.x-k8s.io", of: "sandboxes/status"},
	{verb: "create", group: "agents.x-k8s.io", of: "sandboxes", may: []string{mesh.Lifecycle}},
	{verb: "delete", group: "agents.x-k8s.io", of: "sandboxes", may: []string{mesh.Lifecycle}},
	{verb: "*", group: "*", of: "*"},
}

// demandPowerless asks the API server, as each daemon, whether it may do what would make it powerful.
func demandPowerless(t *testing.T, s *lifecycle.Site) {
	t.Helper()
	for _, daemon := range mesh.Daemons() {
		if daemon == mesh.Nswatch && s.Mode != "operator" {
			continue // it is not installed
		}
		config := s.Cluster.ServiceAccountConfig(t, s.Mesh.Namespace(), daemon)
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		must(t, err)
		for _, p := range powers {
			for _, ns := range []string{s.Shared, "kube-system"} {
				of, sub, _ := strings.Cut(p.of, "/")
				answered, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: p.verb, Group: p.group, Resource: of, Subresource: sub, Name: p.name, Namespace: ns,
					}},
				}, metav1.CreateOptions{})
				must(t, err)
				// These are none of sandboxes, but in shared mode, where one is the only one; in managed mode all may be.
				there := s.Mode == "managed" || s.Mode == "shared" && ns == s.Shared || p.of == "tokenreviews"
				if want := there && slices.Contains(p.may, daemon); answered.Status.Allowed != want {
					t.Errorf("%s may %s %s %s in %s: %t, want %t (%s)", daemon, p.verb, right("", p.group, p.of), p.name, ns, answered.Status.Allowed, want, answered.Status.Reason)
				}
			}
		}
	}
}
