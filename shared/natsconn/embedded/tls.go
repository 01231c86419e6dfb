package embedded

import (
	"crypto/tls"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// reloadEvery bounds how often a handshake reads the files.
const reloadEvery = time.Second

// identity is the server's TLS side. Each handshake uses the files as they are, or as they last were sound.
type identity struct {
	cfg Config
	log zerolog.Logger
	now func() time.Time

	mu      sync.Mutex
	current *tls.Config
	read    time.Time
	failed  bool
}

// newIdentity reads the files once and fails when they are not sound.
func newIdentity(cfg Config, log zerolog.Logger) (*identity, error) {
	id := &identity{cfg: cfg, log: log, now: time.Now}
	current, err := id.load()
	id.current, id.read = current, id.now()
	return id, err
}

func (id *identity) load() (*tls.Config, error) {
	pair, err := pemfile.KeyPair(
		pemfile.File{Key: "embedded_cert_file", Path: id.cfg.CertFile},
		pemfile.File{Key: "embedded_key_file", Path: id.cfg.KeyFile})
	if err != nil {
		return nil, err
	}
	loaded := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}
	if id.cfg.ClientCAFile != "" {
		loaded.ClientAuth = tls.RequireAndVerifyClientCert
		loaded.ClientCAs, err = pemfile.File{Key: "embedded_client_ca_file", Path: id.cfg.ClientCAFile}.Pool()
	}
	return loaded, err
}

// serverConfig asks forHandshake at each handshake.
func (id *identity) serverConfig() *tls.Config {
	outer := id.current.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return id.forHandshake(), nil }
	return outer
}

func (id *identity) forHandshake() *tls.Config {
	id.mu.Lock()
	defer id.mu.Unlock()
	now := id.now()
	if now.Sub(id.read) < reloadEvery {
		return id.current
	}
	id.read = now
	loaded, err := id.load()
	if err != nil {
		if !id.failed {
			id.log.Error().Err(err).Msg("the changed TLS files are not usable; the embedded NATS server goes on with the former ones")
		}
		id.failed = true
		return id.current
	}
	id.current, id.failed = loaded, false
	return loaded
}
