//go:build portcullis_long

package e2e_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	supervision "github.com/portcullis-mesh/portcullis/test/companions/session"
	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/gateway"
)

// installed is the namespace that the manifests name, and sources that of the Secrets which supervisorctl copies.
const (
	installed = "portcullis"
	sources   = "openshell"
)

// installing is held by the one test whose installation is on the node.
var installing sync.Mutex

// The two ways to put lifecycle beside a gateway.
const (
	relayBeside     = "relay"
	lifecycleBeside = "lifecycle"
)

// installation is an overlay as an operator installs it, with the reference gateway in a Pod. It is a house: all that users do and see there
// they do and see here.
type installation struct {
	*house
	rendered *deploy.Rendering
	overlay  overlay
	sidecar  string // which is beside the gateway
	// components are those of the operator's kustomization.
	components []string
	dir        string // of the operator's kustomization
	// files are further ones of it, by name.
	files map[string]string
	// gatewayManifest are the objects of the gateway's operator.
	gatewayManifest string
	// amend changes the operator's settings, if it is there.
	amend func(settings string) string
	// supervisors is the gateway's address for supervisors.
	supervisors *grpc.ClientConn
}

// install installs an overlay with the manifests and images of this work tree and with further components, and returns when all is ready.
// What it made is gone when the test has ended.
func install(t *testing.T, name, sidecar string, components ...string) *installation {
	t.Helper()
	o, known := overlays[name]
	if !known {
		t.Fatalf("nothing is known of an overlay %q", name)
	}
	installing.Lock()
	t.Cleanup(installing.Unlock)
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	i := &installation{
		house:   &house{c: cluster.Start(t, cluster.Node), prefix: "installed-" + hex.EncodeToString(id) + "-", key: "openshell.ai/sandboxes"},
		overlay: o, sidecar: sidecar, components: append([]string{"gateway-sidecar/" + sidecar}, components...), files: map[string]string{},
	}
	if !o.complete {
		i.components = append([]string{certificatesPart}, i.components...)
	}
	i.overlay.name, i.placed = name, o.placed
	maps.Copy(i.files, o.files)
	if i.perWorkspace() {
		i.prepare = i.prepareWorkspace
	}
	i.c.DNS(t)
	loadGateway(t, i.c)
	loadImages(t, i.c)
	names := loadShipped(t, i.c)
	agentsandbox.Start(t, i.c.RESTConfig(), agentsandbox.Config{Owns: o.sandboxes(i.prefix), Dialect: reconcile.Newest()})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	noError(t, err)
	i.dir = dir
	for n := range o.servers {
		volume(t, i.c, installed, fmt.Sprintf("data-nats-%d", n))
	}
	volume(t, i.c, installed, "records-openshell-0")
	parts := append([]string{gatewayWorkload, doorPolicy, gatewaySecret, clientSecret}, o.objects...)
	if !slices.Contains(components, supervisorsPart) {
		parts = append(parts, supervisorsPolicy, sourceRights)
	}
	certificate, manifest := gatewayCertificate(t, strings.Join(parts, "---"))
	i.gatewayManifest = manifest
	t.Cleanup(func() { i.withdraw(t) })
	i.deliver(t, filepath.Join("..", ".."), names)
	i.awaitReady(t)
	i.log = i.entries
	i.gateway = newAfar(t, i.c)
	i.driver = computev1.NewComputeDriverClient(connect(t, i.c, driverDoor,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(udsock.Authority)))
	believed := x509.NewCertPool()
	believed.AddCert(certificate)
	i.supervisors = connect(t, i.c, supervisorsPort,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: believed, ServerName: gatewayName, MinVersion: tls.VersionTLS13})))
	return i
}

// deliver applies the manifests of a work tree with the images of these names, over what there is.
func (i *installation) deliver(t *testing.T, tree string, names map[string]string) {
	t.Helper()
	i.compose(t, tree, names)
	i.c.Apply(t, installed, i.rendered.Text)
}

// compose writes what an operator applies: the manifests of a work tree with the images of these names.
func (i *installation) compose(t *testing.T, tree string, names map[string]string) {
	t.Helper()
	manifests, err := filepath.Abs(filepath.Join(tree, "deploy", "kustomize"))
	noError(t, err)
	settings, err := os.ReadFile(filepath.Join(manifests, "overlays", i.overlay.name, "gateway.toml"))
	noError(t, err)
	files := map[string]string{"gateway.toml": i.own(t, string(settings)), "gateway.yaml": i.gatewayManifest}
	maps.Copy(files, i.files)
	manifests, err = filepath.Rel(i.dir, manifests) // kustomize takes no other
	noError(t, err)
	text := fmt.Sprintf(kustomization, manifests, i.overlay.name, i.overlay.kustomization)
	for _, component := range i.components {
		text += fmt.Sprintf("  - %s/components/%s\n", manifests, component)
	}
	text += "images:\n"
	for name, reference := range names {
		image, tag, _ := strings.Cut(reference, ":")
		// The second is what manifests say; those of releases before say the first.
		for _, said := range []string{image, "registry.example/portcullis/" + name} {
			text += fmt.Sprintf("  - {name: %s, newName: %s, newTag: %q}\n", said, image, tag)
		}
	}
	files["kustomization.yaml"] = text
	for name, content := range files {
		noError(t, os.WriteFile(filepath.Join(i.dir, name), []byte(content), 0o600))
	}
	i.rendered, err = deploy.Render(i.dir)
	noError(t, err)
}

// kustomization is what an operator writes: the overlay as it is shipped, Secrets that are made in the cluster, settings of his own, what else
// he needs, the gateway with what belongs beside it, and images.
const kustomization = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%[1]s/overlays/%[2]s, gateway.yaml]
configMapGenerator:
  - {name: portcullis-config, namespace: portcullis, behavior: replace, files: [gateway.toml]}
%[3]scomponents:
`

// supervisorsPart is the component with which supervisors get to the gateway; without it an operator makes what it has by himself.
const supervisorsPart = "gateway-sidecar/supervisors"

// certificatesPart is the component that makes every Secret in the cluster.
const certificatesPart = "certs-job"

// rightsPerWorkspace is the component with which the daemons change something in prepared namespaces alone.
const rightsPerWorkspace = "rights-per-workspace"

// perWorkspace says that the daemons change something in prepared namespaces alone.
func (i *installation) perWorkspace() bool {
	return i.overlay.perWorkspace || slices.Contains(i.components, rightsPerWorkspace)
}

// prepareWorkspace installs in a namespace what a platform team installs there.
func (i *installation) prepareWorkspace(t testing.TB, namespace string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	noError(t, err)
	component, err := filepath.Abs(filepath.Join("..", "..", "deploy", "kustomize", "components", "workspace"))
	noError(t, err)
	component, err = filepath.Rel(dir, component)
	noError(t, err)
	text := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: %s\ncomponents: [%s]\n", namespace, component)
	noError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	rendered, err := deploy.Render(dir)
	noError(t, err)
	i.c.Apply(t, namespace, rendered.Text)
}

// own are the overlay's settings with what a cluster must set for itself.
func (i *installation) own(t *testing.T, settings string) string {
	t.Helper()
	// The node's network plug-in enforces policies; releases before took that for granted.
	settings = strings.Replace(settings, "network_policy_enforced = false", "network_policy_enforced = true", 1)
	changes := map[string]string{
		`"registry.example/openshell-base:1"`:       `"` + loaded.images.Workload + `"`,
		`"registry.example/openshell-supervisor:1"`: `"` + loaded.images.Supervisor + `"`,
		`"registry.example/openshell-sandbox:1"`:    `"` + loaded.images.Runtime + `"`,
	}
	if !strings.Contains(settings, "client_tls_secret_name = ") { // which supervisors believe the gateway by
		changes["grpc_endpoint = "] = "client_tls_secret_name = \"openshell-client-tls\"\ngrpc_endpoint = "
	}
	if i.sidecar == lifecycleBeside { // it serves no relays
		changes["relay_listen_address = \":8445\"\n"] = ""
	}
	if i.perWorkspace() {
		changes["default_image = "] = "service_account_name = \"openshell-sandbox\"\ndefault_image = "
	}
	for from, to := range changes {
		if strings.Count(settings, from) != 1 {
			t.Fatalf("the overlay's settings do not have %s once", from)
		}
		settings = strings.Replace(settings, from, to, 1)
	}
	if i.amend != nil {
		settings = i.amend(settings)
	}
	return settings
}

// withdraw takes all away and waits until it is gone.
func (i *installation) withdraw(t *testing.T) {
	i.c.Withdraw(t, installed, i.rendered.Text)
	for _, name := range []string{installed, sources} {
		cluster.Eventually(detached{t}, "namespace "+name+" is gone", func(ctx context.Context) error {
			_, err := i.c.Client().CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				return errors.New("it is still there")
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
}

// detached is a test whose context does not end before its cleanups do.
type detached struct{ *testing.T }

// Context is the test's without its end.
func (d detached) Context() context.Context { return context.WithoutCancel(d.T.Context()) }

// connect is a connection to a port of the gateway's Pod, which finds the Pod again when it is another.
func connect(t *testing.T, c *cluster.Cluster, port string, option ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///gateway", append(option,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return enter(ctx, c, port) }))...)
	noError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// exchange asks the gateway for a session's token, as the supervisor of the sandbox does: with the token of its Pod, for the gateway.
func (i *installation) exchange(ctx context.Context, s gateway.Sandbox) error {
	return i.exchangeOf(ctx, s, workspace.SupervisorPod(s.ID))
}

// exchangeOf is exchange with the token of a Pod in the sandbox's namespace.
func (i *installation) exchangeOf(ctx context.Context, s gateway.Sandbox, name string) error {
	core := i.c.Client().CoreV1()
	namespace, _ := i.place(s.Workspace, s.Name)
	pod, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find the Pod whose token is presented: %w", err)
	}
	answer, err := core.ServiceAccounts(namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{"openshell-gateway"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("get the token of Pod %s: %w", name, err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+answer.Status.Token)
	_, err = supervision.Issue(ctx, i.supervisors, supervision.IssueRequest{SandboxID: s.ID})
	return err
}
