package daemons_test

import (
	"fmt"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// TestWrongInputNswatch: an nswatch that has something wrong vouches for no list.
func TestWrongInputNswatch(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), b.URL())
	bootstrap(t, i)
	private, public := keyPairText(t)
	other, _ := keyPairText(t)
	i.Trust(string(public))
	right := files{"seed": b.right, "signing.key": private, "public.keys": public}
	const (
		unlisted  = "list of namespaces failed"
		unelected = "request for the Lease failed; see the permissions for leases and the API server"
	)
	cases := chosen(
		b.wrongSeeds(), wrongKeys(t), wrongAccess(), wrongSettings(selector(i.Label), "selector is none", selector("a in (b")),
		[]wrong{
			{name: "signing key is missing", breaks: without("signing.key")},
			{name: "signing key is empty", breaks: holding("signing.key", nil)},
			{name: "signing key is unreadable", breaks: holding("signing.key", unreadable)},
			{name: "signing key is garbage", breaks: holding("signing.key", []byte("x"))},
			{name: "signing key is a public one", breaks: holding("signing.key", public)},
			{name: "signing key is another", breaks: holding("signing.key", other)},
		},
		[]wrong{
			lacking("list", "namespaces", unlisted),
			lacking("create", "leases", unelected),
			lacking("get", "leases", unelected),
		},
	)
	judge(t, "nswatch", cases, func(w *wrong) *ward {
		home, gateway := w.home(t, i.Cluster, "nswatch", i.Namespace, ""), i.GatewayID
		if home != i.Namespace {
			gateway = "gw-" + home
		}
		settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
workspace_mode = "operator"
%s
[portcullis.nswatch]
http_address = "127.0.0.1:0"
wait_at_start = true
signing_key_file = "DIR/signing.key"
lease_namespace = %q
[portcullis.kubernetes]
kubeconfig = "DIR/kubeconfig"
[portcullis.nats]
urls = [%q]
nkey_seed_file = "DIR/seed"
[portcullis.allowlist]
public_keys_file = "DIR/public.keys"
`, gateway, selector(i.Label), home, b.URL())
		return newWard(t, i.Cluster, "nswatch", home, gateway, settings, right)
	}, func(w *ward) error {
		of := *i
		of.GatewayID = w.gateway
		if out, err := program.Command(w.t, "nswatch", "allowlist", "verify", "--config", reads(w.t, &of)).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return ready(w.t.Context(), w)
	})
}
