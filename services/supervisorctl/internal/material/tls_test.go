package material_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
)

// parts are the certificates and keys of one generation, as their readers see them.
type parts struct {
	anchorPEM      string
	name           string
	ca, leaf       *x509.Certificate
	serving        tls.Certificate
	proxyCA        *x509.Certificate
	proxyKey       *ecdsa.PrivateKey
	leafKey        ed25519.PrivateKey
	pool           *x509.CertPool
	sandbox, super map[string]string
}

func partsOf(t *testing.T, m *material.Material) parts {
	t.Helper()
	p := parts{sandbox: texts(m.Sandbox), super: texts(m.Supervisor)}
	var d struct {
		TLS struct {
			Name   string `json:"server_name"`
			Anchor string `json:"trust_anchor_pem"`
		} `json:"tls"`
	}
	if err := json.Unmarshal([]byte(p.super[material.FileDescriptor]), &d); err != nil {
		t.Fatal(err)
	}
	p.name, p.anchorPEM = d.TLS.Name, d.TLS.Anchor
	p.ca, p.leaf = certificate(t, d.TLS.Anchor), certificate(t, p.sandbox[material.FileCertificate])
	p.proxyCA = certificate(t, p.super[material.FileProxyCA])
	var err error
	if p.serving, err = tls.X509KeyPair([]byte(p.sandbox[material.FileCertificate]), []byte(p.sandbox[material.FileKey])); err != nil {
		t.Fatal(err)
	}
	p.leafKey = p.serving.PrivateKey.(ed25519.PrivateKey)
	p.proxyKey = privateKey(t, p.super[material.FileProxyCAKey]).(*ecdsa.PrivateKey)
	p.pool = x509.NewCertPool()
	p.pool.AddCert(p.ca)
	return p
}

// block is the only PEM block of a text.
func block(t *testing.T, text, kind string) []byte {
	t.Helper()
	b, rest := pem.Decode([]byte(text))
	if b == nil || b.Type != kind || len(rest) > 0 || !strings.HasPrefix(text, "-----BEGIN ") {
		t.Fatalf("not one block %s: %q", kind, text)
	}
	return b.Bytes
}

func certificate(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(block(t, text, "CERTIFICATE"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func privateKey(t *testing.T, text string) any {
	t.Helper()
	key, err := x509.ParsePKCS8PrivateKey(block(t, text, "PRIVATE KEY"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCertificates(t *testing.T) {
	p := partsOf(t, produce(t, valid(t), rand.Reader))
	for name, c := range map[string]*x509.Certificate{"CN=OpenShell sandbox session CA": p.ca, "CN=OpenShell Sandbox CA,O=OpenShell": p.proxyCA} {
		if c.Subject.String() != name || c.Issuer.String() != name || !c.IsCA || !c.BasicConstraintsValid || c.MaxPathLen != -1 ||
			c.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || len(c.ExtKeyUsage)+len(c.DNSNames) != 0 {
			t.Errorf("%s: %+v", name, c)
		}
		if err := c.CheckSignatureFrom(c); err != nil {
			t.Errorf("%s does not sign itself: %v", name, err)
		}
	}
	l := p.leaf
	if l.Subject.String() != "CN=OpenShell sandbox runtime" || l.Issuer.String() != "CN=OpenShell sandbox session CA" || l.IsCA ||
		!slices.Equal(l.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || len(l.UnknownExtKeyUsage) != 0 {
		t.Errorf("leaf: %+v", l)
	}
	if !slices.Equal(l.DNSNames, []string{serverName}) || len(l.IPAddresses)+len(l.EmailAddresses)+len(l.URIs) != 0 || p.name != serverName {
		t.Errorf("leaf is for %v %v %v %v, descriptor says %q", l.DNSNames, l.IPAddresses, l.EmailAddresses, l.URIs, p.name)
	}
	for name, c := range map[string]*x509.Certificate{"session CA": p.ca, "leaf": l, "proxy CA": p.proxyCA} {
		if !c.NotBefore.Equal(time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC)) || !c.NotAfter.Equal(time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: valid from %v to %v", name, c.NotBefore, c.NotAfter)
		}
		if c.Version != 3 || c.SerialNumber.Sign() != 1 || c.SerialNumber.BitLen() > 127 || c.SerialNumber.BitLen() < 100 {
			t.Errorf("%s: version %d, serial %v", name, c.Version, c.SerialNumber)
		}
	}
	if p.ca.PublicKeyAlgorithm != x509.Ed25519 || l.PublicKeyAlgorithm != x509.Ed25519 || p.proxyCA.PublicKeyAlgorithm != x509.ECDSA ||
		p.proxyKey.Curve != elliptic.P256() || !p.proxyKey.PublicKey.Equal(p.proxyCA.PublicKey) {
		t.Error("another kind of key")
	}
}

func TestLeafIsForOneNameAndUse(t *testing.T) {
	p, other := partsOf(t, produce(t, valid(t), rand.Reader)), partsOf(t, produce(t, valid(t), rand.Reader))
	proxy := x509.NewCertPool()
	proxy.AddCert(p.proxyCA)
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, c := range []struct {
		name string
		o    x509.VerifyOptions
		good bool
	}{
		{"as meant", x509.VerifyOptions{DNSName: serverName, Roots: p.pool, KeyUsages: server}, true},
		{"on the first day", x509.VerifyOptions{DNSName: serverName, Roots: p.pool, CurrentTime: time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC)}, true},
		{"in two thousand years", x509.VerifyOptions{DNSName: serverName, Roots: p.pool, CurrentTime: time.Date(4095, 12, 31, 0, 0, 0, 0, time.UTC)}, true},
		{"another session", x509.VerifyOptions{DNSName: strings.Replace(serverName, "3f", "4f", 1), Roots: p.pool}, false},
		{"a name below", x509.VerifyOptions{DNSName: "a." + serverName, Roots: p.pool}, false},
		{"the parent", x509.VerifyOptions{DNSName: "openshell.internal", Roots: p.pool}, false},
		{"the Service", x509.VerifyOptions{DNSName: "os-boundary-x.team-a.svc", Roots: p.pool}, false},
		{"the common name", x509.VerifyOptions{DNSName: "OpenShell sandbox runtime", Roots: p.pool}, false},
		{"the address", x509.VerifyOptions{DNSName: "10.96.12.7", Roots: p.pool}, false},
		{"CA of another generation", x509.VerifyOptions{DNSName: serverName, Roots: other.pool}, false},
		{"proxy CA", x509.VerifyOptions{DNSName: serverName, Roots: proxy}, false},
		{"no CA", x509.VerifyOptions{DNSName: serverName, Roots: x509.NewCertPool()}, false},
		{"as a client", x509.VerifyOptions{DNSName: serverName, Roots: p.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, false},
		{"for code", x509.VerifyOptions{DNSName: serverName, Roots: p.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}, false},
	} {
		if _, err := p.leaf.Verify(c.o); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// shake is a handshake over a real socket, as the boundary serves and the supervisor dials; then the supervisor reads a word.
// A pipe would not do: a client that refuses writes its alert while the server still writes, and neither would read.
func shake(t *testing.T, server tls.Certificate, roots *x509.CertPool, name string) (tls.ConnectionState, error) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}).Write([]byte("word"))
			_ = c.Close()
		}
		done <- err
	}()
	raw, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		_ = l.Close()
		<-done
		t.Fatal(err)
	}
	c := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}})
	_, err = io.ReadFull(c, make([]byte, 4))
	_ = raw.Close()
	served := <-done
	_ = l.Close()
	if err == nil {
		err = served
	}
	return c.ConnectionState(), err
}

func TestHandshake(t *testing.T) {
	p, other := partsOf(t, produce(t, valid(t), rand.Reader)), partsOf(t, produce(t, valid(t), rand.Reader))
	state, err := shake(t, p.serving, p.pool, p.name)
	if err != nil || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" || len(state.VerifiedChains) != 1 {
		t.Errorf("%v, %+v", err, state)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := shake(t, other.serving, p.pool, p.name); !errors.As(err, &unknown) {
		t.Errorf("another generation's leaf: %v", err)
	}
	var name x509.HostnameError
	if _, err := shake(t, p.serving, p.pool, "os-boundary-x.team-a.svc"); !errors.As(err, &name) {
		t.Errorf("another name: %v", err)
	}
}

// The supervisor can sign with the proxy CA, and what it signs says nothing to the boundary's readers.
func TestProxyCASigns(t *testing.T) {
	p := partsOf(t, produce(t, valid(t), rand.Reader))
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), DNSNames: []string{serverName},
	}, p.proxyCA, public, p.proxyKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.proxyCA)
	leaf := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
	if _, err := shake(t, leaf, roots, serverName); err != nil {
		t.Error(err)
	}
	if _, err := shake(t, leaf, p.pool, serverName); err == nil {
		t.Error("the proxy CA speaks for the boundary")
	}
}
