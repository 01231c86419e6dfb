package daemons_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// TestWrongInputTokenauth: a bearer that is right in every respect gets no yes from a tokenauth that has something wrong.
func TestWrongInputTokenauth(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), b.URL())
	bootstrap(t, i)
	i.Nswatch().AwaitReady()
	site, ca := tokenauth.Operator(t, i), meshtest.NewCA(t)
	bearer := site.Bearer(site.Namespace)
	hash := make([]byte, 32)
	_, _ = rand.Read(hash)
	right := pair(ca.Issue(t, "tokenauth"), ca.PEM)
	right["seed"], right["public.keys"], right["hash.key"] = b.right, []byte(i.Public()+"\n"), hash
	settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
service_account_name = %q
workspace_mode = "operator"
%s
[portcullis.tokenauth]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
wait_at_start = true
[portcullis.mesh]
cert_file = "DIR/tls.crt"
key_file = "DIR/tls.key"
ca_file = "DIR/ca.crt"
[portcullis.kubernetes]
kubeconfig = "DIR/kubeconfig"
[portcullis.nats]
urls = [%q]
nkey_seed_file = "DIR/seed"
[portcullis.allowlist]
public_keys_file = "DIR/public.keys"
[portcullis.audit]
hash_key_file = "DIR/hash.key"
`, i.GatewayID, tokenauth.Runner, selector(i.Label), b.URL())
	const refused = "bearer refused"
	cases := chosen(
		wrongCertificates(t, ca, "tokenauth"), b.wrongSeeds(), wrongKeys(t), wrongAccess(), withoutSandboxes(t, i.Cluster),
		wrongSettings(selector(i.Label), "selector is none", selector("a in (b")),
		[]wrong{
			{name: "hash key is missing", breaks: without("hash.key")},
			{name: "hash key is empty", breaks: holding("hash.key", nil)},
			{name: "hash key is unreadable", breaks: holding("hash.key", unreadable)},
			{name: "hash key is short", breaks: holding("hash.key", hash[:31])},
		},
		[]wrong{
			lacking("create", "tokenreviews", refused),
			lacking("get", "namespaces", refused),
			lacking("get", "pods", refused),
			lacking("get", "sandboxes", refused),
		},
	)
	judge(t, "tokenauth", cases, func(w *wrong) *ward {
		return newWard(t, i.Cluster, "tokenauth", w.home(t, i.Cluster, "tokenauth", i.Namespace, i.GatewayID), i.GatewayID, settings, right)
	}, func(w *ward) error {
		if len(w.Entries("serving the mesh")) == 0 {
			return errors.New("it does not serve")
		}
		ctx, cancel := context.WithTimeout(t.Context(), program.Limit)
		defer cancel()
		conn := mesh(w.t, ca, "lifecycle", "tokenauth", w.Logged("serving the mesh", "address"))
		_, err := tokenauthv1.NewTokenAuthServiceClient(conn).Authenticate(ctx,
			&tokenauthv1.AuthenticateRequest{Credential: bearer.Token, GatewayId: i.GatewayID, RequestId: "wrong"})
		return err
	})
}
