//go:build portcullis_long

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
	settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
workspace_mode = "operator"
operator_namespace_label = %q
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
`, i.GatewayID, i.Label, i.Namespace, b.URL())
	cases := append(b.wrongSeeds(), wrongAccess()...)
	cases = append(cases, only(t, wrongKeys(t), "public keys are missing", "public keys are garbage", "public keys of another signer")...)
	cases = append(cases,
		wrong{name: "signing key is missing", breaks: without("signing.key")},
		wrong{name: "signing key is empty", breaks: holding("signing.key", nil)},
		wrong{name: "signing key is unreadable", breaks: holding("signing.key", unreadable)},
		wrong{name: "signing key is garbage", breaks: holding("signing.key", []byte("x"))},
		wrong{name: "signing key is a public one", breaks: holding("signing.key", public)},
		wrong{name: "signing key is another", breaks: holding("signing.key", other)},
	)
	file := reads(t, i)
	judge(t, "nswatch", cases, func(*wrong) *ward {
		return newWard(t, i.Cluster, "nswatch", i.Namespace, i.GatewayID, settings, right)
	}, func(w *ward) error {
		out, err := program.Command(w.t, "nswatch", "allowlist", "verify", "--config", file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return ready(w.t.Context(), w)
	})
}
