package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// lifetime covers any test run on either side of now, with room for a host whose clock is a little off.
const lifetime = 24 * time.Hour

// CA is a certificate authority that lives as long as the test.
type CA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority with the given common name. Two authorities never share a key, whatever their names.
func New(t testing.TB, commonName string) *CA {
	t.Helper()
	key := newKey(t)
	tmpl := template(t, commonName)
	tmpl.IsCA = true
	tmpl.BasicConstraintsValid = true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatalf("make authority %q: %v", commonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("parse authority %q: %v", commonName, err)
	}
	return &CA{t: t, cert: cert, key: key}
}

// PEM is the authority's certificate.
func (ca *CA) PEM() []byte { return pemBlock("CERTIFICATE", ca.cert.Raw) }

// Pool holds only this authority.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// IssuePEM makes a certificate for servers and clients alike, with the common name given.
func (ca *CA) IssuePEM(commonName string) (certPEM, keyPEM []byte) {
	ca.t.Helper()
	key := newKey(ca.t)
	tmpl := template(ca.t, commonName)
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	tmpl.DNSNames = []string{"localhost"}
	tmpl.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, key.Public(), ca.key)
	if err != nil {
		ca.t.Fatalf("issue certificate %q: %v", commonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatalf("encode key of %q: %v", commonName, err)
	}
	return pemBlock("CERTIFICATE", der), pemBlock("PRIVATE KEY", keyDER)
}

// Keypair is IssuePEM for a tls.Config.
func (ca *CA) Keypair(commonName string) tls.Certificate {
	ca.t.Helper()
	certPEM, keyPEM := ca.IssuePEM(commonName)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		ca.t.Fatalf("load certificate %q: %v", commonName, err)
	}
	return pair
}

// Files are the paths of what one Issue wrote.
type Files struct {
	CA, Cert, Key string
}

// Issue writes ca.crt, tls.crt and tls.key into dir (the names of a kubernetes.io/tls Secret), replacing what is
// there.
func (ca *CA) Issue(dir, commonName string) Files {
	ca.t.Helper()
	certPEM, keyPEM := ca.IssuePEM(commonName)
	f := Files{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	Replace(ca.t, f.CA, ca.PEM())
	Replace(ca.t, f.Cert, certPEM)
	Replace(ca.t, f.Key, keyPEM)
	return f
}

// Replace writes a file with mode 0600 so that a reader sees all of the old content or all of the new.
func Replace(t testing.TB, path string, content []byte) {
	t.Helper()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		t.Fatalf("write %s: %v", tmp, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatalf("replace %s: %v", path, err)
	}
}

func template(t testing.TB, commonName string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatalf("draw serial number: %v", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-lifetime),
		NotAfter:     now.Add(lifetime),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return key
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
