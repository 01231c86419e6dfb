package meshrpc

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// maxFileBytes bounds a certificate, key or CA file.
const maxFileBytes = pemfile.Max

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
	certFile := pemfile.File{Key: "cert_file", Path: cfg.CertFile}
	keyFile := pemfile.File{Key: "key_file", Path: cfg.KeyFile}
	caFile := pemfile.File{Key: "ca_file", Path: cfg.CAFile}
	certPEM, err := certFile.Read(maxFileBytes)
	if err != nil {
		return nil, err
	}
	chain, err := pemfile.Certificates(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	keyPEM, err := keyFile.Read(maxFileBytes)
	if err != nil {
		return nil, err
	}
	defer clear(keyPEM)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s does not serve with %s: %w", keyFile, certFile, err)
	}
	caPEM, err := caFile.Read(maxFileBytes)
	if err != nil {
		return nil, err
	}
	authorities, err := pemfile.Certificates(caPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caFile, err)
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
