package materialtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Pair is a certificate and its key, as PEM.
type Pair struct{ Certificate, Key []byte }

// authority is a session CA (contract 7.8).
type authority struct {
	parsed      *x509.Certificate
	key         ed25519.PrivateKey
	certificate []byte
}

// valid is when certificates are: always, as far as anybody's clock goes.
func valid(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC)
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "OpenShell sandbox session CA"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	valid(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	must(t, err)
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	return authority{parsed: parsed, key: private, certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// LeafFor makes a leaf of the session CA for another name than the right one, or the same.
func (m *Material) LeafFor(t testing.TB, name string) Pair {
	t.Helper()
	return m.ca.leaf(t, name)
}

// ForeignLeaf makes a leaf with the right name of a CA that nobody trusts.
func ForeignLeaf(t testing.TB) Pair {
	t.Helper()
	return newAuthority(t).leaf(t, ServerName())
}

// ForeignCA returns the certificate of a CA that signed nothing here.
func ForeignCA(t testing.TB) string {
	t.Helper()
	return string(newAuthority(t).certificate)
}

func (a authority) leaf(t testing.TB, name string) Pair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "OpenShell sandbox runtime"}, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	valid(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, public, a.key)
	must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}
}
