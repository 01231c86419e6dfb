package supervisor_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

// denied runs supervisor and runtime and returns what the supervisor ended with.
func denied(t *testing.T, s *site) error {
	t.Helper()
	s.startRuntime()
	_, ended := s.startSupervisor()
	select {
	case err := <-ended:
		return err
	case <-companionstest.Limit(t).Done():
		t.Fatalf("the supervisor goes on; health: %v", s.health(t.Context()))
		return nil
	}
}

func TestRefusalsAreFinal(t *testing.T) {
	t.Parallel()
	claim := func(name, value string) func(*materialtest.Material) {
		return func(m *materialtest.Material) {
			m.Descriptor["resource_claims"].(materialtest.Object)[name] = value
		}
	}
	token := func(name string, value any) func(*materialtest.Material) {
		return func(m *materialtest.Material) {
			m.Auth["sandbox_token"] = m.Token(t, func(_, c materialtest.Object) { c[name] = value })
		}
	}
	for name, tc := range map[string]struct {
		change func(*materialtest.Material)
		kind   boundary.Kind
		want   string
	}{
		"another CA's leaf": {func(m *materialtest.Material) { m.Leaf = materialtest.ForeignLeaf(t) }, boundary.Denied, "certificate"},
		"another CA trusted": {func(m *materialtest.Material) {
			m.Descriptor["tls"].(materialtest.Object)["trust_anchor_pem"] = materialtest.ForeignCA(t)
		}, boundary.Denied, "certificate"},
		"another session's name": {func(m *materialtest.Material) {
			m.Leaf = m.LeafFor(t, "sandbox.1c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718.openshell.internal")
		}, boundary.Denied, "certificate"},
		"the Service's name": {func(m *materialtest.Material) {
			m.Leaf = m.LeafFor(t, "os-boundary-"+materialtest.SandboxID+".team-a.svc")
		}, boundary.Denied, "certificate"},
		"a replaced workload Pod": {func(m *materialtest.Material) { m.PodUID = "99999999-0000-4000-8000-000000000000" }, boundary.Denied, "kubernetes.workload_pod_uid"},
		"another supervisor Pod":  {claim("kubernetes.supervisor_pod_uid", "x"), boundary.Denied, "kubernetes.supervisor_pod_uid"},
		"another namespace":       {claim("kubernetes.namespace_uid", "x"), boundary.Denied, "kubernetes.namespace_uid"},
		"another sandbox":         {claim("kubernetes.sandbox_resource_uid", "x"), boundary.Denied, "kubernetes.sandbox_resource_uid"},
		"an older epoch":          {token("auth_epoch", 2), boundary.Denied, "auth_epoch"},
		"another audience":        {token("aud", "openshell-gateway"), boundary.Denied, "aud"},
		"another identity": {func(m *materialtest.Material) {
			m.Descriptor["workload_identity"].(materialtest.Object)["uid"] = os.Getuid() + 1
		}, boundary.Denied, "identity"},
		"another session": {func(m *materialtest.Material) {
			m.Boundary["session_id"] = "1c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718"
		}, boundary.Denied, "another session"},
		"another generation": {func(m *materialtest.Material) {
			m.Boundary["generation"] = "g2"
			m.Boundary["outer_fence"].(materialtest.Object)["generation"] = "g2"
			m.Boundary["outer_fence"].(materialtest.Object)["evidence_digest"] = materialtest.Evidence("g2")
			m.Auth["sandbox_token"] = m.Token(t, func(_, c materialtest.Object) { c["runtime_generation"] = "g2" })
		}, boundary.Denied, "another session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, companionstest.Command(t, "sleep"), tc.change)
			kind(t, denied(t, s), tc.kind, tc.want)
		})
	}
	t.Run("a program that is not there", func(t *testing.T) {
		t.Parallel()
		kind(t, denied(t, newSite(t, []string{"/no/such"}, nil)), boundary.Process, "/no/such")
	})
}

func TestSecondSupervisorIsDenied(t *testing.T) {
	t.Parallel()
	s, session := connected(t, "sleep")
	second := *s
	second.settings.HealthSocket += "2"
	second.settings.Endpoint.Host = companionstest.Address() // it must not take the session
	_, ended := second.startSupervisor()
	select {
	case err := <-ended:
		kind(t, err, boundary.Denied, "another supervisor")
	case <-companionstest.Limit(t).Done():
		t.Fatal("a second supervisor goes on")
	}
	if out, err := session.Run(companionstest.Limit(t), companionstest.Command(t, "echo", "still"), nil); err != nil || string(out.Stdout) != "still\n" {
		t.Errorf("the first: %q, %v", out.Stdout, err)
	}
}

func TestMaterialLooksAsTheContractSays(t *testing.T) {
	t.Parallel()
	m := materialtest.Make(t, "127.0.0.1:1")
	block, _ := pem.Decode(m.Leaf.Certificate)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(leaf.DNSNames) != 1 || leaf.NotBefore.Year() != 1975 || leaf.NotAfter.Year() != 4096 || leaf.PublicKeyAlgorithm != x509.Ed25519 {
		t.Errorf("leaf %v, %v to %v", leaf.DNSNames, leaf.NotBefore, leaf.NotAfter)
	}
}

func TestErrorsShowNoToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, companionstest.Command(t, "sleep"), func(m *materialtest.Material) { m.PodUID = "other" })
	token := s.material.Auth["sandbox_token"].(string)
	err := denied(t, s)
	if err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("error %v", err)
	}
	var f *boundary.Failure
	if !errors.As(err, &f) {
		t.Errorf("%v is no failure", err)
	}
}
