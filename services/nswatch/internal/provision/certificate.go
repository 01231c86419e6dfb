package provision

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

const (
	// authorityLife is long, since to replace an authority all certificates are replaced.
	authorityLife = 10 * 365 * 24 * time.Hour
	// certificateLife is three months: with a run each week there are four in the last third of it.
	certificateLife = 90 * 24 * time.Hour
	// clockSlack is how far the clocks of those who look at a certificate may be behind.
	clockSlack = 5 * time.Minute
	// keyCA is where a certificate's Secret has its authority, as cert-manager has it.
	keyCA = "ca.crt"
	// keyTrust is where an authority's Secret has, while one is replaced by another, the certificates of those that are to be trusted too.
	keyTrust = "trust.crt"
)

// names are what a certificate is for.
type names struct {
	uri string   // one, or none
	dns []string // any number
}

// authority vouches for certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// trusted is what everybody gets as ca.crt: its own certificate, and those of keyTrust.
	trusted []byte
}

// newPair makes a key and the certificate of it, which parent signs; without a parent it signs itself.
func newPair(form *x509.Certificate, parent *authority) (certificatePEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if form.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	issuer, signer := form, key
	if parent != nil {
		issuer, signer = parent.certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, issuer, key.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	defer clear(secret)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

func newAuthority(name string, now time.Time) (map[string][]byte, error) {
	certificate, key, err := newPair(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSlack), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
	return map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}, err
}

// readAuthority reads what newAuthority made. The error holds nothing of the content.
func readAuthority(content map[string][]byte, now time.Time) (*authority, error) {
	pair, err := tls.X509KeyPair(content[corev1.TLSCertKey], content[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, errors.New("its tls.crt and tls.key are no certificate with its key")
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	switch {
	case !ok || !pair.Leaf.IsCA:
		return nil, errors.New("it is no authority that this command made")
	case now.Add(certificateLife).After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("it ends at %s, sooner than what it would sign; docs/certificates.md has how to replace it", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	trusted := content[corev1.TLSCertKey]
	if more := content[keyTrust]; len(more) > 0 {
		others, err := pemfile.Certificates(more)
		if err != nil || slices.ContainsFunc(others, func(c *x509.Certificate) bool { return !c.IsCA }) {
			return nil, fmt.Errorf("its %s are no certificates of authorities", keyTrust)
		}
		trusted = slices.Concat(bytes.TrimRight(trusted, "\n"), []byte("\n"), more)
	}
	return &authority{certificate: pair.Leaf, key: key, trusted: trusted}, nil
}

// issue makes a certificate that is good for both ends of a connection.
func (a *authority) issue(n names, now time.Time) (map[string][]byte, error) {
	form := &x509.Certificate{
		NotBefore: now.Add(-clockSlack), NotAfter: now.Add(certificateLife), DNSNames: n.dns,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if n.uri != "" {
		uri, err := url.Parse(n.uri)
		if err != nil {
			return nil, fmt.Errorf("the name %q: %w", n.uri, err)
		}
		form.URIs = []*url.URL{uri}
	}
	certificate, key, err := newPair(form, a)
	return map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, keyCA: a.trusted}, err
}

// good reports whether what is there serves: for these names, of this authority, and for a while yet.
func (a *authority) good(content map[string][]byte, n names, now time.Time) bool {
	pair, err := tls.X509KeyPair(content[corev1.TLSCertKey], content[corev1.TLSPrivateKeyKey])
	if err != nil || !bytes.Equal(content[keyCA], a.trusted) || pair.Leaf.CheckSignatureFrom(a.certificate) != nil {
		return false
	}
	var uris []string
	for _, uri := range pair.Leaf.URIs {
		uris = append(uris, uri.String())
	}
	var want []string
	if n.uri != "" {
		want = []string{n.uri}
	}
	return slices.Equal(uris, want) && slices.Equal(pair.Leaf.DNSNames, n.dns) &&
		!now.Before(pair.Leaf.NotBefore) && now.Add(certificateLife/3).Before(pair.Leaf.NotAfter)
}
