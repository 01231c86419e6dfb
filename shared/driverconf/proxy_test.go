package driverconf_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// anchor returns a self-signed CA certificate and its key as PEM.
func anchor(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestReadProxyCABundle(t *testing.T) {
	certificate, key := anchor(t)
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("not DER")})
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	padding := func(n int) []byte { return append(bytes.Repeat([]byte("#"), n-1), '\n') }
	tests := []struct {
		name   string
		bundle []byte
		want   string // "" when it is accepted
	}{
		{"one anchor", certificate, ""},
		{"anchor beside a broken one", join(broken, certificate), ""},
		{"text around it", join([]byte("# our proxy\n"), certificate), ""},
		{"largest", join(certificate, padding(driverconf.MaxProxyCABundleBytes-len(certificate))), ""},
		{"empty", []byte{}, "has no PEM certificate"},
		{"no PEM", []byte("hello"), "has no PEM certificate"},
		{"only broken", broken, "has no PEM certificate"},
		{"private key", join(certificate, key), "holds a private key"},
		{"too large", join(certificate, padding(driverconf.MaxProxyCABundleBytes-len(certificate)+1)), "is larger than 262144 bytes"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(path, tc.bundle, 0o600); err != nil {
				t.Fatal(err)
			}
			// Load itself does not read it, so that an offline check needs no cluster files.
			c := mustLoad(t, driverconf.Source{Flags: flags(t, "--proxy-ca-bundle="+path)})
			got, err := c.Kubernetes.ReadProxyCABundle()
			switch {
			case tc.want == "" && (err != nil || !bytes.Equal(got, tc.bundle)):
				t.Errorf("got %d bytes and %v, want the file", len(got), err)
			case tc.want != "" && (err == nil || got != nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %d bytes and %v, want an error with %q", len(got), err, tc.want)
			case err != nil && !strings.HasPrefix(err.Error(), stock+"proxy_ca_bundle: file "):
				t.Errorf("the error does not name key and file: %v", err)
			}
		})
	}
	t.Run("not set", func(t *testing.T) {
		got, err := mustLoad(t, driverconf.Source{}).Kubernetes.ReadProxyCABundle()
		if got != nil || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("absent", func(t *testing.T) {
		c := mustLoad(t, driverconf.Source{Flags: flags(t, "--proxy-ca-bundle="+filepath.Join(t.TempDir(), "x"))})
		if _, err := c.Kubernetes.ReadProxyCABundle(); err == nil || !os.IsNotExist(unwrapAll(err)) {
			t.Errorf("got %v", err)
		}
	})
}

// unwrapAll returns the innermost error.
func unwrapAll(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = inner.Unwrap()
	}
}
