package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// Server is one embedded server. Make it with New; all methods are safe for concurrent use.
type Server struct {
	cfg       Config
	log       zerolog.Logger
	identity  *identity // nil without TLS
	started   atomic.Bool
	listening chan struct{}

	mu      sync.Mutex
	nats    *natsserver.Server // nil unless it takes connections
	url     string
	release func() // gives the store back; nil unless it is claimed
}

// New checks the settings and reads the TLS files. It starts nothing and does not touch the store: Claim does.
func New(cfg Config, log zerolog.Logger) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	s := &Server{cfg: cfg, log: log, listening: make(chan struct{})}
	if cfg.CertFile != "" {
		var err error
		if s.identity, err = newIdentity(cfg, log); err != nil {
			return nil, fmt.Errorf("embedded NATS server: %w", err)
		}
	}
	return s, nil
}

// Run serves until ctx ends and returns nil then; any other end is an error: what Claim returns if it was not called
// before, a port that was taken since, a store that cannot be read. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return errors.New("embedded NATS server: it was started twice")
	}
	if err := s.Claim(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	return nil
}

func (s *Server) run(ctx context.Context) error {
	srv, err := natsserver.NewServer(s.options())
	if err != nil {
		return err
	}
	logs := &bridge{log: s.log, fatal: make(chan error, 1)}
	srv.SetLogger(logs, s.log.GetLevel() <= zerolog.DebugLevel, false)
	defer func() {
		s.set(nil, "")
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
	// Start returns when the server listens or has reported why it cannot.
	srv.Start()
	select {
	case err := <-logs.fatal:
		return err
	default:
	}
	s.set(srv, srv.ClientURL())
	close(s.listening)
	select {
	case <-ctx.Done():
		return nil
	case err := <-logs.fatal:
		return err
	}
}

func (s *Server) options() *natsserver.Options {
	host, port, _ := s.cfg.address() // checked by New
	if port == 0 {
		port = natsserver.RANDOM_PORT
	}
	opts := &natsserver.Options{
		ServerName: "portcullis-embedded",
		Host:       host.String(), Port: port,
		NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
		MaxPayload: MaxPayload,
		JetStream:  true, StoreDir: s.cfg.StoreDir, SyncAlways: true,
		JetStreamMaxStore: s.cfg.MaxStore, JetStreamMaxMemory: maxMemory,
		JetStreamLimits: natsserver.JSLimitOpts{DefaultMaxConsumers: MaxConsumers},
	}
	for _, key := range s.cfg.AuthorizedNKeys {
		opts.Nkeys = append(opts.Nkeys, &natsserver.NkeyUser{Nkey: key})
	}
	if s.identity != nil {
		opts.TLSConfig = s.identity.serverConfig()
		opts.TLSVerify = s.cfg.ClientCAFile != ""
		opts.TLSHandshakeFirst = s.cfg.HandshakeFirst
	}
	return opts
}

func (s *Server) set(srv *natsserver.Server, url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nats, s.url = srv, url
}

// Ready is a readiness check: nil while the server takes connections and JetStream works. The server turns JetStream
// off by itself when the store cannot be written.
func (s *Server) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.nats == nil:
		return errors.New("the embedded NATS server is not running")
	case !s.nats.JetStreamEnabled():
		return fmt.Errorf("the embedded NATS server has turned JetStream off: see its log, and free space or rights in %s", s.cfg.StoreDir)
	}
	return nil
}

// Listening is closed once the server takes connections.
func (s *Server) Listening() <-chan struct{} { return s.listening }

// ClientURL is where clients connect, with the port that was picked; empty while the server does not run.
func (s *Server) ClientURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}
