//go:build portcullis_long

package daemons_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// pair are the certificate files of a mesh.
func pair(p meshtest.Pair, authority []byte) files {
	return files{"tls.crt": p.Cert, "tls.key": p.Key, "ca.crt": authority}
}

// wrongCertificates are what may be wrong with a daemon's part in the mesh.
func wrongCertificates(t *testing.T, ca *meshtest.CA, daemon string) []wrong {
	t.Helper()
	issued := func(by *meshtest.CA, to string, changes ...meshtest.Change) func(*ward, files) {
		p := by.Issue(t, to, changes...)
		return func(_ *ward, f files) { f["tls.crt"], f["tls.key"] = p.Cert, p.Key }
	}
	return []wrong{
		{name: "certificates are missing", breaks: without("tls.crt", "tls.key", "ca.crt")},
		{name: "certificate is empty", breaks: holding("tls.crt", nil)},
		{name: "certificate is unreadable", breaks: holding("tls.crt", unreadable)},
		{name: "certificate is garbage", breaks: holding("tls.crt", []byte("x"))},
		{name: "certificate of another authority", breaks: issued(meshtest.NewCA(t), daemon)},
		{name: "certificate has expired", breaks: issued(ca, daemon, meshtest.Expired())},
		{name: "certificate names another daemon", breaks: issued(ca, "relay")},
		{name: "certificate names nobody", breaks: issued(ca, daemon, meshtest.URIs())},
		{name: "key does not fit", breaks: holding("tls.key", ca.Issue(t, daemon).Key)},
		{name: "key is garbage", breaks: holding("tls.key", []byte("x"))},
		{name: "authority is a certificate", breaks: holding("ca.crt", ca.Issue(t, daemon).Cert)},
		{name: "authority is garbage", breaks: holding("ca.crt", []byte("x"))},
	}
}

// wrongKeys are what may be wrong with the public keys of the allowlist.
func wrongKeys(t *testing.T) []wrong {
	t.Helper()
	private, other := keyPairText(t)
	return []wrong{
		{name: "public keys are missing", breaks: without("public.keys")},
		{name: "public keys are empty", breaks: holding("public.keys", nil)},
		{name: "public keys are garbage", breaks: holding("public.keys", []byte("x"))},
		{name: "public keys are a private one", breaks: holding("public.keys", private)},
		{name: "public keys of another signer", breaks: holding("public.keys", other)},
	}
}

// withoutSandboxes has the API server know no Sandboxes, as one does where their CRD is not installed, until it is mended.
func withoutSandboxes(t *testing.T, c *cluster.Cluster) wrong {
	t.Helper()
	proxy := apiproxy.New(t, c)
	missing := apiproxy.Reply(http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n", "X-Content-Type-Options", "nosniff")
	proxy.Break(apiproxy.Every, func(w http.ResponseWriter, r *http.Request, mended <-chan struct{}) bool {
		return !strings.HasPrefix(r.URL.Path, "/apis/agents.x-k8s.io") || missing(w, r, mended)
	})
	return wrong{
		name: "CRD of Sandboxes is missing",
		breaks: func(w *ward, f files) {
			w.files["kubeconfig"], w.files["api.crt"] = w.kubeconfig(proxy.Address()), proxy.Authority()
			f["kubeconfig"], f["api.crt"] = w.files["kubeconfig"], w.files["api.crt"]
		},
		mend: func(*ward) { proxy.Mend() },
	}
}

// TestWrongInputTokenauth: a bearer that is right in every respect gets no yes from a tokenauth that has something wrong.
func TestWrongInputTokenauth(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), b.URL())
	bootstrap(t, i)
	i.Nswatch().AwaitReady()
	site, ca := tokenauth.Operator(t, i), meshtest.NewCA(t)
	grant(t, i.Cluster, i.Namespace, "tokenauth", i.GatewayID)
	bearer := site.Bearer(site.Namespace)
	hash := make([]byte, 32)
	_, _ = rand.Read(hash)
	right := pair(ca.Issue(t, "tokenauth"), ca.PEM)
	right["seed"], right["public.keys"], right["hash.key"] = b.right, []byte(i.Public()+"\n"), hash
	settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
service_account_name = %q
workspace_mode = "operator"
operator_namespace_label = %q
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
`, i.GatewayID, tokenauth.Runner, i.Label, b.URL())
	cases := append(wrongCertificates(t, ca, "tokenauth"), b.wrongSeeds()...)
	cases = append(append(cases, wrongKeys(t)...), wrongAccess()...)
	cases = append(cases,
		wrong{name: "hash key is missing", breaks: without("hash.key")},
		wrong{name: "hash key is short", breaks: holding("hash.key", hash[:31])},
		withoutSandboxes(t, i.Cluster),
	)
	judge(t, "tokenauth", cases, func(*wrong) *ward {
		return newWard(t, i.Cluster, "tokenauth", i.Namespace, i.GatewayID, settings, right)
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
