package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var program = commandtest.Of(app.Daemon)

func write(t *testing.T, name, text string) string {
	t.Helper()
	return commandtest.WriteFile(t, t.TempDir(), name, text)
}

// pair makes a key pair with the command that people use.
func pair(t *testing.T) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	private, public = filepath.Join(dir, "signing.key"), filepath.Join(dir, "keys.pub")
	if got := program.Run(t.Context(), "keys", "generate", "--private", private, "--public", public); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	return private, public
}

func signer(t *testing.T, private string) *allowlist.Signer {
	t.Helper()
	text, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	s, err := allowlist.ParseSigner(secret.New(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// operator is a settings file with which the daemon would start, but for the lines that replace takes out and puts in.
func operator(private, public string, replace ...string) string {
	text := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = "blue"
workspace_mode = "operator"
operator_namespace_label = "openshell.ai/workspace=true"
[portcullis.nswatch]
http_address = "127.0.0.1:0"
signing_key_file = %q
lease_namespace = "mesh"
[portcullis.allowlist]
public_keys_file = %q
[portcullis.nats]
urls = ["nats://127.0.0.1:4222"]
`, private, public)
	return strings.NewReplacer(replace...).Replace(text)
}

// reader is a settings file that is enough to look at the list.
func reader(url, public string) string {
	return fmt.Sprintf("[openshell.drivers.kubernetes]\ngateway_id = \"blue\"\n[portcullis.nats]\nurls = [%q]\n[portcullis.allowlist]\npublic_keys_file = %q\n", url, public)
}

// bucket writes records as a writer would, or as it would not.
type bucket struct {
	t      *testing.T
	conn   *nats.Conn
	signer *allowlist.Signer
}

func newBucket(t *testing.T, url string, signer *allowlist.Signer) *bucket {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &bucket{t, conn, signer}
}

func (b *bucket) put(key string, record []byte) {
	b.t.Helper()
	reply, err := b.conn.Request("$KV."+allowkv.Bucket+"."+key, record, commandtest.Patience)
	if err != nil || strings.Contains(string(reply.Data), `"error"`) {
		b.t.Fatalf("put %s: %v %s", key, err, reply.Data)
	}
}

// publish writes a list of one revision, and a beat for it that is as old as is said.
func (b *bucket) publish(revision uint64, age time.Duration, names ...string) {
	b.t.Helper()
	b.vouch(revision, age, b.store(revision, age, names...))
}

// store writes a list that nothing vouches for yet.
func (b *bucket) store(revision uint64, age time.Duration, names ...string) allowlist.Digest {
	b.t.Helper()
	var entries []allowlist.Entry
	for _, n := range names {
		entries = append(entries, allowlist.Entry{Name: n, UID: "uid-" + n})
	}
	list, err := allowlist.NewList(entries)
	if err != nil {
		b.t.Fatal(err)
	}
	record, digest, err := allowlist.SealSnapshot(allowlist.Snapshot{
		GatewayID: "blue", Epoch: 1, Revision: revision, Writer: "writer", PublishedAt: before(age), Namespaces: list,
		Source: allowlist.Source{Kind: allowlist.SourceLabel, Selector: "a=b", Version: "1"},
	}, b.signer)
	if err != nil {
		b.t.Fatal(err)
	}
	b.put(allowlist.SnapshotKey("blue"), record)
	return digest
}

func (b *bucket) vouch(revision uint64, age time.Duration, digest allowlist.Digest) {
	b.t.Helper()
	beat, err := allowlist.SealHeartbeat(allowlist.Heartbeat{
		GatewayID: "blue", Epoch: 1, Revision: revision, Digest: digest, Beat: revision, PublishedAt: before(age), Writer: "writer",
		Proof: allowlist.Proof{Kind: allowlist.ProofList}, TTL: 5 * time.Second,
	}, b.signer)
	if err != nil {
		b.t.Fatal(err)
	}
	b.put(allowlist.HeartbeatKey("blue"), beat)
}

func before(age time.Duration) time.Time {
	return time.Now().Add(-age).UTC().Truncate(time.Millisecond)
}
