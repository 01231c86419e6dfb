package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// TestReplayP03APolicyOfSomebodyElse: in a managed namespace a policy that others made under the name of the SSH policy stays as it is, and the
// workspace is refused until it is gone. Our own is applied again and again.
func TestReplayP03APolicyOfSomebodyElse(t *testing.T) {
	t.Parallel()
	s := lifecycle.Raise(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest(), "managed", sshIngress)
	ensure := func() error {
		_, err := s.Driver.EnsureWorkspace(s.Context(), &computev1.EnsureWorkspaceRequest{Workspace: "team"})
		return err
	}
	for range 2 {
		if err := ensure(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, policies := t.Context(), s.Cluster.Client().NetworkingV1().NetworkPolicies(s.NamespaceOf("team"))
	const name = "openshell-sandbox-ssh"
	if err := policies.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	theirs, err := policies.Create(ctx, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ensure(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("with a policy of somebody else: %v", err)
	}
	wish := s.Wish("team", "box")
	if _, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a create: %v", err)
	}
	now, err := policies.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs.Spec, now.Spec); diff != "" || now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was written to: %s", diff)
	}
	if err := policies.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := ensure(); err != nil {
		t.Error(err)
	}
	if ours, err := policies.Get(ctx, name, metav1.GetOptions{}); err != nil || ours.Labels["openshell.ai/managed-by"] != "openshell" {
		t.Errorf("%v, %v", ours, err)
	}
	if _, err := s.Driver.DeleteWorkspace(s.Context(), &computev1.DeleteWorkspaceRequest{Workspace: "team"}); err != nil {
		t.Error(err)
	}
}
