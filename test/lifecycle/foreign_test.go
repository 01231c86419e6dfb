package lifecycle_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	keys "github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// double is a copy of a Sandbox in another namespace, as a restored backup makes one, or whoever may create Sandboxes there.
type double struct {
	*gated
	made *unstructured.Unstructured
}

func (g *gated) double(t *testing.T, wish *computev1.DriverSandbox, namespace, workspace string) *double {
	t.Helper()
	client := g.Cluster.Dynamic().Resource(boxes)
	own, err := client.Namespace(g.NamespaceOf(wish.GetWorkspace())).Get(t.Context(), wish.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": own.GetAPIVersion(), "kind": own.GetKind(), "spec": own.Object["spec"]}}
	made.SetNamespace(namespace)
	made.SetName(own.GetName())
	labels, annotations := own.GetLabels(), own.GetAnnotations()
	labels[keys.LabelSandboxWorkspace], annotations[keys.AnnotationSandboxWorkspace] = workspace, workspace
	made.SetLabels(labels)
	made.SetAnnotations(annotations)
	if made, err = client.Namespace(namespace).Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &double{gated: g, made: made}
}

// untouched demands that it is as it was made, and that lifecycle asked for nothing where it is.
func (d *double) untouched(t *testing.T, after string) {
	t.Helper()
	now, err := d.Cluster.Dynamic().Resource(boxes).Namespace(d.made.GetNamespace()).Get(t.Context(), d.made.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("after %s: %v", after, err)
	}
	if now.GetUID() != d.made.GetUID() || now.GetDeletionTimestamp() != nil {
		t.Errorf("after %s it is deleted", after)
	}
	for _, part := range [][]string{{"spec"}, {"metadata", "labels"}, {"metadata", "annotations"}} {
		was, _, _ := unstructured.NestedMap(d.made.Object, part...)
		is, _, _ := unstructured.NestedMap(now.Object, part...)
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("after %s its %s is another: %s", after, part[len(part)-1], diff)
		}
	}
	for _, r := range d.gate.Requests(func(r lifecycle.Request) bool {
		return r.Namespace == d.made.GetNamespace() && !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
	}) {
		t.Errorf("after %s lifecycle has asked to %s %s %s/%s", after, r.Verb, r.Resource, r.Namespace, r.Name)
	}
}

// TestForeignCopy: what bears the labels of a sandbox in a namespace where it does not live is touched by no call, and hinders none.
func TestForeignCopy(t *testing.T) {
	t.Parallel()
	g := raiseGated(t, standIns(t), "operator")
	workspace := g.Workspace("team")
	elsewhere := workspace + "-restored"
	g.Namespace(elsewhere, nil)
	g.Eventually("the workspace may be used", func() error {
		_, err := g.Driver.EnsureWorkspace(g.Context(), &computev1.EnsureWorkspaceRequest{Workspace: workspace})
		return err
	})
	wish := g.Wish(workspace, "box")
	create := func(want codes.Code) string {
		t.Helper()
		wish.Spec.LaunchAuthentication = g.Bundle(wish.GetId())
		made, err := g.Driver.CreateSandbox(g.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
		expect(t, "create", err, want)
		return made.GetRuntimeIdentity()
	}
	stop := func(want codes.Code) {
		t.Helper()
		_, err := g.Driver.StopSandbox(g.Context(), &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
		expect(t, "stop", err, want)
	}
	start := func(identity string, want codes.Code) {
		t.Helper()
		_, err := g.Driver.StartSandbox(g.Context(), &computev1.StartSandboxRequest{
			SandboxId: wish.GetId(), GenerationId: "g0000000000000001", LaunchAuthentication: g.Bundle(wish.GetId()), ExpectedRuntimeIdentity: identity,
		})
		expect(t, "start", err, want)
	}
	remove := func(want codes.Code, deleted bool) {
		t.Helper()
		gone, err := g.Driver.DeleteSandbox(g.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
		expect(t, "delete", err, want)
		if gone.GetDeleted() != deleted {
			t.Errorf("deleted %t, want %t", gone.GetDeleted(), deleted)
		}
	}
	gone := func() {
		t.Helper()
		g.Eventually("the sandbox is gone", func() error {
			_, err := g.Driver.GetSandbox(g.Context(), &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
			if status.Code(err) == codes.NotFound {
				return nil
			}
			return status.Errorf(codes.Unknown, "still there: %v", err)
		})
	}

	identity := create(codes.OK)
	g.AwaitReady(wish.GetId())
	copied := g.double(t, wish, elsewhere, workspace) // while it runs, so that the loop of supervisorctl meets a copy that is to run
	create(codes.AlreadyExists)
	stop(codes.OK)
	copied.untouched(t, "the first stop")
	start(identity, codes.OK)
	g.AwaitReady(wish.GetId())
	copied.untouched(t, "the start")
	stop(codes.OK)
	copied.untouched(t, "the stop")
	remove(codes.OK, true)
	gone()
	copied.untouched(t, "the delete")

	// The copy alone is not the sandbox.
	stop(codes.NotFound)
	start(identity, codes.NotFound)
	remove(codes.OK, false)
	copied.untouched(t, "calls about a sandbox that is gone")
	identity = create(codes.OK)
	g.AwaitReady(wish.GetId())
	copied.untouched(t, "another create")

	// One that says that it lives where it is cannot be told from it but by its uid.
	stop(codes.OK)
	settled := workspace + "-settled"
	g.Namespace(settled, nil)
	second := g.double(t, wish, settled, settled)
	stop(codes.FailedPrecondition)
	remove(codes.FailedPrecondition, false)
	start(identity, codes.OK)
	second.untouched(t, "the start of the other")
	copied.untouched(t, "the start beside another")
	if err := g.Cluster.Dynamic().Resource(boxes).Namespace(settled).Delete(t.Context(), wish.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	g.Eventually("there is one again", func() error {
		_, err := g.Driver.GetSandbox(g.Context(), &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
		return err
	})
	remove(codes.OK, true)
	gone()
	copied.untouched(t, "all of it")
}

func expect(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Fatalf("%s: %v, want %s", what, err, want)
	}
}
