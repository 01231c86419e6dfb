package kubeclient

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// tlsSources are where everything that the TLS side needs comes from.
type tlsSources struct {
	serverName    string // empty: the server's host
	ca, cert, key source
}

// tlsBytes is the content of the sources at one reading.
type tlsBytes struct {
	ca, cert []byte
	key      secret.Value
}

func (s tlsSources) read() (tlsBytes, error) {
	var b tlsBytes
	var caErr, certErr error
	b.ca, caErr = s.ca.read()
	b.cert, certErr = s.cert.read()
	key, keyErr := s.key.read()
	b.key = secret.New(key)
	clear(key)
	return b, errors.Join(caErr, certErr, keyErr)
}

// sum tells two readings apart.
func (b tlsBytes) sum() [sha256.Size]byte {
	key := b.key.Expose() // into a hash
	defer clear(key)
	h := sha256.New()
	for _, part := range [][]byte{b.ca, b.cert, key} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		_, _ = h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// config parses the content. TLS 1.2 is the least, as in client-go: load balancers in front of API servers may have no
// more. A source that is set and empty is an error: without an authority the system's roots would decide.
func (s tlsSources) config(b tlsBytes) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.serverName}
	if s.ca.set() {
		pool, err := pemfile.ParsePool(b.ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.ca, err)
		}
		cfg.RootCAs = pool
	}
	if s.cert.set() || s.key.set() {
		key := b.key.Expose() // crypto/tls keeps the parsed key
		defer clear(key)
		pair, err := pemfile.ParseKeyPair(b.cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", s.cert, s.key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
