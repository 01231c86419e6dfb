package natstest

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/portcullis-mesh/portcullis/shared/freeport"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
)

// patience bounds every wait for a server. It is a limit for a broken machine, not an expectation.
const patience = 60 * time.Second

// Option changes the server options of one Server, before every start.
type Option func(o *server.Options)

// WithTLS makes the server ask for TLS 1.3 with a certificate of ca. When clients is not nil, clients must present
// a certificate of that authority. The certificate is issued afresh at every start.
func WithTLS(ca, clients *certtest.CA) Option {
	return func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{ca.Keypair("nats-server")}, MinVersion: tls.VersionTLS13}
		o.TLSTimeout = patience.Seconds()
		if clients != nil {
			o.TLSConfig.ClientCAs = clients.Pool()
			o.TLSConfig.ClientAuth = tls.RequireAndVerifyClientCert
			o.TLSVerify = true
		}
	}
}

// WithHandshakeFirst makes the server do TLS before its INFO line, together with WithTLS.
func WithHandshakeFirst() Option {
	return func(o *server.Options) { o.TLSHandshakeFirst = true }
}

// WithNKeys lets in only the users with these public keys, with all rights.
func WithNKeys(public ...string) Option {
	return func(o *server.Options) {
		o.Nkeys = nil
		for _, p := range public {
			o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: p})
		}
	}
}

// Server is one NATS server on a fixed loopback port with a store of its own. Its methods belong to the test's
// goroutine.
type Server struct {
	t       testing.TB
	store   string
	port    int
	options []Option
	secure  bool
	running *server.Server
}

// New reserves an address and a store and starts nothing.
func New(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{t: t, store: filepath.Join(t.TempDir(), "store"), port: freeport.Loopback(t), options: options}
	t.Cleanup(s.Stop)
	return s
}

// Start is New and then Start: a server that is ready for connections.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := New(t, options...)
	s.Start()
	return s
}

// Start runs the server on the same address and store as before and returns when it takes connections.
func (s *Server) Start() {
	s.t.Helper()
	s.launch()
	if !s.running.ReadyForConnections(patience) {
		s.t.Fatalf("NATS server on %s is not ready after %s", s.Addr(), patience)
	}
}

// launch starts the server and does not wait.
func (s *Server) launch() {
	s.t.Helper()
	if s.running != nil {
		s.t.Fatalf("NATS server on %s is already running", s.Addr())
	}
	opts := &server.Options{
		ServerName: "natstest-" + strconv.Itoa(s.port),
		Host:       "127.0.0.1", Port: s.port, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: s.store, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 256 << 20,
	}
	for _, apply := range s.options {
		apply(opts)
	}
	s.secure = opts.TLSConfig != nil
	srv, err := server.NewServer(opts)
	if err != nil {
		s.t.Fatalf("make NATS server: %v", err)
	}
	s.running = srv
	srv.Start()
}

// Stop shuts the server down and returns when it has gone. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// Restart is Stop and Start, with more options from now on if any are given.
func (s *Server) Restart(more ...Option) {
	s.t.Helper()
	s.Stop()
	s.options = append(s.options, more...)
	s.Start()
}

// Wipe deletes the store of a stopped server.
func (s *Server) Wipe() {
	s.t.Helper()
	if s.running != nil {
		s.t.Fatal("wipe of a running NATS server")
	}
	if err := os.RemoveAll(s.store); err != nil {
		s.t.Fatalf("wipe store: %v", err)
	}
}

// Save copies the store of a stopped server, and returns where the copy is.
func (s *Server) Save() (backup string) {
	s.t.Helper()
	if s.running != nil {
		s.t.Fatal("copy of the store of a running NATS server")
	}
	backup = filepath.Join(s.t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(s.store)); err != nil {
		s.t.Fatalf("copy store: %v", err)
	}
	return backup
}

// Restore puts a copy that Save made in place of the store of a stopped server.
func (s *Server) Restore(backup string) {
	s.t.Helper()
	s.Wipe()
	if err := os.CopyFS(s.store, os.DirFS(backup)); err != nil {
		s.t.Fatalf("restore store: %v", err)
	}
}

// Addr is the server's "host:port", whether it runs or not.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the client URL: tls:// when the server has TLS (known from its first start), else nats://.
func (s *Server) URL() string {
	if s.secure {
		return "tls://" + s.Addr()
	}
	return "nats://" + s.Addr()
}

// Raw is the running server, for what this package does not wrap (permissions, connection lists, step-down); nil
// when stopped.
func (s *Server) Raw() *server.Server { return s.running }
