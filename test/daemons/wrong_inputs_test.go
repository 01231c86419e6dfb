package daemons_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// The kinds of input that more than one daemon has. What stands first of a kind is what every run of the tests looks at.

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
	another := "relay"
	if daemon == another {
		another = "lifecycle"
	}
	return []wrong{
		{name: "certificates are missing", breaks: without("tls.crt", "tls.key", "ca.crt")},
		{name: "certificate is empty", breaks: holding("tls.crt", nil)},
		{name: "certificate is unreadable", breaks: holding("tls.crt", unreadable)},
		{name: "certificate is garbage", breaks: holding("tls.crt", []byte("x"))},
		{name: "certificate of another authority", breaks: issued(meshtest.NewCA(t), daemon)},
		{name: "certificate has expired", breaks: issued(ca, daemon, meshtest.Expired())},
		{name: "certificate names another daemon", breaks: issued(ca, another)},
		{name: "certificate names nobody", breaks: issued(ca, daemon, meshtest.URIs())},
		{name: "key does not fit", breaks: holding("tls.key", ca.Issue(t, daemon).Key)},
		{name: "key is garbage", breaks: holding("tls.key", []byte("x"))},
		{name: "key is missing", breaks: without("tls.key")},
		{name: "authority is missing", breaks: without("ca.crt")},
		{name: "authority is empty", breaks: holding("ca.crt", nil)},
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
		{name: "public keys are unreadable", breaks: holding("public.keys", unreadable)},
		{name: "public keys are garbage", breaks: holding("public.keys", []byte("x"))},
		{name: "public keys are a private one", breaks: holding("public.keys", private)},
		{name: "public keys of another signer", breaks: holding("public.keys", other)},
	}
}

// withoutSandboxes has the API server know no Sandboxes, as one does where their CRD is not installed, until it is mended.
func withoutSandboxes(t *testing.T, c *cluster.Cluster) []wrong {
	t.Helper()
	proxy := apiproxy.New(t, c)
	missing := apiproxy.Reply(http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n", "X-Content-Type-Options", "nosniff")
	proxy.Break(apiproxy.Every, func(w http.ResponseWriter, r *http.Request, mended <-chan struct{}) bool {
		return !strings.HasPrefix(r.URL.Path, "/apis/agents.x-k8s.io") || missing(w, r, mended)
	})
	return []wrong{{
		name: "CRD of Sandboxes is missing",
		breaks: func(w *ward, f files) {
			w.files["kubeconfig"], w.files["api.crt"] = w.kubeconfig(proxy.Address()), proxy.Authority()
			f["kubeconfig"], f["api.crt"] = w.files["kubeconfig"], w.files["api.crt"]
		},
		mend: func(*ward) { proxy.Mend() },
	}}
}

// selector is the line of the settings that selects namespaces.
func selector(of string) string { return fmt.Sprintf("operator_namespace_label = %q", of) }

// wrongSettings are what may be wrong with the settings themselves, changed by the one line that is given, if any.
func wrongSettings(line, name, instead string) []wrong {
	return []wrong{
		{name: name, settings: func(right string) string { return strings.Replace(right, line, instead, 1) }},
		{name: "settings are no TOML", settings: func(string) string { return "[portcullis" }},
		{name: "settings have a key that is none", settings: func(right string) string {
			return strings.Replace(right, "wait_at_start", "wait_at_stat = true\nwait_at_start", 1)
		}},
	}
}

// wrongSeeds are what may be wrong with the seed of a user of NATS.
func (b *broker) wrongSeeds() []wrong {
	// A seed is read for each connection, and these users have one, which is a good one to the server.
	var once sync.Once
	again := func(*ward) { once.Do(func() { b.Restart() }) }
	return []wrong{
		{name: "NATS seed is missing", breaks: without("seed")},
		{name: "NATS seed is empty", breaks: holding("seed", nil)},
		{name: "NATS seed is unreadable", breaks: holding("seed", unreadable)},
		{name: "NATS seed is garbage", breaks: holding("seed", []byte("SUNOTASEED"))},
		{name: "NATS seed is of no user", breaks: holding("seed", b.stranger)},
		{name: "NATS user of another account", breaks: holding("seed", b.elsewhere), mend: again},
		{name: "NATS user without rights", breaks: holding("seed", b.powerless), mend: again},
		{name: "NATS account without JetStream", breaks: holding("seed", b.plain), mend: again},
	}
}
