package meshrpc

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// maxFileBytes bounds a certificate, key or CA file. The largest sensible bundle is a
// fraction of it.
const maxFileBytes = 1 << 20

// material is one complete, checked set of what proves our identity and whom we
// trust.
type material struct {
	chain tls.Certificate
	leaf  *x509.Certificate
	roots *x509.CertPool
}

// same reports whether both sets would behave alike.
func (m *material) same(chain tls.Certificate, roots *x509.CertPool) bool {
	if roots == nil || len(chain.Certificate) != len(m.chain.Certificate) {
		return false
	}
	for i := range chain.Certificate {
		if !bytes.Equal(chain.Certificate[i], m.chain.Certificate[i]) {
			return false
		}
	}
	return roots.Equal(m.roots)
}

// load reads the three files and returns them only when a peer with the same ca_file
// would accept them at the instant now, at either end of a connection, as this daemon.
// Errors name the setting and the file and quote no key.
func load(cfg Config, daemon string, now time.Time) (*material, error) {
	certPEM, err := readFile("cert_file", cfg.CertFile)
	if err != nil {
		return nil, err
	}
	chain, err := parseCertificates("cert_file", cfg.CertFile, certPEM)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readFile("key_file", cfg.KeyFile)
	if err != nil {
		return nil, err
	}
	defer clear(keyPEM)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("key_file %q does not serve with cert_file %q: %w", cfg.KeyFile, cfg.CertFile, err)
	}
	caPEM, err := readFile("ca_file", cfg.CAFile)
	if err != nil {
		return nil, err
	}
	authorities, err := parseCertificates("ca_file", cfg.CAFile, caPEM)
	if err != nil {
		return nil, err
	}
	m := &material{chain: pair, leaf: chain[0], roots: x509.NewCertPool()}
	for i, ca := range authorities {
		if !ca.IsCA {
			return nil, fmt.Errorf("ca_file %q: certificate %d (%s) is not one of an authority", cfg.CAFile, i+1, ca.Subject)
		}
		m.roots.AddCert(ca)
	}
	if err := m.check(cfg, daemon, chain[1:], now); err != nil {
		return nil, err
	}
	return m, nil
}

// check judges our own certificate as a peer would.
func (m *material) check(cfg Config, daemon string, intermediates []*x509.Certificate, now time.Time) error {
	if err := validAt(m.leaf, now); err != nil {
		return fmt.Errorf("cert_file %q: %w", cfg.CertFile, err)
	}
	caller, no := identify(m.leaf)
	if no != nil {
		return fmt.Errorf("cert_file %q: %w", cfg.CertFile, no)
	}
	if caller.name != daemon {
		return fmt.Errorf("cert_file %q: the certificate is that of %s, but this daemon is %s", cfg.CertFile, caller, daemon)
	}
	options := x509.VerifyOptions{Roots: m.roots, Intermediates: x509.NewCertPool(), CurrentTime: now}
	for _, c := range intermediates {
		options.Intermediates.AddCert(c)
	}
	for _, end := range []struct {
		name  string
		usage x509.ExtKeyUsage
	}{{"client", x509.ExtKeyUsageClientAuth}, {"server", x509.ExtKeyUsageServerAuth}} {
		options.KeyUsages = []x509.ExtKeyUsage{end.usage}
		if _, err := m.leaf.Verify(options); err != nil {
			return fmt.Errorf("cert_file %q: a peer that trusts ca_file %q would not accept it as a %s's: %w", cfg.CertFile, cfg.CAFile, end.name, err)
		}
	}
	return nil
}

func validAt(leaf *x509.Certificate, now time.Time) error {
	if now.Before(leaf.NotBefore) {
		return fmt.Errorf("the certificate is valid only from %s", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// readFile refuses everything but a regular file of moderate size: a named pipe would
// hang the daemon, hence O_NONBLOCK. Symlinks are followed, as Secret volumes consist of them.
func readFile(key, path string) ([]byte, error) {
	explain := func(err error) error {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return fmt.Errorf("%s %q: %w", key, path, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, explain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %q is not a regular file", key, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, explain(err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%s %q is larger than %d bytes", key, path, maxFileBytes)
	}
	return text, nil
}

// parseCertificates wants every certificate block whole. The standard library skips a
// block that is cut off or mangled, which would silently shorten a chain or a list of
// authorities.
func parseCertificates(key, path string, text []byte) ([]*x509.Certificate, error) {
	const begin = "-----BEGIN CERTIFICATE-----"
	announced := bytes.Count(text, []byte(begin))
	var found []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if len(block.Headers) > 0 {
			return nil, fmt.Errorf("%s %q: certificate %d has PEM headers, which are not allowed", key, path, len(found)+1)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s %q: certificate %d does not parse: %w", key, path, len(found)+1, err)
		}
		found = append(found, cert)
	}
	if len(found) != announced {
		return nil, fmt.Errorf("%s %q: %d of %d PEM certificates are cut off or mangled", key, path, announced-len(found), announced)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s %q holds no PEM certificate", key, path)
	}
	return found, nil
}
