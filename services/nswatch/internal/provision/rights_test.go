package provision_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/provision"
)

// right is one verb on one object, or on any of its kind: a create has no name.
type right struct{ verb, resource, name string }

func (r right) String() string { return strings.TrimSpace(r.verb + " " + r.resource + " " + r.name) }

var errForbidden = errors.New("forbidden")

// granted are the rights of a Role that is shipped.
func granted(t *testing.T, file, role string) (all []right) {
	t.Helper()
	manifest, err := os.Open(filepath.Join("..", "..", "..", "..", "deploy", "kustomize", "components", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manifest.Close() }()
	documents := yaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		var r rbacv1.Role
		if err := documents.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if r.Kind != "Role" || r.Name != role {
			continue
		}
		for _, rule := range r.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						all = append(all, right{verb, resource, name})
					}
				}
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no Role %s", file, role)
	}
	return all
}

// limit lets the site's runs do what the rights say, and no more.
func (s *site) limit(rights []right) {
	bounded := func(resource string) func(verb, name string) error {
		return func(verb, name string) error {
			if verb == "create" {
				name = ""
			}
			if !slices.Contains(rights, right{verb, resource, name}) {
				return fmt.Errorf("%w: %s", errForbidden, right{verb, resource, name})
			}
			return nil
		}
	}
	s.secrets.may, s.configs.may = bounded("secrets"), bounded("configmaps")
	s.options.GatewayReader = slices.Contains(rights, right{"get", "secrets", "portcullis-gateway-nats"})
}

// lose takes Secrets away and runs.
func (s *site) lose(t *testing.T, names ...string) error {
	t.Helper()
	for _, name := range names {
		delete(s.secrets.have, name)
	}
	return s.run(t)
}

// account is one of those that run provision: what it may, and all that it ever does.
type account struct {
	file, role string
	does       func(t *testing.T, s *site, rights []right) error
}

var accounts = map[string]account{
	"the Job": {"certs-job/rights.yaml", "provision", func(t *testing.T, s *site, rights []right) error {
		t.Helper()
		s.limit(rights)
		return errors.Join(
			s.run(t),
			s.lose(t, "portcullis-mesh-ca", "portcullis-nats-ca"),
			s.lose(t, "portcullis-tokenauth-nats"),
		)
	}},
	"the CronJob": {"certs-job/renewal.yaml", "provision-renewal", func(t *testing.T, s *site, rights []right) error {
		t.Helper()
		s.must(t)
		s.limit(rights)
		s.options.Renew, s.now = true, s.now.Add(70*24*time.Hour)
		return s.run(t)
	}},
	"the Job beside cert-manager": {"certs-cert-manager/rights.yaml", "provision", func(t *testing.T, s *site, rights []right) error {
		t.Helper()
		s.options.Certificates = provision.Expect
		servers := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "portcullis-nats-tls"}, Data: map[string][]byte{"ca.crt": []byte("one")}}
		s.secrets.have["portcullis-nats-tls"] = servers
		s.limit(rights)
		first := s.run(t)
		servers.Data["ca.crt"] = []byte("two")
		return errors.Join(first, s.run(t), s.lose(t, "portcullis-tokenauth-nats"))
	}},
}

// TestRightsSuffice: each account gets through all that it does, with what is shipped.
func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	for name, a := range accounts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := a.does(t, newSite(), granted(t, a.file, a.role)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEachRightIsNeeded takes one verb on one object away, and then another: something cannot be done then.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	for name, a := range accounts {
		rights := granted(t, a.file, a.role)
		for i, r := range rights {
			t.Run(name+" without "+r.String(), func(t *testing.T) {
				t.Parallel()
				err := a.does(t, newSite(), slices.Delete(slices.Clone(rights), i, i+1))
				if !errors.Is(err, errForbidden) || !strings.Contains(err.Error(), r.name) {
					t.Errorf("nobody misses it: %v", err)
				}
			})
		}
	}
}

// TestWhatGoesOnForEverSeesNoKey: the account of the CronJob reads no seed, and neither the allowlist's key nor that of audit events.
func TestWhatGoesOnForEverSeesNoKey(t *testing.T) {
	t.Parallel()
	for _, r := range granted(t, "certs-job/renewal.yaml", "provision-renewal") {
		if r.verb == "create" || strings.HasSuffix(r.name, "-nats") || slices.Contains([]string{"portcullis-nswatch-signing", "portcullis-tokenauth-audit"}, r.name) {
			t.Errorf("it may %s", r)
		}
	}
}

// TestRenewalKeepsTheRest: a renewal touches certificates and nothing else, and leaves those that are good.
func TestRenewalKeepsTheRest(t *testing.T) {
	t.Parallel()
	s := newSite()
	s.must(t)
	s.options.Renew = true
	s.must(t)
	if got := s.changed(); len(got) > 0 || len(s.said) != 3+len(members) {
		t.Errorf("a renewal of what is good looked at %v", s.said)
	}
	s.now = s.now.Add(70 * 24 * time.Hour)
	s.must(t)
	if got := s.changed(); len(got) != 1+len(members) || got["Secret portcullis-nats-tls"] != "renewed" {
		t.Errorf("a renewal of what ends changed %v", got)
	}
	s.options.Allowlist, s.now = false, s.now.Add(70*24*time.Hour)
	s.must(t)
	if got := s.changed(); len(got) != len(members) {
		t.Errorf("without an allowlist a renewal changed %v", got)
	}
}
