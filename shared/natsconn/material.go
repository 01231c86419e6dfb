package natsconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/internal/identityfile"
)

// maxCredentials bounds a credentials or seed file.
const maxCredentials = 64 << 10

// material is what the identity and TLS files held at one reading. It serves one round of connection attempts.
type material struct {
	tls    *tls.Config
	jwt    string
	signer nkeys.KeyPair
	public string
}

// CheckFiles reads the certificate, credentials and seed files and returns every problem, one line each: absent,
// not a regular file, too large, malformed, or a key that does not belong to its certificate. An absent file is a
// problem: nothing that is late in a working deployment is a file. The files of the embedded server are its own.
func (c *Config) CheckFiles() error {
	m, err := c.loadFiles()
	if err == nil {
		m.wipe()
	}
	return err
}

func (c *Config) loadFiles() (*material, error) {
	m := &material{tls: &tls.Config{MinVersion: tls.VersionTLS13}}
	var problems []error
	if c.CAFile != "" {
		pool, err := identityfile.File{Key: "ca_file", Path: c.CAFile}.Pool()
		problems = append(problems, err)
		m.tls.RootCAs = pool
	}
	if c.CertFile != "" {
		pair, err := identityfile.KeyPair(
			identityfile.File{Key: "cert_file", Path: c.CertFile}, identityfile.File{Key: "key_file", Path: c.KeyFile})
		problems = append(problems, err)
		m.tls.Certificates = []tls.Certificate{pair}
	}
	switch {
	case c.CredsFile != "":
		problems = append(problems, m.readCreds(identityfile.File{Key: "creds_file", Path: c.CredsFile}))
	case c.NKeySeedFile != "":
		problems = append(problems, m.readSeed(identityfile.File{Key: "nkey_seed_file", Path: c.NKeySeedFile}))
	}
	if err := errors.Join(problems...); err != nil {
		m.wipe()
		return nil, err
	}
	return m, nil
}

// wipe overwrites the private seed. The certificate's key stays in memory while its connection lives.
func (m *material) wipe() {
	if m.signer != nil {
		m.signer.Wipe()
	}
}

// identity is the option that answers the server's challenge, nil when the identity is the certificate or nothing.
func (m *material) identity() nats.Option {
	switch {
	case m.jwt != "":
		return nats.UserJWT(func() (string, error) { return m.jwt, nil }, m.signer.Sign)
	case m.signer != nil:
		return nats.Nkey(m.public, m.signer.Sign)
	default:
		return nil
	}
}

// readCreds takes the user JWT and the seed from a credentials file. The parser returns text without the usual
// frame unchanged, so its shape is checked here.
func (m *material) readCreds(f identityfile.File) error {
	content, err := f.Read(maxCredentials)
	if err != nil {
		return err
	}
	defer clear(content)
	token, err := nkeys.ParseDecoratedJWT(content)
	if err != nil || strings.Count(token, ".") != 2 || strings.ContainsAny(token, " \n\t") {
		return fmt.Errorf("%s: %s holds no user JWT: want a NATS credentials file", f.Key, f.Path)
	}
	m.jwt = token
	if m.signer, err = nkeys.ParseDecoratedUserNKey(content); err != nil {
		return fmt.Errorf("%s: %s holds no user NKEY seed: %w", f.Key, f.Path, err)
	}
	return nil
}

func (m *material) readSeed(f identityfile.File) error {
	content, err := f.Read(maxCredentials)
	if err != nil {
		return err
	}
	defer clear(content)
	if m.signer, err = nkeys.ParseDecoratedUserNKey(content); err != nil {
		return fmt.Errorf("%s: %s holds no user NKEY seed (SU…): %w", f.Key, f.Path, err)
	}
	if m.public, err = m.signer.PublicKey(); err != nil {
		return fmt.Errorf("%s: %s: derive the public key: %w", f.Key, f.Path, err)
	}
	return nil
}
