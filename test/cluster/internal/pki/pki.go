package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is longer than any cluster stands: nobody renews its certificates.
const validity = 365 * 24 * time.Hour

// Authority signs the leaves of one cluster.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Pair names a certificate and its key by file.
type Pair struct{ Cert, Key string }

// NewAuthority makes an authority and writes ca.crt and ca.key below dir.
func NewAuthority(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the certificate directory: %w", err)
	}
	tmpl, err := template("portcullis-test-cluster")
	if err != nil {
		return nil, err
	}
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, cert: cert, key: key}
	_, err = write(dir, "ca", der, key)
	return a, err
}

// File returns the path of the authority's certificate.
func (a *Authority) File() string { return filepath.Join(a.dir, "ca.crt") }

// Pair returns the authority's own files, for the controller that signs requests in the cluster.
func (a *Authority) Pair() Pair {
	return Pair{Cert: a.File(), Key: filepath.Join(a.dir, "ca.key")}
}

// Serving issues a server certificate for hosts, which may be names or addresses.
func (a *Authority) Serving(name string, hosts ...string) (Pair, error) {
	tmpl, err := template(name)
	if err != nil {
		return Pair{}, err
	}
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	return a.issue(name, tmpl)
}

// Client issues a client certificate: Kubernetes reads the user from the common name and the groups
// from the organisations.
func (a *Authority) Client(file, user string, groups ...string) (Pair, error) {
	tmpl, err := template(user)
	if err != nil {
		return Pair{}, err
	}
	tmpl.Subject.Organization = groups
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(file, tmpl)
}

func (a *Authority) issue(file string, tmpl *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign %s: %w", file, err)
	}
	return write(a.dir, file, der, key)
}

// SigningKey writes the key pair that signs ServiceAccount tokens and returns its two files.
func SigningKey(dir string) (private, public string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	private, public = filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")
	if err := writeKey(private, key); err != nil {
		return "", "", err
	}
	return private, public, writePEM(public, "PUBLIC KEY", der)
}

func template(cn string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: cn},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

func write(dir, name string, der []byte, key crypto.Signer) (Pair, error) {
	p := Pair{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
	if err := writePEM(p.Cert, "CERTIFICATE", der); err != nil {
		return Pair{}, err
	}
	return p, writeKey(p.Key, key)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
