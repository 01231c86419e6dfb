//go:build portcullis_long

package daemons_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
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
operator_namespace_label = %q
socket_path = "DIR/driver/driver.sock"
%s[portcullis.lifecycle]
http_address = "127.0.0.1:0"
wait_at_start = true
%s[portcullis.nats]
urls = [%q]
nkey_seed_file = "DIR/seed"
[portcullis.allowlist]
public_keys_file = "DIR/public.keys"
`, i.GatewayID, i.Label, stockOf, meshOf, b.URL())
	cases := only(t, wrongCertificates(t, ca, "lifecycle"), "certificates are missing", "certificate of another authority", "certificate has expired", "certificate names another daemon")
	cases = append(cases, only(t, wrongKeys(t), "public keys are missing", "public keys of another signer")...)
	cases = append(cases, only(t, b.wrongSeeds(), "NATS seed is missing", "NATS seed is of no user", "NATS user of another account", "NATS account without JetStream")...)
	cases = append(cases, only(t, wrongAccess(), "token is missing", "token is of nobody", "API server of another authority")...)
	cases = append(cases, withoutSandboxes(t, i.Cluster))
	judge(t, "lifecycle", cases, func(*wrong) *ward {
		return newWard(t, i.Cluster, "lifecycle", i.Namespace, i.GatewayID, settings, right)
	}, func(w *ward) error {
		path := filepath.Join(w.dir, "driver", "driver.sock")
		if _, err := os.Stat(path); err != nil {
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

// ready is an error unless the daemon is.
func ready(ctx context.Context, w *ward) error {
	status, body, err := w.Readiness(ctx)
	if err == nil && status != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

// TestWrongInputSupervisorctl: it is no gate, and so gets no work.
func TestWrongInputSupervisorctl(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	withSandboxes(t, c)
	home, ca := c.Namespace(t), meshtest.NewCA(t)
	gateway := "gw-" + home
	grant(t, c, home, "supervisorctl", gateway)
	right := pair(ca.Issue(t, "supervisorctl"), ca.PEM)
	right["proxy.pem"] = ca.PEM
	settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
https_proxy = "http://proxy.example:3128"
proxy_ca_bundle = "DIR/proxy.pem"
%s[portcullis.supervisorctl]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
wait_at_start = true
lease_namespace = %q
%s`, gateway, stockOf, home, meshOf)
	cases := only(t, wrongCertificates(t, ca, "supervisorctl"), "certificates are missing", "certificate of another authority", "key does not fit")
	cases = append(cases, only(t, wrongAccess(), "token is missing", "token is of nobody", "kubeconfig is missing")...)
	cases = append(cases,
		wrong{name: "proxy's bundle is missing", breaks: without("proxy.pem")},
		wrong{name: "proxy's bundle is garbage", breaks: holding("proxy.pem", []byte("x"))},
		withoutSandboxes(t, c),
	)
	judge(t, "supervisorctl", cases, func(*wrong) *ward {
		return newWard(t, c, "supervisorctl", home, gateway, settings, right)
	}, func(w *ward) error { return ready(w.t.Context(), w) })
}
