package pemfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const (
	certificateType  = "CERTIFICATE"
	certificateBegin = "-----BEGIN " + certificateType + "-----"
	keyType          = "PRIVATE KEY"
)

// Certificates returns every certificate of a PEM text, in order and at least one. One that is cut off, mangled, or
// has headers (which the standard library skips) spoils the text; blocks of other types are passed over.
func Certificates(text []byte) ([]*x509.Certificate, error) {
	announced := bytes.Count(text, []byte(certificateBegin))
	var found []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateType {
			continue
		}
		if len(block.Headers) > 0 {
			return nil, fmt.Errorf("certificate %d has PEM headers, which are not allowed", len(found)+1)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, OneLine(fmt.Errorf("certificate %d does not parse: %w", len(found)+1, err))
		}
		found = append(found, cert)
	}
	switch {
	case len(found) != announced:
		return nil, fmt.Errorf("%d of %d PEM certificates are cut off or mangled", announced-len(found), announced)
	case len(found) == 0:
		return nil, errors.New("it holds no PEM certificate")
	}
	return found, nil
}

// ParsePool returns the certificates of a PEM text as Certificates judges them.
func ParsePool(text []byte) (*x509.CertPool, error) {
	found, err := Certificates(text)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, cert := range found {
		pool.AddCert(cert)
	}
	return pool, nil
}

// ParseKeyPair returns a certificate with its chain and its unencrypted key, when all are sound and belong together.
func ParseKeyPair(certPEM, keyPEM []byte) (tls.Certificate, error) {
	if _, err := Certificates(certPEM); err != nil {
		return tls.Certificate{}, err
	}
	// Asked first, because the standard library's error lists the types of the blocks that it found instead.
	if !holdsKey(keyPEM) {
		return tls.Certificate{}, errors.New("the key is no PEM private key")
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, OneLine(err)
	}
	return pair, nil
}

func holdsKey(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		clear(block.Bytes)
		if block.Type == keyType || strings.HasSuffix(block.Type, " "+keyType) {
			return true
		}
	}
	return false
}
