package provision_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"testing"
)

// belief is what somebody shows, and whom they trust.
type belief struct {
	chain tls.Certificate
	roots *x509.CertPool
}

func beliefOf(t *testing.T, certificate, key, authorities []byte) belief {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		t.Fatal("there is no authority")
	}
	return belief{pair, roots}
}

// mesh are the members of the mesh as their Secrets are now.
func (s *site) mesh(t *testing.T) (all []belief) {
	t.Helper()
	for _, member := range members {
		data := s.secrets.have["portcullis-"+member+"-mesh-tls"].Data
		all = append(all, beliefOf(t, data["tls.crt"], data["tls.key"], data["ca.crt"]))
	}
	return all
}

func (b belief) trusts(other belief) error {
	_, err := other.chain.Leaf.Verify(x509.VerifyOptions{Roots: b.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

// TestAuthorityIsReplaced goes the documented way from one authority to another. Each step reaches one Pod before another, so at every
// step who has it already and who has it not yet trust each other; at the end nobody trusts the old one.
func TestAuthorityIsReplaced(t *testing.T) {
	t.Parallel()
	s, other := newSite(), newSite()
	s.must(t)
	other.must(t)
	first := maps.Clone(s.secrets.have["portcullis-mesh-ca"].Data)
	second := other.secrets.have["portcullis-mesh-ca"].Data
	begin := s.mesh(t)
	steps := []struct {
		name string
		of   map[string][]byte
	}{
		{"the new one is trusted", map[string][]byte{"tls.crt": first["tls.crt"], "tls.key": first["tls.key"], "trust.crt": second["tls.crt"]}},
		{"the new one signs", map[string][]byte{"tls.crt": second["tls.crt"], "tls.key": second["tls.key"], "trust.crt": first["tls.crt"]}},
		{"the old one is gone", map[string][]byte{"tls.crt": second["tls.crt"], "tls.key": second["tls.key"]}},
	}
	before := begin
	for i, step := range steps {
		s.secrets.have["portcullis-mesh-ca"].Data = step.of
		// One step is a renewal's, and the Job does the same.
		s.options.Renew = i%2 == 0
		s.must(t)
		if got := s.changed(); len(got) != len(members) {
			t.Fatalf("%s: it changed %v", step.name, got)
		}
		after := s.mesh(t)
		for _, a := range slices.Concat(before, after) {
			for _, b := range slices.Concat(before, after) {
				if err := a.trusts(b); err != nil {
					t.Errorf("%s: two members do not trust each other: %v", step.name, err)
				}
			}
		}
		s.must(t)
		if got := s.changed(); len(got) > 0 {
			t.Errorf("%s: the next run changed %v", step.name, got)
		}
		before = after
	}
	if before[0].trusts(begin[0]) == nil {
		t.Error("the old authority is still trusted")
	}
}

// TestBothAuthoritiesReachTheClients: while the authority of the NATS servers is replaced, their clients trust both.
func TestBothAuthoritiesReachTheClients(t *testing.T) {
	t.Parallel()
	s, other := newSite(), newSite()
	s.must(t)
	other.must(t)
	mine, theirs := s.secrets.have["portcullis-nats-ca"].Data, other.secrets.have["portcullis-nats-ca"].Data["tls.crt"]
	mine["trust.crt"] = theirs
	s.must(t)
	for _, name := range []string{"portcullis-nats-tls", "portcullis-nswatch-nats", "portcullis-operator-nats"} {
		trusted := s.secrets.have[name].Data["ca.crt"]
		if !bytes.Contains(trusted, mine["tls.crt"]) || !bytes.Contains(trusted, theirs) {
			t.Errorf("%s does not have both authorities", name)
		}
	}
}
