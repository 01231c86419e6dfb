package natstest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket opens (or makes) the bucket over a connection that closes with the test.
func bucket(t *testing.T, url string, replicas int, opts ...nats.Option) jetstream.KeyValue {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "probe", Replicas: replicas})
	if err != nil {
		t.Fatalf("make bucket: %v", err)
	}
	return kv
}

func TestRestartKeepsTheStoreWipeDoesNotAndACopyComesBack(t *testing.T) {
	s := natstest.New(t)
	if _, err := nats.Connect(s.URL(), nats.MaxReconnects(0)); err == nil {
		t.Fatal("connected to a server that was not started")
	}
	s.Start()
	if _, err := bucket(t, s.URL(), 1).PutString(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	entry, err := bucket(t, s.URL(), 1).Get(t.Context(), "key")
	if err != nil || string(entry.Value()) != "value" {
		t.Fatalf("after restart: %v, %v; want the value", entry, err)
	}
	s.Stop()
	backup := s.Save()
	s.Wipe()
	s.Start()
	if _, err := bucket(t, s.URL(), 1).Get(t.Context(), "key"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatalf("after wipe: %v, want %v", err, jetstream.ErrKeyNotFound)
	}
	s.Stop()
	s.Restore(backup)
	s.Start()
	if _, err := bucket(t, s.URL(), 1).Get(t.Context(), "key"); err != nil {
		t.Fatalf("after restoring the copy: %v", err)
	}
}

func TestIdentities(t *testing.T) {
	ca, clients := certtest.New(t, "servers"), certtest.New(t, "clients")
	clientTLS := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{clients.Keypair("writer")}}
	public, seed := natstest.NKey(t)
	seedFile := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seedFile, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	nkey, err := nats.NkeyOptionFromSeed(seedFile)
	if err != nil {
		t.Fatal(err)
	}
	operator := natstest.NewOperator(t)

	for _, c := range []struct {
		name   string
		server []natstest.Option
		scheme string
		good   []nats.Option
		bad    []nats.Option
	}{
		{
			"mutual TLS",
			[]natstest.Option{natstest.WithTLS(ca, clients)},
			"tls://",
			[]nats.Option{nats.Secure(clientTLS)},
			[]nats.Option{nats.Secure(&tls.Config{RootCAs: ca.Pool()})},
		},
		{
			"TLS first",
			[]natstest.Option{natstest.WithTLS(ca, nil), natstest.WithHandshakeFirst()},
			"tls://",
			[]nats.Option{nats.Secure(clientTLS), nats.TLSHandshakeFirst()},
			[]nats.Option{nats.Secure(clientTLS)},
		},
		{"NKEY", []natstest.Option{natstest.WithNKeys(public)}, "nats://", []nats.Option{nkey}, nil},
		{
			"credentials",
			[]natstest.Option{operator.Option()},
			"nats://",
			[]nats.Option{nats.UserCredentialBytes(operator.Creds("writer"))},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := natstest.Start(t, c.server...)
			if !strings.HasPrefix(s.URL(), c.scheme) {
				t.Errorf("URL %s, want scheme %s", s.URL(), c.scheme)
			}
			if nc, err := nats.Connect(s.URL(), c.bad...); err == nil {
				nc.Close()
				t.Error("connected without the identity")
			}
			if _, err := bucket(t, s.URL(), 1, c.good...).PutString(t.Context(), "key", "value"); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
}

func TestClusterSurvivesItsStreamLeader(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	kv := bucket(t, strings.Join(c.URLs(), ","), 3)
	if _, err := kv.PutString(t.Context(), "key", "one"); err != nil {
		t.Fatal(err)
	}
	leader := c.StreamLeader("KV_probe")
	if leader == nil {
		t.Fatal("the stream has no leader after a write")
	}
	leader.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if _, err := kv.PutString(ctx, "key", "two"); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("no write succeeded after the leader stopped: %v", err)
		}
	}
	leader.Start()
	c.WaitReady()
}
