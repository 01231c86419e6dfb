//go:build portcullis_long

package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"
)

// gatewayName is by which supervisors know the gateway, of grpc_endpoint.
const gatewayName = "openshell.portcullis.svc"

// clientSecret is what supervisors believe the gateway by: the gateway has a certificate of an authority of its operator's own.
const clientSecret = `
apiVersion: v1
kind: Secret
metadata: {name: openshell-client-tls, namespace: openshell}
data: {ca.crt: %[1]s, tls.crt: %[1]s, tls.key: %[2]s}
`

// sourcePart is the component with which supervisorctl may get it; without it an operator makes sourceRights by himself.
const sourcePart = "gateway-sidecar/source"

// sourceRights let supervisorctl get it, in the namespace of the stock settings, by its name (docs/supervisorctl.md).
const sourceRights = `
apiVersion: v1
kind: Namespace
metadata: {name: openshell}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: supervisorctl-sources, namespace: openshell}
rules:
  - {apiGroups: [""], resources: [secrets], resourceNames: [openshell-client-tls], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: supervisorctl-sources, namespace: openshell}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: supervisorctl-sources}
subjects: [{kind: ServiceAccount, name: supervisorctl, namespace: portcullis}]
`

// gatewaySecret is the gateway's own certificate.
const gatewaySecret = `
apiVersion: v1
kind: Secret
metadata: {name: openshell-tls, namespace: portcullis}
type: kubernetes.io/tls
data: {tls.crt: %[1]s, tls.key: %[2]s}
`

// gatewayCertificate makes the gateway's certificate, which is its own authority, and returns the manifests with it.
func gatewayCertificate(t testing.TB, manifests string) (certificate *x509.Certificate, secrets string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"}, DNSNames: []string{gatewayName},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	noError(t, err)
	certificate, err = x509.ParseCertificate(der)
	noError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	noError(t, err)
	encoded := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return certificate, fmt.Sprintf(manifests, encoded("CERTIFICATE", der), encoded("PRIVATE KEY", private))
}

// pemOf is a certificate as a file has it.
func pemOf(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}
