package daemons_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/udsock"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// stockOf are lines of the stock table without which neither lifecycle nor supervisorctl starts.
const stockOf = runtimeImage + `supervisor_image = "registry.example/supervisor:1"
grpc_endpoint = "https://gateway.example:8080"
`

// meshOf are the tables of a daemon in the mesh.
const meshOf = `[portcullis.mesh]
cert_file = "DIR/tls.crt"
key_file = "DIR/tls.key"
ca_file = "DIR/ca.crt"
[portcullis.kubernetes]
kubeconfig = "DIR/kubeconfig"
`

// TestWrongInputLifecycle: the namespace of an allowed workspace is no good to a lifecycle that has something wrong.
func TestWrongInputLifecycle(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), b.URL())
	withSandboxes(t, i.Cluster)
	bootstrap(t, i)
	i.Nswatch().AwaitReady()
	grant(t, i.Cluster, i.Namespace, "lifecycle", i.GatewayID)
	workspace, ca := i.Labelled(), meshtest.NewCA(t)
	right := pair(ca.Issue(t, "lifecycle"), ca.PEM)
	right["seed"], right["public.keys"] = b.right, []byte(i.Public()+"\n")
	settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
workspace_mode = "operator"
%s
socket_path = "DIR/driver/driver.sock"
%s[portcullis.lifecycle]
http_address = "127.0.0.1:0"
wait_at_start = true
%s[portcullis.nats]
urls = [%q]
nkey_seed_file = "DIR/seed"
[portcullis.allowlist]
public_keys_file = "DIR/public.keys"
`, i.GatewayID, selector(i.Label), stockOf, meshOf, b.URL())
	const refused, blind = "refused", "the cluster cannot be followed; what is known stays, and counts as stale after a while. See the permissions to list and watch, and the API server"
	cases := chosen(
		wrongCertificates(t, ca, "lifecycle"), b.wrongSeeds(), wrongKeys(t), wrongAccess(), withoutSandboxes(t, i.Cluster),
		wrongSettings(selector(i.Label), "selector is none", selector("a in (b")),
		[]wrong{
			lacking("list", "sandboxes", ""),
			lacking("watch", "sandboxes", ""),
			lacking("list", "pods", ""),
			lacking("watch", "pods", ""),
			lacking("get", "namespaces", refused),
			lacking("list", "events", blind).until(followed),
		},
	)
	judge(t, "lifecycle", cases, func(w *wrong) *ward {
		return newWard(t, i.Cluster, "lifecycle", w.home(t, i.Cluster, "lifecycle", i.Namespace, i.GatewayID), i.GatewayID, settings, right)
	}, func(w *ward) error {
		path, err := w.socket()
		if err != nil {
			return err
		}
		conn, err := udsock.NewClient(path)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		under, err := contract.NewConn(conn, contract.Prefixes()[0])
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), program.Limit)
		defer cancel()
		if _, err := computev1.NewComputeDriverClient(under).EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: workspace}); err != nil {
			return err
		}
		return ready(ctx, w)
	})
}

// errNotReady is that a daemon would get no work.
var errNotReady = errors.New("it is not ready")

// ready is an error unless the daemon is.
func ready(ctx context.Context, w *ward) error {
	status, body, err := w.Readiness(ctx)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%w: %s", errNotReady, body)
	}
	return err
}

// followed is a lifecycle that follows again what it could not.
func followed(w *ward) error { return logged(w, "the cluster can be followed again") }

// logged is an error until the daemon has logged a message.
func logged(w *ward, message string) error {
	if len(w.Entries(message)) == 0 {
		return fmt.Errorf("the log does not say %q", message)
	}
	return nil
}

// TestWrongInputSupervisorctl: a supervisorctl that has something wrong does not say to lifecycle how a sandbox is.
func TestWrongInputSupervisorctl(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	withSandboxes(t, c)
	home, ca := c.Namespace(t), meshtest.NewCA(t)
	gateway := "gw-" + home
	grant(t, c, home, "supervisorctl", gateway)
	right := pair(ca.Issue(t, "supervisorctl"), ca.PEM)
	right["proxy.pem"] = ca.PEM
	const (
		shared        = `workspace_mode = "shared"`
		unelected     = "request for the Lease failed; see the permissions for leases and the API server"
		unwatched     = "a watch does not work; settled sandboxes are looked at more often meanwhile. See the permissions to list and watch, and the API server"
		watched, held = "the watch works again", "holds the Lease; the term begins"
	)
	works := func(message string) func(*ward) error { return func(w *ward) error { return logged(w, message) } }
	cases := chosen(
		wrongCertificates(t, ca, "supervisorctl"), wrongAccess(), withoutSandboxes(t, c), wrongSettings(shared, "mode is none", `workspace_mode = "none"`),
		[]wrong{
			{name: "proxy's bundle is missing", breaks: without("proxy.pem")},
			{name: "proxy's bundle is empty", breaks: holding("proxy.pem", nil)},
			{name: "proxy's bundle is unreadable", breaks: holding("proxy.pem", unreadable)},
			{name: "proxy's bundle is garbage", breaks: holding("proxy.pem", []byte("x"))},
		},
		[]wrong{
			lacking("get", "sandboxes", answered),
			lacking("get", "pods", answered),
			lacking("get", "services", answered),
			lacking("create", "leases", unelected).until(works(held)),
			lacking("get", "leases", unelected).until(works(held)),
			lacking("list", "sandboxes", unwatched).until(works(watched)),
			lacking("watch", "pods", unwatched).until(works(watched)),
		},
	)
	judge(t, "supervisorctl", cases, func(w *wrong) *ward {
		home := w.home(t, c, "supervisorctl", home, "")
		settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
%s
namespace = "default"
https_proxy = "http://proxy.example:3128"
proxy_ca_bundle = "DIR/proxy.pem"
%s[portcullis.supervisorctl]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
wait_at_start = true
lease_namespace = %q
%s`, "gw-"+home, shared, stockOf, home, meshOf)
		return newWard(t, c, "supervisorctl", home, "gw-"+home, settings, right)
	}, func(w *ward) error {
		if err := logged(w, "serving the mesh"); err != nil {
			return errors.New("it does not serve")
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), program.Limit)
		defer cancel()
		conn := mesh(w.t, ca, "lifecycle", "supervisorctl", w.Logged("serving the mesh", "address"))
		found, err := supervisorv1.NewSupervisorServiceClient(conn).Status(ctx, &supervisorv1.StatusRequest{Sandbox: &supervisorv1.SandboxRef{
			GatewayId: w.gateway, Namespace: "default", Name: "absent", SandboxId: "absent", Uid: "absent",
		}})
		if err == nil {
			err = known(found.GetStatus())
		}
		if err != nil {
			return err
		}
		return ready(ctx, w)
	})
}

// known is an error unless it is known of a sandbox which is not there that nothing of it is.
func known(s *supervisorv1.CompanionStatus) error {
	if s.GetPhase() == supervisorv1.Phase_PHASE_ABSENT {
		return nil
	}
	var told []string
	for _, c := range s.GetConditions() {
		if c.GetAvailability() == supervisorv1.Availability_AVAILABILITY_UNSPECIFIED {
			told = append(told, fmt.Sprintf("%s: %s", c.GetPart(), c.GetMessage()))
		}
	}
	return fmt.Errorf("it is not known what is there: %s", strings.Join(told, "; "))
}
