package meshtest_test

import (
	"bytes"
	"crypto/x509"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// The base is right, and each change breaks only what it says.
func TestIssue(t *testing.T) {
	ca, other := meshtest.NewCA(t), meshtest.NewCA(t)
	verify := func(leaf *x509.Certificate, ca *meshtest.CA, usage x509.ExtKeyUsage) bool {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{usage}})
		return err == nil
	}
	cases := map[string]struct {
		changes                []meshtest.Change
		server, client, expect bool
		uris                   int
	}{
		"base":          {nil, true, true, true, 1},
		"expired":       {[]meshtest.Change{meshtest.Expired()}, false, false, true, 1},
		"not yet valid": {[]meshtest.Change{meshtest.NotYetValid()}, false, false, true, 1},
		"client only":   {[]meshtest.Change{meshtest.Usages(x509.ExtKeyUsageClientAuth)}, false, true, true, 1},
		"authority":     {[]meshtest.Change{meshtest.Authority()}, true, true, true, 1},
		"no identity":   {[]meshtest.Change{meshtest.URIs()}, true, true, false, 0},
		"two":           {[]meshtest.Change{meshtest.URIs("spiffe://portcullis/a", "spiffe://portcullis/b")}, true, true, false, 2},
		"DNS names":     {[]meshtest.Change{meshtest.DNSNames("localhost")}, true, true, true, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			leaf := ca.Issue(t, "tokenauth", c.changes...).TLS(t).Leaf
			if got := verify(leaf, ca, x509.ExtKeyUsageServerAuth); got != c.server {
				t.Errorf("good for a server: %t", got)
			}
			if got := verify(leaf, ca, x509.ExtKeyUsageClientAuth); got != c.client {
				t.Errorf("good for a client: %t", got)
			}
			if verify(leaf, other, x509.ExtKeyUsageServerAuth) {
				t.Error("another authority vouches for it")
			}
			if len(leaf.URIs) != c.uris || c.expect && leaf.URIs[0].String() != "spiffe://portcullis/tokenauth" {
				t.Errorf("URIs %v", leaf.URIs)
			}
		})
	}
}

func TestReplaceSwitchesAllFiles(t *testing.T) {
	ca := meshtest.NewCA(t)
	files := meshtest.NewFiles(t, ca, "tokenauth")
	next := meshtest.Content{Pair: ca.Issue(t, "tokenauth"), CA: meshtest.NewCA(t).PEM}
	files.Replace(t, next)
	got := files.Read(t)
	if !bytes.Equal(got.Cert, next.Cert) || !bytes.Equal(got.Key, next.Key) || !bytes.Equal(got.CA, next.CA) {
		t.Error("the files do not hold what was put there")
	}
}
