package identityfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxPEM bounds a certificate or key file, far above what any bundle needs.
const MaxPEM = 1 << 20

// File is a settings key and the path it holds.
type File struct {
	Key, Path string
}

// Read returns the content of a regular file, or of a link to one, of at most limit bytes. An empty file is an
// error.
func (f File) Read(limit int64) ([]byte, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Key, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %s is not a regular file", f.Key, f.Path)
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Key, err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.Key, err)
	case int64(len(content)) > limit:
		return nil, fmt.Errorf("%s: %s is larger than %d bytes", f.Key, f.Path, limit)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, fmt.Errorf("%s: %s is empty", f.Key, f.Path)
	}
	return content, nil
}

// Pool returns the certificates of a PEM bundle. One that is malformed spoils the bundle: a bundle that silently
// lost an authority would fail later and elsewhere.
func (f File) Pool() (*x509.CertPool, error) {
	content, err := f.Read(MaxPEM)
	if err != nil {
		return nil, err
	}
	pool, found := x509.NewCertPool(), 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: certificate %d is malformed: %w", f.Key, f.Path, found+1, err)
		}
		pool.AddCert(cert)
		found++
	}
	switch declared := bytes.Count(content, []byte("-----BEGIN CERTIFICATE-----")); {
	case found == 0:
		return nil, fmt.Errorf("%s: %s holds no PEM certificate", f.Key, f.Path)
	case found != declared:
		return nil, fmt.Errorf("%s: %s has %d certificates of which %d are malformed", f.Key, f.Path, declared, declared-found)
	}
	return pool, nil
}

// KeyPair returns a certificate with its key.
func KeyPair(cert, key File) (tls.Certificate, error) {
	certPEM, certErr := cert.Read(MaxPEM)
	keyPEM, keyErr := key.Read(MaxPEM)
	if err := errors.Join(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	defer clear(keyPEM)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s and %s: %s with %s: %w", cert.Key, key.Key, cert.Path, key.Path, err)
	}
	return pair, nil
}
