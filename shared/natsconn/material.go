package natsconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// maxCredentials bounds a credentials or seed file, bytes.
const maxCredentials = 64 << 10

// material is what the identity and TLS files held at one reading. It serves one round of connection attempts.
type material struct {
	tls    *tls.Config
	jwt    secret.Value
	seed   secret.Value
	public string // the NKEY that belongs to seed
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
		pool, err := pemfile.File{Key: "ca_file", Path: c.CAFile}.Pool()
		problems = append(problems, err)
		m.tls.RootCAs = pool
	}
	if c.CertFile != "" {
		pair, err := pemfile.KeyPair(
			pemfile.File{Key: "cert_file", Path: c.CertFile}, pemfile.File{Key: "key_file", Path: c.KeyFile})
		problems = append(problems, err)
		m.tls.Certificates = []tls.Certificate{pair}
	}
	switch {
	case c.CredsFile != "":
		problems = append(problems, m.readCreds(pemfile.File{Key: "creds_file", Path: c.CredsFile}))
	case c.NKeySeedFile != "":
		problems = append(problems, m.readSeed(pemfile.File{Key: "nkey_seed_file", Path: c.NKeySeedFile}))
	}
	if err := errors.Join(problems...); err != nil {
		m.wipe()
		return nil, err
	}
	return m, nil
}

// wipe overwrites the private seed and the JWT. The certificate's key stays in memory while its connection lives.
func (m *material) wipe() {
	m.seed.Wipe()
	m.jwt.Wipe()
}

// identity is the option that answers the server's challenge, nil when the identity is the certificate or nothing.
func (m *material) identity() nats.Option {
	switch {
	case !m.jwt.IsZero():
		return nats.UserJWT(m.token, m.sign)
	case !m.seed.IsZero():
		return nats.Nkey(m.public, m.sign)
	default:
		return nil
	}
}

// token exposes the JWT because the protocol sends it as it is.
func (m *material) token() (string, error) {
	token := m.jwt.Expose()
	defer clear(token)
	return string(token), nil
}

// sign exposes the seed for as long as the key that it makes is needed.
func (m *material) sign(nonce []byte) ([]byte, error) {
	seed := m.seed.Expose()
	defer clear(seed)
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("sign the server's challenge: %w", err)
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}

// readCreds takes the user JWT and the seed from a credentials file. The parser returns text without the usual
// frame unchanged, so its shape is checked here.
func (m *material) readCreds(f pemfile.File) error {
	content, err := f.Read(maxCredentials)
	if err != nil {
		return err
	}
	defer clear(content)
	token, err := nkeys.ParseDecoratedJWT(content)
	if err != nil || strings.Count(token, ".") != 2 || strings.ContainsAny(token, " \n\t") {
		return fmt.Errorf("%s holds no user JWT: want a NATS credentials file", f)
	}
	m.jwt = secret.New([]byte(token))
	return m.takeSeed(f, content)
}

func (m *material) readSeed(f pemfile.File) error {
	content, err := f.Read(maxCredentials)
	if err != nil {
		return err
	}
	defer clear(content)
	return m.takeSeed(f, content)
}

// takeSeed finds the seed in the content of f.
func (m *material) takeSeed(f pemfile.File, content []byte) error {
	pair, err := nkeys.ParseDecoratedUserNKey(content)
	if err != nil {
		return fmt.Errorf("%s holds no user NKEY seed (SU…): %w", f, err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err == nil {
		m.seed = secret.New(seed)
		m.public, err = pair.PublicKey()
	}
	if err != nil {
		return fmt.Errorf("%s: derive the public key: %w", f, err)
	}
	return nil
}
