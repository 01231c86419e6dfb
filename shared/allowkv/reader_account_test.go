package allowkv_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
)

// accountsConfig is the pattern of NATS reference 5.4, with the filter narrowed to one gateway: the stream and the
// writer in one account, readers in another, with the rights that they need and no other. The reader may not even
// remove its consumers.
const accountsConfig = `
accounts {
  AUTHZ {
    jetstream: enabled
    users: [ { nkey: WRITER } ]
    exports: [
      { service: "$JS.API.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.>", accounts: [READERS] }
      { service: "$JS.API.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*", response_type: Stream, accounts: [READERS] } ]
  }
  READERS {
    users: [
      { nkey: READER, permissions: {
        publish: { allow: [
          "AZ.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.gw-1.*",
          "AZ.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*" ] }
        subscribe: { allow: ["_INBOX_gw.>"] } } }
      { nkey: STRANGER, permissions: { publish: { allow: ["AZ.nothing"] }, subscribe: { allow: ["_INBOX_gw.>"] } } } ]
    imports: [
      { service: { account: AUTHZ, subject: "$JS.API.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.>" },
        to: "AZ.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.>" }
      { service: { account: AUTHZ, subject: "$JS.API.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*" },
        to: "AZ.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*" } ]
  }
}`

// identity is a user by its NKEY.
type identity struct{ public, seedFile string }

func newIdentity(t *testing.T) identity {
	t.Helper()
	public, seed := natstest.NKey(t)
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return identity{public, file}
}

// asReader is the connection of an identity in the readers' account.
func (id identity) asReader(cfg *natsconn.Config) {
	cfg.NKeySeedFile, cfg.JSAPIPrefix, cfg.InboxPrefix = id.seedFile, "AZ", "_INBOX_gw"
}

// twoAccounts runs a server with the bucket in its writer's account.
func twoAccounts(t *testing.T, signer *allowlist.Signer) (s *natstest.Server, d *desk, reader, stranger identity) {
	t.Helper()
	writer := newIdentity(t)
	reader, stranger = newIdentity(t), newIdentity(t)
	text := strings.NewReplacer("WRITER", writer.public, "READER,", reader.public+",", "STRANGER", stranger.public).Replace(accountsConfig)
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s = natstest.Start(t, func(o *server.Options) {
		parsed, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatalf("the configuration: %v", err)
		}
		o.Accounts, o.Nkeys = parsed.Accounts, parsed.Nkeys
	})
	option, err := nats.NkeyOptionFromSeed(writer.seedFile)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL(), option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	d = &desk{t: t, js: js, scribe: newScribe(t, signer, 1), halt: func() {}}
	t.Cleanup(func() { d.halt() })
	d.bucket(1)
	return s, d, reader, stranger
}

// TestTwoAccounts: the reader's rights are enough, it takes no more, and one without them says so.
func TestTwoAccounts(t *testing.T) {
	t.Parallel()
	signer := allowkvtest.Signer(t)
	s, d, reader, stranger := twoAccounts(t, signer)
	d.publish("team-a")
	d.start()
	cfg := readerSettings(allowkvtest.KeysFile(t, signer))

	proxy := netfault.Start(t, s.Addr())
	conn, _ := connect(t, "nats://"+proxy.Addr(), reader.asReader)
	x := runReader(t, conn, cfg)
	x.answers("team-a", "")
	// A new connection and a new consumer, without the right to remove the old one.
	proxy.Cut()
	x.until("another consumer", func() bool { return x.counter("consumers_total") > 1 })
	d.publish("team-a", "team-b")
	x.answers("team-b", "")

	conn, _ = connect(t, s.URL(), stranger.asReader)
	y := runReader(t, conn, cfg)
	y.until("the refusal", func() bool { return errors.Is(y.Ready(t.Context()), allowkv.ErrRefused) })
}

// TestClusterLosesTheConsumersHost: a consumer has one copy and dies with its server; the reader, on another server,
// stays open and makes a new one.
func TestClusterLosesTheConsumersHost(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, strings.Join(c.URLs(), ","), signer)
	d.bucket(3)
	d.publish("team-a")
	d.start()
	cfg := readerSettings(allowkvtest.KeysFile(t, signer))
	patientReader(&cfg)
	conn, _ := connect(t, strings.Join(c.URLs(), ","))
	x := runReader(t, conn, cfg)
	x.answers("team-a", "")

	denied := x.denials()
	host := consumerHost(t, c)
	host.Stop()
	d.publish("team-a", "team-b")
	x.answers("team-b", "")
	if n := denied(); n != 0 {
		t.Errorf("team-a was refused %d times", n)
	}
	if x.counter("consumers_total") < 2 {
		t.Error("the consumer was not made afresh")
	}
}

// consumerHost is the server that has the one consumer of the bucket.
func consumerHost(t *testing.T, c *natstest.Cluster) *natstest.Server {
	t.Helper()
	for _, s := range c.Servers {
		report, err := s.Raw().Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, account := range report.AccountDetails {
			for _, stream := range account.Streams {
				for _, consumer := range stream.Consumer {
					if consumer.Cluster == nil || consumer.Cluster.Leader == s.Raw().Name() {
						return s
					}
				}
			}
		}
	}
	t.Fatal("no server has a consumer")
	return nil
}
