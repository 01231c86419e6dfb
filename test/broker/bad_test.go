package broker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// TestBadIdentities: with a file of identities that lacks something, or has something else in its place, the server does not start, and
// says what it is.
func TestBadIdentities(t *testing.T) {
	t.Parallel()
	good := single(t)["identities.conf"]
	line := func(name string) string {
		for l := range strings.Lines(good) {
			if strings.HasPrefix(l, name) {
				return l
			}
		}
		t.Fatalf("no line begins with %s", name)
		return ""
	}
	for name, c := range map[string]struct{ old, text, says string }{
		"an identity is missing":  {line("TOKENAUTH_NKEY"), "", "TOKENAUTH_NKEY"},
		"a subject is missing":    {line("ALLOWLIST_SNAPSHOT"), "", "ALLOWLIST_SNAPSHOT"},
		"a key is none":           {line("GATEWAY_NKEY"), "GATEWAY_NKEY: \"nothing\"\n", "public nkey"},
		"a key is empty":          {line("GATEWAY_NKEY"), "GATEWAY_NKEY: \"\"\n", "key"},
		"a key is there twice":    {line("GATEWAY_NKEY"), strings.Replace(line("OPERATOR_NKEY"), "OPERATOR", "GATEWAY", 1), "uplicate"},
		"a subject is none":       {line("ALLOWLIST_READ"), "ALLOWLIST_READ: \"a b\"\n", "a b"},
		"something else is in it": {line("GATEWAY_NKEY"), line("GATEWAY_NKEY") + "no_auth_user: \"x\"\n", "no_auth_user"},
		"it is cut short":         {good[len(good)/2:], "", ""},
		"it is empty":             {good, "", "can not be found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			err := b.run(single(t).with(t, "identities.conf", c.old, c.text))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// TestWrongIdentity: a reader whose key, account or gateway is not what the servers know never opens, and says why.
func TestWrongIdentity(t *testing.T) {
	t.Parallel()
	b := start(t, single(t))
	_, unknown := natstest.NKey(t)
	w := newWork(t)
	w.lists("team-a")
	for _, c := range []struct {
		name   string
		config func(*natsconn.Config)
		reader func(*allowkv.ReaderConfig)
		says   string
	}{
		{"the bucket is missing", nil, nil, "does not exist: run the bootstrap"},
		{"an unknown key", func(cfg *natsconn.Config) { cfg.NKeySeedFile = file(t, unknown) }, nil, "Authorization Violation"},
		{"no key", func(cfg *natsconn.Config) { cfg.NKeySeedFile = "" }, nil, "Authorization Violation"},
		{"no authority", func(cfg *natsconn.Config) { cfg.CAFile = "" }, nil, "unknown authority"},
		{"the key of the writer", func(cfg *natsconn.Config) { cfg.NKeySeedFile = seed(t, "nswatch") }, nil, "does not let this user read"},
		{"another API prefix", func(cfg *natsconn.Config) { cfg.JSAPIPrefix = "" }, nil, "does not let this user read"},
		{"another gateway", nil, func(cfg *allowkv.ReaderConfig) { cfg.GatewayID = "other" }, "does not let this user read"},
		{"another inbox", func(cfg *natsconn.Config) { cfg.InboxPrefix = "mine" }, nil, "does not let this user read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := settings(t, "tokenauth", b.url())
			if c.config != nil {
				c.config(&cfg)
			}
			conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			background(t, "the connection", conn.Run)
			reading := allowkv.ReaderConfig{GatewayID: gatewayID, Name: "tokenauth", Config: allowkv.DefaultConfig()}
			reading.Config.PublicKeysFile = w.publics
			if c.reader != nil {
				c.reader(&reading)
			}
			reader, err := allowkv.NewReader(reading, conn, zerolog.Nop(), prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			background(t, "the reader", reader.Run)
			cluster.Eventually(t, "the reason is told", func(ctx context.Context) error {
				err := errors.Join(conn.Ready(ctx), reader.Ready(ctx))
				if err == nil || !strings.Contains(err.Error(), c.says) {
					return errors.Join(errors.New("it says"), err)
				}
				return nil
			})
			if a := reader.Check("team-a"); a.Allowed() || a.Reason != verdict.Unsynced {
				t.Errorf("got %+v", a)
			}
		})
		if c.name == "the bucket is missing" { // what is wrong with the others is not that
			if err := empty["bootstrap makes the bucket"](t.Context(), b); err != nil {
				t.Fatal(err)
			}
			w.publish(b.url())
			w.reader("lifecycle", b.url()).allows("team-a")
		}
	}
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
