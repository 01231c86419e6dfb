package meshtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// lifetime covers a test run on either side of now.
const lifetime = 24 * time.Hour

// CA is a certificate authority with a key of its own.
type CA struct {
	// PEM is the authority's certificate.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its key, in PEM.
type Pair struct {
	Cert, Key []byte
}

// TLS returns the pair for a hand-made tls.Config.
func (p Pair) TLS(tb testing.TB) tls.Certificate {
	tb.Helper()
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		tb.Fatalf("load test certificate: %v", err)
	}
	return pair
}

// Change makes one thing about a certificate wrong, or at least different.
type Change func(*x509.Certificate)

// URIs replaces the identity by these URI names; without arguments there is none.
func URIs(uris ...string) Change {
	return func(c *x509.Certificate) {
		c.URIs = nil
		for _, raw := range uris {
			u, err := url.Parse(raw)
			if err != nil {
				panic("meshtest: " + err.Error())
			}
			c.URIs = append(c.URIs, u)
		}
	}
}

// Expired makes the certificate end an hour ago.
func Expired() Change {
	return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }
}

// NotYetValid makes the certificate begin in an hour.
func NotYetValid() Change {
	return func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }
}

// Usages replaces the extended key usages, which are server and client
// authentication.
func Usages(usages ...x509.ExtKeyUsage) Change {
	return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
}

// Authority makes the certificate one that may sign others.
func Authority() Change {
	return func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid = true, true
		c.KeyUsage |= x509.KeyUsageCertSign
	}
}

// DNSNames adds DNS names, which the mesh ignores.
func DNSNames(names ...string) Change {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

// NewCA makes an authority. No two authorities trust each other.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	key := newKey(tb)
	template := newTemplate(tb, "mesh test authority")
	Authority()(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatalf("make test authority: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatalf("read back test authority: %v", err)
	}
	return &CA{PEM: encode("CERTIFICATE", der), cert: cert, key: key}
}

// Pool trusts this authority only.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// Issue makes a certificate for the daemon of that name, with a fresh key:
// spiffe://portcullis/<daemon>, valid now, for both ends of a connection.
func (ca *CA) Issue(tb testing.TB, daemon string, changes ...Change) Pair {
	tb.Helper()
	key := newKey(tb)
	template := newTemplate(tb, daemon)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	URIs("spiffe://portcullis/" + daemon)(template)
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		tb.Fatalf("issue test certificate for %q: %v", daemon, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatalf("encode test key: %v", err)
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}
}

func newTemplate(tb testing.TB, name string) *x509.Certificate {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		tb.Fatalf("draw serial number: %v", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-lifetime),
		NotAfter:     now.Add(lifetime),
	}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("make test key: %v", err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
