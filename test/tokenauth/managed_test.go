package tokenauth_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

func labelled(key, value string) func(*corev1.Namespace) {
	return func(ns *corev1.Namespace) { ns.Labels[key] = value }
}

func in(workspaceName string) func(*tokenauth.Draft) {
	return func(d *tokenauth.Draft) {
		labels := d.Sandbox.GetLabels()
		labels[workspace.LabelSandboxWorkspace] = workspaceName
		d.Sandbox.SetLabels(labels)
	}
}

// namespaces are those whose name has the prefix of the gateway, and which are not its own, with bearers that are right otherwise.
var namespaces = []struct {
	name      string
	workspace string
	changes   []func(*corev1.Namespace)
	bearer    []func(*tokenauth.Draft)
	want      verdict.Reason
}{
	{
		name: "without labels", workspace: "bare", changes: []func(*corev1.Namespace){func(ns *corev1.Namespace) { ns.Labels = nil }},
		bearer: []func(*tokenauth.Draft){in("bare")}, want: verdict.NamespaceNotOwned,
	},
	{
		name: "not managed", workspace: "unmanaged", changes: []func(*corev1.Namespace){labelled(workspace.LabelManagedBy, "somebody")},
		bearer: []func(*tokenauth.Draft){in("unmanaged")}, want: verdict.NamespaceNotOwned,
	},
	{
		name: "of another gateway by its label", workspace: "foreign", changes: []func(*corev1.Namespace){labelled(workspace.LabelGatewayID, "another")},
		bearer: []func(*tokenauth.Draft){in("foreign")}, want: verdict.NamespaceNotOwned,
	},
	{
		name: "of a workspace that lives elsewhere", workspace: "moved", changes: []func(*corev1.Namespace){labelled(workspace.LabelSandboxWorkspace, "team")},
		bearer: []func(*tokenauth.Draft){in("moved")}, want: verdict.NamespaceNotOwned,
	},
	{
		name: "right, with a Sandbox of another workspace", workspace: "other",
		bearer: []func(*tokenauth.Draft){in("team")}, want: verdict.SandboxOtherNamespace,
	},
}

func TestManagedMode(t *testing.T) {
	t.Parallel()
	s := tokenauth.Managed(t, cluster.Start(t, cluster.ControlPlane))
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	good := s.Bearer(s.Namespace)
	awaitAccepted(t, c, good)
	refuseFlaws(t, s, c)
	for _, n := range namespaces {
		t.Run("namespace "+n.name, func(t *testing.T) {
			right := s.Bearer(s.Workspace(s.GatewayID, n.workspace+"-0"), in(n.workspace+"-0"))
			awaitAccepted(t, c, right)
			demandRefused(t, c, s.Bearer(s.Workspace(s.GatewayID, n.workspace, n.changes...), n.bearer...).Token, n.want)
		})
	}
	stray := s.Bearer(s.Cluster.Namespace(t))
	demandRefused(t, c, stray.Token, verdict.NamespaceNotAccepted)
	explains(t, s, good, stray, "namespace_not_accepted")
	awaitAccepted(t, c, good)
	p.Stop()
}

// Contract 6.4: the namespace of workspace team at gateway a-b has the name of the one of workspace b-team at gateway a. Gateway a
// refuses its bearers, also when the Sandbox in it says that it is a's, and the other gateway accepts its own.
func TestGatewayWhosePrefixIsAnothers(t *testing.T) {
	t.Parallel()
	s := tokenauth.Managed(t, cluster.Start(t, cluster.ControlPlane))
	other := s.GatewayID + "-b"
	namespace := s.Workspace(other, "team")
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	demandRefused(t, c, s.Bearer(namespace).Token, verdict.NamespaceNotOwned)
	demandRefused(t, c, s.Bearer(namespace, in("b-team")).Token, verdict.NamespaceNotOwned)

	ours := s.GatewayID
	s.GatewayID = other
	b := s.Bearer(namespace)
	demandRefused(t, c, b.Token, verdict.NamespaceNotOwned)
	q := s.Start()
	q.AwaitReady()
	awaitAccepted(t, s.Client(q), b)

	// The labels decide, and those of now.
	s.Label(namespace, map[string]string{workspace.LabelGatewayID: ours, workspace.LabelSandboxWorkspace: "b-team"})
	demandRefused(t, s.Client(q), b.Token, verdict.NamespaceNotOwned)
	s.GatewayID = ours
	awaitAccepted(t, c, s.Bearer(namespace, in("b-team")))
}

// The namespace of a workspace is being deleted, and something holds it.
func TestManagedNamespaceTerminates(t *testing.T) {
	t.Parallel()
	s := tokenauth.Managed(t, cluster.Start(t, cluster.ControlPlane))
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	b := s.Bearer(s.Namespace, func(d *tokenauth.Draft) {
		d.Pod.Finalizers = []string{hold}
		d.Sandbox.SetFinalizers([]string{hold})
	})
	defer b.PatchSandbox(`{"metadata":{"finalizers":null}}`)
	defer b.ReleasePod()
	awaitAccepted(t, c, b)
	if err := s.Cluster.Client().CoreV1().Namespaces().Delete(t.Context(), s.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Once the controllers have begun, the account goes, too, which a review may see first.
	demandRefused(t, c, b.Token, verdict.NamespaceTerminating, verdict.CredentialNotAccepted)
}
