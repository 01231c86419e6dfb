package provision_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/natsidentity"
	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/provision"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// object is a Secret or a ConfigMap.
type object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// store is what a namespace has of one kind.
type store[T object[T]] struct {
	have map[string]T
	fail error // of the next write
	may  func(verb, name string) error
}

func (s *store[T]) Get(_ context.Context, name string, _ metav1.GetOptions) (T, error) {
	var none T
	if err := s.may("get", name); err != nil {
		return none, err
	}
	if o, ok := s.have[name]; ok {
		return o.DeepCopy(), nil
	}
	return none, apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, name)
}

func (s *store[T]) Create(_ context.Context, o T, _ metav1.CreateOptions) (T, error) {
	if err := s.may("create", o.GetName()); err != nil {
		return o, err
	}
	if _, there := s.have[o.GetName()]; there {
		return o, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "objects"}, o.GetName())
	}
	return o, s.write(o)
}

func (s *store[T]) Update(_ context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	if err := s.may("update", o.GetName()); err != nil {
		return o, err
	}
	return o, s.write(o)
}

func (s *store[T]) write(o T) error {
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	s.have[o.GetName()] = o.DeepCopy()
	return nil
}

// site is a namespace, and a time.
type site struct {
	secrets *store[*corev1.Secret]
	configs *store[*corev1.ConfigMap]
	now     time.Time
	options provision.Options
	said    map[string]string
}

func newSite() *site {
	all := func(string, string) error { return nil }
	s := &site{
		secrets: &store[*corev1.Secret]{have: map[string]*corev1.Secret{}, may: all},
		configs: &store[*corev1.ConfigMap]{have: map[string]*corev1.ConfigMap{}, may: all},
		now:     time.Now(),
	}
	s.options = provision.Options{
		Namespace: "portcullis", GatewayID: "openshell", Allowlist: true, Certificates: provision.Make, GatewayReader: true,
		Now: func() time.Time { return s.now }, Report: func(what, object string) { s.said[object] = what },
	}
	return s
}

func (s *site) run(t *testing.T) error {
	t.Helper()
	s.said = map[string]string{}
	return provision.Run(t.Context(), s.options, s.secrets, s.configs)
}

func (s *site) must(t *testing.T) {
	t.Helper()
	if err := s.run(t); err != nil {
		t.Fatal(err)
	}
}

// changed are the objects that the last run did not keep.
func (s *site) changed() map[string]string {
	changed := maps.Clone(s.said)
	maps.DeleteFunc(changed, func(_, what string) bool { return what == "kept" })
	return changed
}

var members = []string{"tokenauth", "supervisorctl", "lifecycle", "relay"}

// whole are all objects of operator mode.
func whole() []string {
	all := []string{
		"Secret portcullis-mesh-ca", "Secret portcullis-nats-ca", "Secret portcullis-nats-tls", "Secret portcullis-nswatch-signing",
		"Secret portcullis-tokenauth-audit",
		"ConfigMap portcullis-nats-identities", "ConfigMap portcullis-allowlist-keys",
	}
	for _, member := range members {
		all = append(all, "Secret portcullis-"+member+"-mesh-tls")
	}
	for _, name := range natsidentity.Names() {
		all = append(all, "Secret portcullis-"+name+"-nats")
	}
	slices.Sort(all)
	return all
}

func TestEverythingIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := newSite()
	s.must(t)
	if diff := cmp.Diff(whole(), slices.Sorted(maps.Keys(s.changed()))); diff != "" {
		t.Errorf("made (- want, + got):\n%s", diff)
	}
	s.must(t)
	if got := s.changed(); len(got) > 0 || len(s.said) != len(whole()) {
		t.Errorf("the second run said %v", s.said)
	}
}

// TestGatewayReader: the identity that no Pod of the mesh uses is made for those who ask, and what servers know of it changes for nobody else.
func TestGatewayReader(t *testing.T) {
	t.Parallel()
	s := newSite()
	known := func() string {
		return natsidentity.Public(s.configs.have["portcullis-nats-identities"].Data["identities.conf"], "gateway")
	}
	s.options.GatewayReader = false
	s.must(t)
	nobodys := known()
	if _, made := s.secrets.have["portcullis-gateway-nats"]; made || !nkeys.IsValidPublicUserKey(nobodys) || len(s.said) != len(whole())-1 {
		t.Errorf("a seed was made: %t, and the servers know %q", made, nobodys)
	}
	s.must(t)
	if got := s.changed(); len(got) > 0 {
		t.Errorf("the second run changed %v", got)
	}
	s.options.GatewayReader = true
	s.must(t)
	mine := known()
	if got := s.changed(); len(got) != 2 || got["Secret portcullis-gateway-nats"] != "made" || mine == nobodys {
		t.Errorf("when it is asked for it changed %v", got)
	}
	s.options.GatewayReader = false
	s.must(t)
	if got := s.changed(); len(got) > 0 || known() != mine {
		t.Errorf("when it is no more asked for it changed %v", got)
	}
}

// TestWithoutAllowlist: in the modes without one there are the certificates of the mesh and the audit trail's key, and nothing of NATS.
func TestWithoutAllowlist(t *testing.T) {
	t.Parallel()
	s := newSite()
	s.options.Allowlist = false
	s.must(t)
	if len(s.said) != 2+len(members) || len(s.configs.have) > 0 {
		t.Errorf("made %v", s.said)
	}
}

// TestWhatIsLostIsMadeAgain: each object by itself, and nothing else changes but what follows from it.
func TestWhatIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	follows := map[string][]string{
		"Secret portcullis-mesh-ca": {
			"Secret portcullis-tokenauth-mesh-tls", "Secret portcullis-supervisorctl-mesh-tls", "Secret portcullis-lifecycle-mesh-tls", "Secret portcullis-relay-mesh-tls",
		},
		"Secret portcullis-nats-ca": {"Secret portcullis-nats-tls"},
	}
	for _, name := range natsidentity.Names() {
		follows["Secret portcullis-nats-ca"] = append(follows["Secret portcullis-nats-ca"], "Secret portcullis-"+name+"-nats")
		follows["Secret portcullis-"+name+"-nats"] = []string{"ConfigMap portcullis-nats-identities"}
	}
	for _, lost := range whole() {
		if lost == "Secret portcullis-nswatch-signing" {
			continue // see TestRefusals: the list of public keys is the operator's
		}
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			s := newSite()
			s.must(t)
			_, name, _ := strings.Cut(lost, " ")
			delete(s.secrets.have, name)
			delete(s.configs.have, name)
			s.must(t)
			want := slices.Sorted(slices.Values(append([]string{lost}, follows[lost]...)))
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s.changed()))); diff != "" {
				t.Errorf("changed (- want, + got):\n%s", diff)
			}
			s.must(t)
			if got := s.changed(); len(got) > 0 {
				t.Errorf("the next run changed %v", got)
			}
		})
	}
}

// TestRenewal: certificates are kept for two thirds of their life and made anew then, with the same names and another key.
func TestRenewal(t *testing.T) {
	t.Parallel()
	s := newSite()
	s.must(t)
	before := s.secrets.have["portcullis-lifecycle-mesh-tls"].DeepCopy()
	s.now = s.now.Add(59 * 24 * time.Hour)
	s.must(t)
	if got := s.changed(); len(got) > 0 {
		t.Errorf("after 59 days: %v", got)
	}
	s.now = s.now.Add(2 * 24 * time.Hour)
	s.must(t)
	want := []string{"Secret portcullis-nats-tls"}
	for _, member := range members {
		want = append(want, "Secret portcullis-"+member+"-mesh-tls")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s.changed()))); diff != "" {
		t.Errorf("after 61 days (- want, + got):\n%s", diff)
	}
	after := s.secrets.have["portcullis-lifecycle-mesh-tls"]
	if bytes.Equal(before.Data["tls.key"], after.Data["tls.key"]) || !bytes.Equal(before.Data["ca.crt"], after.Data["ca.crt"]) {
		t.Error("the key is the old one, or the authority is another")
	}
}

// TestTheyServe: each part is taken by those whom it is for.
func TestTheyServe(t *testing.T) {
	t.Parallel()
	s := newSite()
	s.must(t)
	for _, member := range members {
		dir := t.TempDir()
		for name, content := range s.secrets.have["portcullis-"+member+"-mesh-tls"].Data {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := meshrpc.DefaultConfig()
		cfg.CertFile, cfg.KeyFile, cfg.CAFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
		if _, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: member, Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()}); err != nil {
			t.Errorf("the mesh does not take the certificate of %s: %v", member, err)
		}
	}
	servers := s.secrets.have["portcullis-nats-tls"].Data
	pair, err := tls.X509KeyPair(servers["tls.crt"], servers["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	mesh, nats := x509.NewCertPool(), x509.NewCertPool()
	mesh.AppendCertsFromPEM(s.secrets.have["portcullis-mesh-ca"].Data["tls.crt"])
	nats.AppendCertsFromPEM(s.secrets.have["portcullis-tokenauth-nats"].Data["ca.crt"])
	for _, name := range []string{"nats.portcullis.svc", "nats-0.nats.portcullis.svc", "nats-2.nats.portcullis.svc.cluster.local", "localhost", "nats-1.nats"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: nats}); err != nil {
			t.Errorf("a client of NATS at %s: %v", name, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: mesh}); err == nil {
		t.Error("the mesh's authority vouches for a NATS server too")
	}
	identities := s.configs.have["portcullis-nats-identities"].Data["identities.conf"]
	for _, name := range natsidentity.Names() {
		user, err := nkeys.FromSeed(s.secrets.have["portcullis-"+name+"-nats"].Data["seed"])
		if err != nil {
			t.Fatal(err)
		}
		public, err := user.PublicKey()
		if want := fmt.Sprintf("%s_NKEY: %q", strings.ToUpper(name), public); err != nil || !strings.Contains(identities, want) {
			t.Errorf("%v, and the servers are not told %s", err, want)
		}
	}
	hash := filepath.Join(t.TempDir(), "hash.key")
	if err := os.WriteFile(hash, s.secrets.have["portcullis-tokenauth-audit"].Data["hash.key"], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.NewHasher(hash); err != nil {
		t.Errorf("tokenauth does not take the key of its hashes: %v", err)
	}
	signer, err := allowlist.ParseSigner(secret.New(bytes.Clone(s.secrets.have["portcullis-nswatch-signing"].Data["private.key"])))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := allowlist.ParseKeySet([]byte(s.configs.have["portcullis-allowlist-keys"].Data["public.keys"]))
	if err != nil || !keys.Has(signer.Public()) {
		t.Errorf("%v, and readers do not have the key that signs", err)
	}
}

// TestRefusals: what somebody else made stays as it is, and the error names it and no secret.
func TestRefusals(t *testing.T) {
	t.Parallel()
	foreign := func(name string) func(*site) {
		return func(s *site) { s.secrets.have[name].Labels = nil }
	}
	spoil := func(name, key, content string) func(*site) {
		return func(s *site) { s.secrets.have[name].Data[key] = []byte(content) }
	}
	tests := map[string]struct {
		change []func(*site)
		want   []string
	}{
		"certificate of somebody else": {[]func(*site){foreign("portcullis-relay-mesh-tls"), spoil("portcullis-relay-mesh-tls", "ca.crt", "x")}, []string{"portcullis-relay-mesh-tls", "--certificates expect"}},
		"authority is no pair":         {[]func(*site){spoil("portcullis-mesh-ca", "tls.key", "CANARY")}, []string{"portcullis-mesh-ca", "no certificate with its key"}},
		"authority is a leaf": {[]func(*site){func(s *site) {
			s.secrets.have["portcullis-mesh-ca"].Data = s.secrets.have["portcullis-relay-mesh-tls"].Data
		}}, []string{"portcullis-mesh-ca", "no authority"}},
		"authority ends":       {[]func(*site){func(s *site) { s.now = s.now.Add(10*365*24*time.Hour - 30*24*time.Hour) }}, []string{"portcullis-mesh-ca", "ends at"}},
		"seed is none":         {[]func(*site){spoil("portcullis-tokenauth-nats", "seed", "SUCANARY")}, []string{"portcullis-tokenauth-nats", "no seed"}},
		"signing key is none":  {[]func(*site){spoil("portcullis-nswatch-signing", "private.key", "CANARY")}, []string{"portcullis-nswatch-signing", "private.key"}},
		"signing key was lost": {[]func(*site){func(s *site) { delete(s.secrets.have, "portcullis-nswatch-signing") }}, []string{"portcullis-allowlist-keys", "add its line"}},
		"identities of somebody else": {[]func(*site){func(s *site) {
			s.configs.have["portcullis-nats-identities"].Labels = nil
			delete(s.secrets.have, "portcullis-gateway-nats")
		}}, []string{"portcullis-nats-identities", "somebody else"}},
		"write is refused": {[]func(*site){func(s *site) {
			delete(s.secrets.have, "portcullis-nats-tls")
			s.secrets.fail = errors.New("quota")
		}}, []string{"portcullis-nats-tls", "quota"}},
		"certificates are not there yet": {[]func(*site){func(s *site) {
			s.options.Certificates = provision.Expect
			delete(s.secrets.have, "portcullis-nats-tls")
		}}, []string{"is not there yet"}},
		"certificates without authority": {[]func(*site){func(s *site) {
			s.options.Certificates = provision.Expect
			delete(s.secrets.have["portcullis-nats-tls"].Data, "ca.crt")
		}}, []string{"portcullis-nats-tls", "ca.crt"}},
		"certificate is not there to be renewed": {[]func(*site){func(s *site) {
			s.options.Renew = true
			delete(s.secrets.have, "portcullis-relay-mesh-tls")
		}}, []string{"portcullis-relay-mesh-tls", "a renewal makes nothing"}},
		"authority is not there to renew with": {[]func(*site){func(s *site) {
			s.options.Renew = true
			delete(s.secrets.have, "portcullis-nats-ca")
		}}, []string{"portcullis-nats-ca", "a renewal makes nothing"}},
		"nothing is there to be renewed":         {[]func(*site){func(s *site) { s.options.Renew, s.options.Certificates = true, provision.Expect }}, []string{"nothing else is ever renewed"}},
		"others are to be trusted that are none": {[]func(*site){spoil("portcullis-mesh-ca", "trust.crt", "x")}, []string{"portcullis-mesh-ca", "trust.crt"}},
		"a leaf is to be trusted": {[]func(*site){func(s *site) {
			s.secrets.have["portcullis-mesh-ca"].Data["trust.crt"] = s.secrets.have["portcullis-relay-mesh-tls"].Data["tls.crt"]
		}}, []string{"portcullis-mesh-ca", "trust.crt"}},
		"nobody said for whom": {[]func(*site){func(s *site) { s.options.GatewayID = "" }}, []string{"gateway id"}},
		"nobody said who":      {[]func(*site){func(s *site) { s.options.Certificates = 0 }}, []string{"who makes the certificates"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite()
			s.must(t)
			for _, change := range test.change {
				change(s)
			}
			err := s.run(t)
			if err == nil {
				t.Fatal("nothing is wrong with it")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "CANARY") {
				t.Errorf("the error holds what is secret: %v", err)
			}
		})
	}
}

// TestExpected: with certificates of somebody else, whose authority may change, everybody is given the one of now.
func TestExpected(t *testing.T) {
	t.Parallel()
	s := newSite()
	s.options.Certificates = provision.Expect
	s.secrets.have["portcullis-nats-tls"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "portcullis-nats-tls"}, Data: map[string][]byte{"ca.crt": []byte("one")}}
	s.must(t)
	seed := s.secrets.have["portcullis-nswatch-nats"].Data["seed"]
	s.secrets.have["portcullis-nats-tls"].Data["ca.crt"] = []byte("two")
	s.must(t)
	for _, name := range natsidentity.Names() {
		if got := string(s.secrets.have["portcullis-"+name+"-nats"].Data["ca.crt"]); got != "two" {
			t.Errorf("%s is told of authority %q", name, got)
		}
	}
	if !bytes.Equal(seed, s.secrets.have["portcullis-nswatch-nats"].Data["seed"]) {
		t.Error("the seed has changed")
	}
	if _, made := s.secrets.have["portcullis-mesh-ca"]; made {
		t.Error("an authority was made that nobody asked for")
	}
}
