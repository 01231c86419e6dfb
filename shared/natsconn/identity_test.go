package natsconn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

func TestRefusedIdentityIsVisibleAndRetried(t *testing.T) {
	good, goodSeed := natstest.NKey(t)
	_, badSeed := natstest.NKey(t)
	server := natstest.Start(t, natstest.WithNKeys(good))
	cfg := fast(server.URL())
	cfg.NKeySeedFile = filepath.Join(t.TempDir(), "seed")
	certtest.Replace(t, cfg.NKeySeedFile, badSeed)

	h := run(t, cfg)
	if err := h.untilReason("Authorization Violation"); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("reason %v does not contain %v", err, nats.ErrAuthorization)
	}
	h.until("many refused attempts", func() bool { return h.errorCount("auth") > 5 })
	if !strings.Contains(h.log.String(), `"kind":"auth"`) {
		t.Errorf("the refusal is not in the log:\n%s", h.log)
	}
	certtest.Replace(t, cfg.NKeySeedFile, goodSeed)
	h.await()

	t.Run("revoked while connected", func(t *testing.T) {
		other, otherSeed := natstest.NKey(t)
		server.Restart(natstest.WithNKeys(other))
		h.untilReason("Authorization Violation")
		certtest.Replace(t, cfg.NKeySeedFile, otherSeed)
		h.await()
	})
	for _, seed := range [][]byte{goodSeed, badSeed} {
		if strings.Contains(h.log.String(), string(seed)) {
			t.Error("a seed is in the log")
		}
	}
}

func TestCredentialsFile(t *testing.T) {
	operator, stranger := natstest.NewOperator(t), natstest.NewOperator(t)
	server := natstest.Start(t, operator.Option())
	cfg := fast(server.URL())
	cfg.CredsFile = filepath.Join(t.TempDir(), "user.creds")
	certtest.Replace(t, cfg.CredsFile, stranger.Creds("writer"))

	h := run(t, cfg)
	h.untilReason("Authorization Violation")
	if err := os.Remove(cfg.CredsFile); err != nil {
		t.Fatal(err)
	}
	h.untilReason("no such file")
	certtest.Replace(t, cfg.CredsFile, []byte("not credentials"))
	h.untilReason("holds no user JWT")
	if h.errorCount("files") == 0 {
		t.Error("no file error was counted")
	}
	certtest.Replace(t, cfg.CredsFile, operator.Creds("writer"))
	s := h.await()
	if _, err := s.JetStream.AccountInfo(t.Context()); err != nil {
		t.Errorf("JetStream: %v", err)
	}
}

func TestRotatedCertificates(t *testing.T) {
	dir := t.TempDir()
	servers, clients := certtest.New(t, "servers 1"), certtest.New(t, "clients 1")
	server := natstest.Start(t, natstest.WithTLS(servers, clients))
	cfg := fast(server.URL())
	files := clients.Issue(dir, "writer")
	certtest.Replace(t, files.CA, servers.PEM())
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = files.CA, files.Cert, files.Key
	h := run(t, cfg)
	h.await()

	newServers, newClients := certtest.New(t, "servers 2"), certtest.New(t, "clients 2")
	server.Restart(natstest.WithTLS(newServers, newClients))
	h.untilReason("unknown authority")
	certtest.Replace(t, files.CA, newServers.PEM())
	h.untilReason("tls: ")
	if h.errorCount("tls") == 0 {
		t.Error("no TLS error was counted")
	}
	newClients.Issue(dir, "writer")
	certtest.Replace(t, files.CA, newServers.PEM())
	h.await()
}

func TestTLSVariants(t *testing.T) {
	ca := certtest.New(t, "servers")
	files := ca.Issue(t.TempDir(), "unused")
	oldTLS := func(o *server.Options) { o.TLSConfig.MinVersion, o.TLSConfig.MaxVersion = 0x0303, 0x0303 }
	for _, c := range []struct {
		name   string
		server []natstest.Option
		scheme string
		caFile string
		first  bool
		reason string
	}{
		{"TLS", []natstest.Option{natstest.WithTLS(ca, nil)}, "tls", files.CA, false, ""},
		{"TLS asked for by ca_file", []natstest.Option{natstest.WithTLS(ca, nil)}, "nats", files.CA, false, ""},
		{"handshake first", []natstest.Option{natstest.WithTLS(ca, nil), natstest.WithHandshakeFirst()}, "tls", files.CA, true, ""},
		{"TLS 1.2", []natstest.Option{natstest.WithTLS(ca, nil), oldTLS}, "tls", files.CA, false, "protocol version"},
		{"TLS 1.2 pressed on a client without TLS", []natstest.Option{natstest.WithTLS(ca, nil), oldTLS}, "nats", "", false, "protocol version"},
		{"authority not known to the system", []natstest.Option{natstest.WithTLS(ca, nil)}, "tls", "", false, "unknown authority"},
		{"server without TLS", nil, "tls", files.CA, false, "secure connection not available"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := natstest.Start(t, c.server...)
			cfg := fast(c.scheme + "://" + srv.Addr())
			cfg.CAFile, cfg.TLSHandshakeFirst = c.caFile, c.first
			h := run(t, cfg)
			if c.reason == "" {
				h.await()
				return
			}
			h.untilReason(c.reason)
			if h.errorCount("tls") == 0 {
				t.Errorf("not counted as a TLS error:\n%s", h.log)
			}
		})
	}
}

func TestSubjectPrefixes(t *testing.T) {
	srv := natstest.Start(t)
	cfg := fast(srv.URL())
	cfg.InboxPrefix, cfg.JSAPIPrefix = "_INBOX_reader", "allow.API"
	s := run(t, cfg).await()
	if inbox := s.NATS.NewInbox(); !strings.HasPrefix(inbox, "_INBOX_reader.") {
		t.Errorf("inbox %q has not the prefix", inbox)
	}
	// The request must travel under the prefix: who listens there sees it.
	seen, err := s.NATS.SubscribeSync("allow.API.INFO")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() { defer close(asked); _, _ = s.JetStream.AccountInfo(ctx) }()
	if _, err := seen.NextMsg(patience); err != nil {
		t.Errorf("no API request under the prefix: %v", err)
	}
	cancel()
	<-asked
}

func TestPermissionErrorIsCounted(t *testing.T) {
	public, seed := natstest.NKey(t)
	restrict := func(o *server.Options) {
		o.Nkeys[0].Permissions = &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"forbidden"}}}
	}
	srv := natstest.Start(t, natstest.WithNKeys(public), restrict)
	cfg := fast(srv.URL())
	cfg.NKeySeedFile = filepath.Join(t.TempDir(), "seed")
	certtest.Replace(t, cfg.NKeySeedFile, seed)
	h := run(t, cfg)
	s := h.await()
	if err := s.NATS.Publish("forbidden", nil); err != nil {
		t.Fatal(err)
	}
	h.until("a permission error", func() bool { return h.errorCount("permission") > 0 })
	if err := h.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v; a permission error is not a lost connection", err)
	}
	srv.Stop()
	if err := h.untilReason("disconnected since"); errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("reason %v is an earlier error, not the loss", err)
	}
}
