package daemons_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// keyPair is a signing key and its public key, in files.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	key, line := keyPairText(t)
	return write(t, "signing.key", string(key)), write(t, "public.keys", string(line))
}

// keyPairText are the contents of such files.
func keyPairText(t *testing.T) (private, public []byte) {
	t.Helper()
	signer, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	content, err := signer.PrivateFile()
	if err != nil {
		t.Fatal(err)
	}
	return content.Expose(), []byte(signer.Public().FileLine() + "\n")
}

// nswatchWith is valid for nswatch but for what the caller puts in.
func nswatchWith(t *testing.T, natsTable, kubeconfig string) string {
	t.Helper()
	private, public := keyPair(t)
	return fmt.Sprintf("[openshell.drivers.kubernetes]\nworkspace_mode = \"operator\"\noperator_namespace_label = \"a=b\"\n"+
		"[portcullis.nswatch]\nhttp_address = \"127.0.0.1:0\"\nsigning_key_file = %q\nlease_namespace = \"default\"\n"+
		"[portcullis.allowlist]\npublic_keys_file = %q\n[portcullis.nats]\n", private, public) + natsTable + kubernetesTable(kubeconfig)
}

// embedded has nswatch host NATS.
func embedded(store, listen string) string {
	return fmt.Sprintf("embedded = true\nembedded_store_dir = %q\nembedded_listen = %q\n", store, listen)
}

func TestNswatchWaitsForNATSAndTheBucket(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), server.URL())
	p := program.Start(t, "nswatch", i.Settings(""))
	p.AwaitNotReady("[-] nats: ")
	server.Start()
	p.AwaitNotReady("[-] bucket: bucket portcullis_allowlist does not exist: run nswatch allowlist bootstrap")
	bootstrap(t, i)
	p.AwaitReady()
	server.Stop()
	p.AwaitNotReady("[-] nats: ")
	server.Start()
	p.AwaitReady()
	p.Stop()
}

// bootstrap makes the bucket with the command that people use.
func bootstrap(t *testing.T, i *installation.Installation) {
	t.Helper()
	maker := program.Settings(t, fmt.Sprintf("[portcullis.nats]\nurls = [%q]\n", i.URLs[0]))
	if out, err := program.Command(t, "nswatch", "allowlist", "bootstrap", "--config", maker).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// reads is a settings file that is enough to look at the list.
func reads(t *testing.T, i *installation.Installation) string {
	t.Helper()
	return program.Settings(t, fmt.Sprintf("[openshell.drivers.kubernetes]\ngateway_id = %q\n[portcullis.nats]\nurls = [%q]\n[portcullis.allowlist]\npublic_keys_file = %q\n",
		i.GatewayID, i.URLs[0], i.PublicKeysFile()))
}

func awaitVerified(t *testing.T, file, want string) {
	t.Helper()
	cluster.Eventually(t, "the allowlist verifies: "+want, func(context.Context) error {
		out, err := program.Command(t, "nswatch", "allowlist", "verify", "--config", file).CombinedOutput()
		if err == nil && !strings.Contains(string(out), want) {
			err = errors.New("another list")
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// TestNswatchHostsNATS: one process with a file is a whole writer, and makes its bucket itself.
func TestNswatchHostsNATS(t *testing.T) {
	t.Parallel()
	address, dir := natstest.New(t).Addr(), t.TempDir()
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), "nats://"+address)
	i.File = write(t, "namespaces.json", `["team","build"]`)
	external := fmt.Sprintf("urls = [%q]\n", i.URLs[0])
	text := strings.Replace(i.Settings(""), external, embedded(filepath.Join(dir, "store"), address), 1)
	p := program.Start(t, "nswatch", text)
	p.AwaitReady()
	awaitVerified(t, reads(t, i), "2 namespaces")
	p.Stop()
	if err := os.WriteFile(i.File, []byte(`["team"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := program.Start(t, "nswatch", text)
	again.AwaitReady()
	awaitVerified(t, reads(t, i), "1 namespace,")
	again.Stop()
}

// TestReplayE07: a replica that stands by is as ready as the one that leads, so that a rollout does not wait for it.
func TestReplayE07(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), server.URL())
	bootstrap(t, i)
	leader := program.Start(t, "nswatch", i.Settings(""))
	leader.AwaitMetric(1, "portcullis_nswatch_leading")
	standby := program.Start(t, "nswatch", i.Settings(""))
	standby.AwaitReady()
	leader.AwaitReady()
	leading, err := standby.Metric(t.Context(), "portcullis_nswatch_leading")
	if err != nil || leading != 0 {
		t.Errorf("the standby leads: %v, %v", leading, err)
	}
	awaitVerified(t, reads(t, i), "0 namespaces")
	leader.Stop()
	standby.AwaitMetric(1, "portcullis_nswatch_leading")
	standby.Stop()
}
