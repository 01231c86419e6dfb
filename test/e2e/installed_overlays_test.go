//go:build portcullis_long

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// overlay is what an operator does about one of the overlays besides what he does about all, and what follows from it.
type overlay struct {
	name    string
	servers int // of NATS
	// complete says that its Secrets are made in the cluster without a component of the operator's.
	complete bool
	// perWorkspace says that the daemons have rights in prepared namespaces alone.
	perWorkspace bool
	// kustomization is more of the operator's, after its generators; files are those that it names, and objects more of his own.
	kustomization string
	files         map[string]string
	objects       []string
	// placed is where sandboxes are, nil in operator mode; owned are the namespaces of an installation's sandboxes, nil where all of them
	// begin with its prefix.
	placed func(workspace, sandbox string) (namespace, name string)
	owned  func(prefix string) func(namespace string) bool
}

func (o overlay) sandboxes(prefix string) func(namespace string) bool {
	if o.owned == nil {
		return agentsandbox.NamespacePrefix(prefix)
	}
	return o.owned(prefix)
}

// operatorLabel is the overlay of README.md.
const operatorLabel = "operator-label"

// overlays are those that are installed, by their names.
var overlays = map[string]overlay{
	operatorLabel:   {servers: 1},
	"dev":           {servers: 1, complete: true},
	"ha":            {servers: 3, kustomization: oneNode},
	"operator-file": {servers: 1, perWorkspace: true, kustomization: ownList, files: map[string]string{listFile: "[]"}},
	"managed": {
		objects: []string{pullSecret},
		placed: func(workspace, sandbox string) (namespace, name string) {
			return managedPrefix + workspace, sandbox
		},
		owned: func(prefix string) func(string) bool { return agentsandbox.NamespacePrefix(managedPrefix + prefix) },
	},
	"shared": {
		placed: func(workspace, sandbox string) (namespace, name string) { return sources, workspace + "--" + sandbox },
		owned:  func(string) func(string) bool { return agentsandbox.Namespaces(sources) },
	},
}

// managedPrefix begins the namespace of each workspace of the gateway that the overlay's settings name, in managed mode (contract 4.1).
const managedPrefix = "openshell-openshell-"

// listFile is the file with the namespaces that may be used, which the operator keeps in the place of the overlay's.
const (
	listFile = "namespaces.json"
	ownList  = "  - {name: portcullis-namespaces, namespace: portcullis, behavior: replace, files: [" + listFile + "]}\n"
)

// oneNode lets all three NATS servers be on the one node that there is. The daemons' constraint, which the overlay makes a must, is kept: it
// is about how many more than another node one may have.
const oneNode = `patches:
  - target: {kind: StatefulSet, namespace: portcullis, name: nats}
    patch: |
      - {op: remove, path: /spec/template/spec/affinity}
`

// pullSecret is what the overlay's settings name in image_pull_secrets.
const pullSecret = `
apiVersion: v1
kind: Secret
metadata: {name: openshell-pull, namespace: openshell}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{"registry.example":{"auth":"bm9ib2R5Om5vdGhpbmc="}}}'}
`

// The overlays besides operatorLabel, each installed as an operator installs it, with all replicas that it has: every workload becomes ready
// without a restart, and sandboxes live in it as its mode has them.
func TestOtherOverlays(t *testing.T) {
	for name, tc := range map[string]struct {
		components []string
		live       func(*testing.T, *installation)
	}{
		"dev":           {[]string{supervisorsPart, sourcePart}, oneOfEach},
		"ha":            {[]string{supervisorsPart, sourcePart}, threeServers},
		"operator-file": {[]string{supervisorsPart, sourcePart}, byFile},
		"managed":       {[]string{supervisorsPart}, managedWorkspaces},
		"shared":        {[]string{supervisorsPart}, sharedNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			i := install(t, name, relayBeside, tc.components...)
			i.demandNoRestart(t)
			tc.live(t, i)
			i.demandNoRestart(t)
		})
	}
}

// oneOfEach: with one Pod of each daemon the label decides as it does with more.
func oneOfEach(t *testing.T, i *installation) {
	for _, daemon := range []string{mesh.Nswatch, mesh.Tokenauth, mesh.Supervisorctl, mesh.Lifecycle} {
		if pods := i.podsOf(t, daemon); len(pods) > 1 {
			t.Errorf("%s has the Pods %v", daemon, pods)
		}
	}
	liveUpdate(t, i.house)
	fencedRun(t, i, i.workspace(t, "fenced"))
}

// byFile: the operator's file decides about namespaces as the label does elsewhere, and the daemon that follows it goes on meanwhile.
func byFile(t *testing.T, i *installation) {
	former := i.podsOf(t, mesh.Nswatch)
	listed := map[string]bool{}
	i.list = func(_ testing.TB, namespace string, on bool) {
		t.Helper()
		listed[namespace] = on
		i.keepList(t, listed)
		i.awaitGate(t, namespace, on)
	}
	liveUpdate(t, i.house)
	if now := i.podsOf(t, mesh.Nswatch); !maps.Equal(now, former) {
		t.Errorf("a change of the file replaced the Pods of nswatch: they were %v and are %v", former, now)
	}
}

// keepList writes the names that are true to the operator's file and applies that.
func (i *installation) keepList(t *testing.T, listed map[string]bool) {
	t.Helper()
	names := slices.Sorted(maps.Keys(listed))
	names = slices.DeleteFunc(names, func(name string) bool { return !listed[name] })
	text, err := json.Marshal(names)
	noError(t, err)
	i.files[listFile] = string(text)
	i.reapply(t)
}

// awaitGate waits until a workspace may be used or may not, for as long as the kubelet takes to bring a file.
func (i *installation) awaitGate(t *testing.T, workspace string, open bool) {
	t.Helper()
	want := codes.PermissionDenied
	if open {
		want = codes.OK
	}
	i.eventually(t, "the gate for "+workspace+" follows the file", func(ctx context.Context) error {
		if err := i.gateway.EnsureWorkspace(ctx, workspace); status.Code(err) != want {
			return fmt.Errorf("it is answered %w, not %s", errors.Join(err), want)
		}
		return nil
	})
}

// managedWorkspaces: a namespace is made for a workspace and labelled as the gateway's, is gone with it, and one that somebody else made is
// refused and left alone.
func managedWorkspaces(t *testing.T, i *installation) {
	i.demandForeignRefused(t, i.prefix+"foreign")
	workspace := i.prefix + "team"
	namespace, _ := i.place(workspace, "")
	namespaces := i.c.Client().CoreV1().Namespaces()
	t.Cleanup(func() {
		err := namespaces.Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", namespace, err)
		}
	})
	noError(t, i.gateway.EnsureWorkspace(t.Context(), workspace))
	made, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
	noError(t, err)
	for key, want := range map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/gateway-id": "openshell", "openshell.ai/sandbox-workspace": workspace,
	} {
		if got := made.Labels[key]; got != want {
			t.Errorf("the label %s of namespace %s is %q, want %q", key, namespace, got, want)
		}
	}
	cluster.Eventually(t, "Pods can be made in "+namespace, func(ctx context.Context) error {
		_, err := i.c.Client().CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	fencedRun(t, i, workspace)
	noError(t, i.gateway.DeleteWorkspace(t.Context(), workspace))
	cluster.Eventually(t, "namespace "+namespace+" is gone", func(ctx context.Context) error {
		_, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// demandForeignRefused demands that a workspace is refused whose namespace no gateway has made, with the reason, and that nothing is done to it.
func (i *installation) demandForeignRefused(t *testing.T, workspace string) {
	t.Helper()
	namespace, _ := i.place(workspace, "")
	namespaces := i.c.Client().CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	noError(t, err)
	t.Cleanup(func() {
		noError(t, namespaces.Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{}))
	})
	if err := i.gateway.EnsureWorkspace(t.Context(), workspace); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a workspace whose namespace is somebody else's is answered %v", err)
	}
	if _, err := i.gateway.Create(t.Context(), i.wish(t, workspace, "box")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a create there is answered %v", err)
	}
	cluster.Eventually(t, "lifecycle logs why", func(context.Context) error {
		lines := i.log(mesh.Lifecycle, func(entry map[string]any) bool {
			return entry["message"] == "refused" && entry["reason"] == "workspace_foreign" && strings.Contains(fmt.Sprint(entry["error"]), namespace)
		})
		if len(lines) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	now, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
	noError(t, err)
	if now.Labels["openshell.ai/managed-by"] != "" || now.DeletionTimestamp != nil {
		t.Errorf("namespace %s was touched: %v, deleted %v", namespace, now.Labels, now.DeletionTimestamp)
	}
}

// sharedNamespace: sandboxes of one name in two workspaces are beside each other in the one namespace, and the end of one is none of the other's.
func sharedNamespace(t *testing.T, i *installation) {
	stays, err := i.create(t, i.wish(t, "neighbours", "box"))
	noError(t, err)
	fencedRun(t, i, "team")
	i.demandListed(t, stays)
	if got := i.does(t, stays.ID, "echo", "still here"); got != "still here" {
		t.Errorf("after its namesake has gone the command says %q", got)
	}
	i.remove(t, stays)
}
