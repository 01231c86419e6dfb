package material

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// certificate is a template of one that is valid from 1975 to 4096 (contract 7.8): no clock decides about it.
func certificate(serial *big.Int, subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// serving is how the boundary proves to the supervisor that it is the one of this generation.
type serving struct {
	name        string
	trustAnchor string
	certificate string
	key         secret.Value
}

// serverName is the one name of the leaf.
func serverName(sessionID string) string { return "sandbox." + sessionID + ".openshell.internal" }

// authority is a template of a self-signed CA.
func authority(serial *big.Int, subject pkix.Name) *x509.Certificate {
	c := certificate(serial, subject)
	c.BasicConstraintsValid, c.IsCA = true, true
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return c
}

// newServing makes a session CA, signs one leaf with it and wipes the CA's key: nobody can make a second leaf.
func (s *source) newServing(sessionID string) (serving, error) {
	caKey, err := s.ed25519Key()
	if err != nil {
		return serving{}, err
	}
	defer clear(caKey)
	caSerial, err := s.serial()
	if err != nil {
		return serving{}, err
	}
	leafKey, err := s.ed25519Key()
	if err != nil {
		return serving{}, err
	}
	defer clear(leafKey)
	leafSerial, err := s.serial()
	if err != nil {
		return serving{}, err
	}
	out := serving{name: serverName(sessionID)}
	template := authority(caSerial, pkix.Name{CommonName: "OpenShell sandbox session CA"})
	ca, text, err := sign(template, template, caKey.Public(), caKey)
	if err != nil {
		return serving{}, err
	}
	out.trustAnchor = text
	leaf := certificate(leafSerial, pkix.Name{CommonName: "OpenShell sandbox runtime"})
	leaf.DNSNames = []string{out.name}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, out.certificate, err = sign(leaf, ca, leafKey.Public(), caKey); err != nil {
		return serving{}, err
	}
	out.key, err = keyPEM(leafKey)
	return out, err
}

// newProxyCA makes the CA by which the supervisor intercepts TLS. Its key goes to the supervisor, which signs with it.
func (s *source) newProxyCA() (text string, key secret.Value, err error) {
	private, err := s.p256Key()
	if err != nil {
		return "", secret.Value{}, err
	}
	defer wipeP256(private)
	serial, err := s.serial()
	if err != nil {
		return "", secret.Value{}, err
	}
	template := authority(serial, pkix.Name{CommonName: "OpenShell Sandbox CA", Organization: []string{"OpenShell"}})
	if _, text, err = sign(template, template, private.Public(), private); err != nil {
		return "", secret.Value{}, err
	}
	key, err = keyPEM(private)
	return text, key, err
}
