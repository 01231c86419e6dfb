package conduct

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// oneMake demands that both Secrets come from one call: the certificate of the one verifies by the authority in the other.
func oneMake(t *testing.T, w *world) {
	t.Helper()
	sandbox, supervisor := w.secrets[sandboxSecret], w.secrets[supervisorFile]
	if sandbox == nil || supervisor == nil {
		t.Errorf("Secrets: %v", slices.Collect(maps.Keys(w.secrets)))
		return
	}
	pair, err := tls.X509KeyPair(sandbox.Data["tls.crt"], sandbox.Data["tls.key"])
	if err != nil {
		t.Errorf("the leaf and its key: %v", err)
		return
	}
	var descriptor map[string]any
	if err := json.Unmarshal(supervisor.Data["runtime-descriptor.json"], &descriptor); err != nil {
		t.Error(err)
		return
	}
	roots := x509.NewCertPool()
	if authority := pemIn(descriptor); !roots.AppendCertsFromPEM([]byte(authority)) {
		t.Errorf("the descriptor has no authority: %s", supervisor.Data["runtime-descriptor.json"])
	}
	name := "sandbox." + session + ".openshell.internal"
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
		t.Errorf("the two Secrets are not of one make: %v", err)
	}
}

// pemIn finds the first certificate among the values of a JSON object.
func pemIn(value any) string {
	switch v := value.(type) {
	case string:
		if strings.HasPrefix(v, "-----BEGIN CERTIFICATE") {
			return v
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if found := pemIn(v[key]); found != "" {
				return found
			}
		}
	}
	return ""
}

// wiped demands that nothing is left in what was handed to the API server's client.
func (w *world) wiped(t *testing.T) {
	t.Helper()
	for _, secret := range w.handed {
		for name, content := range secret.Data {
			if len(content) == 0 || !bytes.Equal(content, make([]byte, len(content))) {
				t.Errorf("file %s of Secret %s is not wiped", name, secret.Name)
			}
		}
	}
}

// TestSecrets: what is in them, whose they are, and that nothing of it stays here or in the log.
func TestSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		goal := s.goal(plan.Provision)
		s.do(goal)
		s.whole()
		for name, want := range map[string][]string{
			sandboxSecret:  {"boundary.json", "tls.crt", "tls.key"},
			supervisorFile: {"auth.json", "proxy-ca.crt", "proxy-ca.key", "runtime-descriptor.json"},
		} {
			secret := w.secrets[name]
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(secret.Data))); diff != "" || secret.Immutable == nil || !*secret.Immutable || secret.Type != corev1.SecretTypeOpaque {
				t.Errorf("%s: %s", name, diff)
			}
		}
		var made struct {
			ChildEnv map[string]string `json:"child_env"`
		}
		if err := json.Unmarshal(w.secrets[sandboxSecret].Data["boundary.json"], &made); err != nil || !cmp.Equal(made.ChildEnv, map[string]string{"GREETING": "hello"}) {
			t.Errorf("%v: %v", err, made)
		}
		auth := w.secrets[supervisorFile].Data["auth.json"]
		if !bytes.Contains(auth, []byte(gatewayToken)) || !bytes.Contains(auth, []byte(sandboxToken)) {
			t.Errorf("auth.json: %s", auth)
		}
		if boundary := fmt.Sprint(w.secrets[sandboxSecret]); strings.Contains(boundary, gatewayToken) {
			t.Error("the workload has the gateway's token")
		}
		w.wiped(t)
		for _, credential := range []string{gatewayToken, sandboxToken, "PRIVATE KEY"} {
			if strings.Contains(s.log.String(), credential) {
				t.Errorf("%s is in the log", credential)
			}
		}
		if goal.Bundle.SessionID() != session {
			t.Error("the bundle was wiped by somebody whose it is not")
		}
	})
}

// TestSecretsAreWipedOnEveryPath, whatever becomes of the writes.
func TestSecretsAreWipedOnEveryPath(t *testing.T) {
	for name, fail := range map[string]error{
		"refused": cluster.ErrRefused, "exists": cluster.ErrExists, "unsettled": cluster.ErrUnsettled, "failed": errors.New("no"),
	} {
		for _, which := range []string{sandboxSecret, supervisorFile} {
			t.Run(name+" "+which, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(fresh())
					w.before = always("create secret "+which, fail)
					s := newSite(t, w)
					if out, err := s.Do(t.Context(), s.goal(plan.Provision)); err != nil || out.Step.Action == plan.Done {
						t.Errorf("%v, %+v", err, out.Step)
					}
					w.wiped(t)
				})
			})
		}
	}
}

// TestAForeignSecretIsACollision: what a first attempt finds under the name of its Secret is somebody else's.
func TestAForeignSecretIsACollision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.secrets[sandboxSecret] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: sandboxSecret}}
		s := newSite(t, w)
		out := s.refused(t.Context(), s.goal(plan.Provision), string(plan.Collision))
		if !strings.Contains(out.Step.Explanation, sandboxSecret) {
			t.Errorf("%s", out.Step.Explanation)
		}
	})
}

// managed is a site of managed mode, whose Secrets have sources.
func managed(t *testing.T) (*site, *world) {
	box := fresh()
	box.Namespace, box.Name = "openshell-blue-team-a", "demo"
	box.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "os-pull-" + sandboxID + "-g00000000000-0"}}
	w := newWorld(box)
	w.sources["registry"] = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
	}
	w.sources["client-tls"] = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "client-tls"},
		Data:       map[string][]byte{"ca.crt": authority(t)},
	}
	s := newSite(t, w, func(k *driverconf.Kubernetes) {
		k.WorkspaceMode, k.ImagePullSecrets, k.ClientTLSSecretName = driverconf.ModeManaged, []string{"registry"}, "client-tls"
	})
	return s, w
}

func (s *site) managedGoal() Goal {
	g := s.goal(plan.Provision)
	g.Ref.Namespace, g.Ref.Name = "openshell-blue-team-a", "demo"
	return g
}

// TestManagedMode copies the pull Secrets and the client's authority from where the settings say.
func TestManagedMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := managed(t)
		s.do(s.managedGoal())
		var pull *corev1.Secret
		for name, secret := range w.secrets {
			if strings.Contains(name, "pull") {
				pull = secret
			}
		}
		if pull == nil || pull.Type != corev1.SecretTypeDockerConfigJson || string(pull.Data[corev1.DockerConfigJsonKey]) != `{"auths":{}}` || len(pull.OwnerReferences) != 2 {
			t.Errorf("%v", pull)
		}
		if ca := w.secrets[supervisorFile].Data["client-ca.crt"]; !bytes.Equal(ca, authority(t)) {
			t.Errorf("%s", ca)
		}
		w.wiped(t)
	})
}

// TestSourcesThatCannotBeUsed are refused at once, by the setting's name.
func TestSourcesThatCannotBeUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		reason string
		want   string
	}{
		"no pull Secret":         {func(w *world) { delete(w.sources, "registry") }, string(CompanionRefused), "image_pull_secrets"},
		"another type":           {func(w *world) { w.sources["registry"].Type = corev1.SecretTypeOpaque }, string(CompanionRefused), "image_pull_secrets"},
		"no client Secret":       {func(w *world) { delete(w.sources, "client-tls") }, string(CompanionRefused), "client_tls_secret_name"},
		"no authority in it":     {func(w *world) { w.sources["client-tls"].Data = nil }, string(CompanionRefused), "client_tls_secret_name: Secret sandboxes/client-tls has no ca.crt"},
		"no authority, but text": {func(w *world) { w.sources["client-tls"].Data["ca.crt"] = []byte("x") }, string(CompanionRefused), "Secret sandboxes/client-tls that the setting client_tls_secret_name names"},
		"it may not be read": {func(w *world) {
			w.read = always("secret registry", fmt.Errorf("%w: 403 Forbidden", cluster.ErrRefused))
		}, string(CompanionRefused), "image_pull_secrets: secret registry: the cluster refuses it: 403 Forbidden; grant get on it by its name"},
		"it cannot be read now": {func(w *world) { w.read = always("secret registry", errors.New("no answer")) }, string(plan.ObjectUnreadable), "image_pull_secrets"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := managed(t)
				tc.change(w)
				out := s.refused(t.Context(), s.managedGoal(), tc.reason)
				if !strings.Contains(out.Step.Explanation, tc.want) {
					t.Errorf("%s", out.Step.Explanation)
				}
				if tc.reason == string(CompanionRefused) {
					s.bare()
				}
				w.wiped(t)
			})
		})
	}
}

// TestProxyCAThatCannotBeUsed: what is wrong with the file refuses the run for good, and a file that cannot be read now does not.
func TestProxyCAThatCannotBeUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		make   func(path string) error
		reason string
	}{
		"no file":        {func(string) error { return nil }, string(CompanionRefused)},
		"no certificate": {func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }, string(CompanionRefused)},
		"a directory":    {func(path string) error { return os.Mkdir(path, 0o700) }, string(CompanionRefused)},
		"a loop":         {func(path string) error { return os.Symlink(path, path) }, string(plan.ObjectUnreadable)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ca.pem")
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, newWorld(fresh()), func(k *driverconf.Kubernetes) { k.ProxyCABundle, k.HTTPSProxy = path, "http://proxy.example:3128" })
				out := s.refused(t.Context(), s.goal(plan.Provision), tc.reason)
				if !strings.Contains(out.Step.Explanation, "proxy_ca_bundle") {
					t.Errorf("%s", out.Step.Explanation)
				}
				if tc.reason == string(CompanionRefused) {
					s.bare()
				}
			})
		})
	}
}
