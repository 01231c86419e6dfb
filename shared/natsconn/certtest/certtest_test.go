package certtest_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
)

func TestIssuedCertificateVerifiesOnlyUnderItsAuthority(t *testing.T) {
	ours, other := certtest.New(t, "same name"), certtest.New(t, "same name")
	leaf := ours.Keypair("server").Leaf
	for _, c := range []struct {
		name  string
		ca    *certtest.CA
		host  string
		trust bool
	}{
		{"own authority, address", ours, "127.0.0.1", true},
		{"own authority, name", ours, "localhost", true},
		{"own authority, other host", ours, "example.org", false},
		{"authority of the same name", other, "127.0.0.1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := leaf.Verify(x509.VerifyOptions{DNSName: c.host, Roots: c.ca.Pool()})
			if (err == nil) != c.trust {
				t.Errorf("verify for %s: %v, want trusted=%v", c.host, err, c.trust)
			}
		})
	}
}

func TestIssueReplacesFiles(t *testing.T) {
	ca, dir := certtest.New(t, "ca"), t.TempDir()
	first := ca.Issue(dir, "one")
	before, err := os.ReadFile(first.Cert)
	if err != nil {
		t.Fatal(err)
	}
	second := ca.Issue(dir, "two")
	if first != second {
		t.Errorf("paths changed: %+v, %+v", first, second)
	}
	after, err := os.ReadFile(second.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) == string(after) {
		t.Error("the certificate was not replaced")
	}
	if _, err := tls.LoadX509KeyPair(second.Cert, second.Key); err != nil {
		t.Errorf("the replaced pair does not load: %v", err)
	}
	info, err := os.Stat(second.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("key mode %v, want 0600", got)
	}
}
