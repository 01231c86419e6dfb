package deploy_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// provision runs `nswatch secrets` as the shipped Job does, with the settings of the overlay and the given rules, in a namespace.
type provision struct {
	*cluster.Cluster
	namespace, settings string
}

// newProvision grants rules to an account of a new namespace.
func newProvision(t *testing.T, c *cluster.Cluster, w *deploy.World, rules []rbacv1.PolicyRule) *provision {
	t.Helper()
	p := &provision{Cluster: c, namespace: c.Namespace(t)}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "provision"}, Rules: rules}
	if _, err := c.Client().RbacV1().Roles(p.namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "provision"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "provision"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: p.namespace}},
	}
	if _, err := c.Client().RbacV1().RoleBindings(p.namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(w.Pods, func(pod deploy.Pod) bool { return pod.Workload == "Deployment nswatch" })
	text := settingsOf(w, w.Pods[i])
	p.settings = program.Settings(t, text+fmt.Sprintf("\n[portcullis.kubernetes]\nkubeconfig = %q\n", c.ServiceAccountKubeconfig(t, p.namespace, "default")))
	return p
}

// run returns what it said of each object.
func (p *provision) run(t *testing.T) (map[string]string, error) {
	t.Helper()
	out, err := program.Command(t, "nswatch", "secrets", "--config", p.settings, "--namespace", p.namespace).CombinedOutput()
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if what, object, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			said[strings.TrimSpace(object)] = what
		}
	}
	if err != nil {
		return said, fmt.Errorf("%w: %s", err, out)
	}
	return said, nil
}

// use goes through all that the command ever does: it makes everything, keeps it, and makes anew what follows from a lost authority and a
// lost seed.
func (p *provision) use(t *testing.T) error {
	t.Helper()
	secrets := p.Client().CoreV1().Secrets(p.namespace)
	if said, err := p.run(t); err != nil || slices.ContainsFunc(slices.Collect(maps.Values(said)), func(what string) bool { return what != "made" }) {
		return fmt.Errorf("at first it said %v: %w", said, err)
	}
	for _, lost := range []string{"portcullis-mesh-ca", "portcullis-nats-ca", "portcullis-tokenauth-nats"} {
		if err := secrets.Delete(t.Context(), lost, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Client().CoreV1().ConfigMaps(p.namespace).Delete(t.Context(), "portcullis-allowlist-keys", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	said, err := p.run(t)
	if err != nil || said["Secret portcullis-relay-mesh-tls"] != "renewed" || said["ConfigMap portcullis-nats-identities"] != "renewed" {
		return fmt.Errorf("after a loss it said %v: %w", said, err)
	}
	said, err = p.run(t)
	if err != nil || slices.ContainsFunc(slices.Collect(maps.Values(said)), func(what string) bool { return what != "kept" }) {
		return fmt.Errorf("at last it said %v: %w", said, err)
	}
	return nil
}

// compareCertificates: what cert-manager is asked for in the one component is what the command makes in the other.
func (p *provision) compareCertificates(t *testing.T) {
	t.Helper()
	asked := 0
	for _, object := range rendered(t)["certs-cert-manager"].Objects {
		if object.GetKind() != "Certificate" {
			continue
		}
		asked++
		wanted := object.Object["spec"].(map[string]any)
		made, err := p.Client().CoreV1().Secrets(p.namespace).Get(t.Context(), wanted["secretName"].(string), metav1.GetOptions{})
		if err != nil {
			t.Errorf("cert-manager makes %s: %v", object.GetName(), err)
			continue
		}
		block, _ := pem.Decode(made.Data["tls.crt"])
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		var have, want []string
		for _, uri := range certificate.URIs {
			have = append(have, uri.String())
		}
		for _, name := range certificate.DNSNames {
			have = append(have, strings.ReplaceAll(name, p.namespace, "portcullis"))
		}
		for _, key := range []string{"uris", "dnsNames"} {
			names, _, _ := unstructured.NestedStringSlice(wanted, key)
			want = append(want, names...)
		}
		slices.Sort(have)
		slices.Sort(want)
		if authority, _ := wanted["isCA"].(bool); !slices.Equal(have, want) || authority != certificate.IsCA {
			t.Errorf("%s is asked of cert-manager for %v (an authority: %t), and made for %v", object.GetName(), want, authority, have)
		}
	}
	if asked != 7 {
		t.Errorf("cert-manager is asked for %d certificates, not for 2 authorities, 4 daemons and NATS", asked)
	}
}

func provisionRules(t *testing.T, w *deploy.World) []rbacv1.PolicyRule {
	t.Helper()
	i := slices.IndexFunc(w.Roles, func(r deploy.Role) bool { return r.Namespace == "portcullis" && r.Name == "provision" })
	if i < 0 {
		t.Fatal("the component certs-job has no Role")
	}
	return w.Roles[i].Rules
}

// TestProvision: the Job's own command, with just the Role that is shipped, makes every Secret and ConfigMap that Pods of the installation
// wait for; and with any verb of the Role less it does not get through.
func TestProvision(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	w := survey(t, rendered(t)["certs-job"].Objects)
	rules := provisionRules(t, w)
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		p := newProvision(t, c, w, rules)
		if err := p.use(t); err != nil {
			t.Fatal(err)
		}
		core := c.Client().CoreV1()
		for _, name := range madeElsewhere {
			kind, path, _ := strings.Cut(name, " ")
			_, object, _ := strings.Cut(path, "/")
			var err error
			switch kind {
			case "Secret":
				_, err = core.Secrets(p.namespace).Get(t.Context(), object, metav1.GetOptions{})
			case "ConfigMap":
				_, err = core.ConfigMaps(p.namespace).Get(t.Context(), object, metav1.GetOptions{})
			}
			if err != nil {
				t.Errorf("Pods wait for %s: %v", name, err)
			}
		}
		p.compareCertificates(t)
		// What it may see is what it makes.
		mine := c.ServiceAccountClient(t, p.namespace, "default").CoreV1()
		if _, err := mine.Secrets(p.namespace).Get(t.Context(), "another", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("another Secret: %v", err)
		}
		if _, err := mine.Secrets(p.namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("all Secrets: %v", err)
		}
	})
	for i, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				t.Run(fmt.Sprintf("without %s %s", verb, resource), func(t *testing.T) {
					t.Parallel()
					var fewer []rbacv1.PolicyRule
					for j, other := range rules {
						for _, of := range other.Resources {
							left := *other.DeepCopy()
							left.Resources = []string{of}
							if j == i && of == resource {
								left.Verbs = slices.DeleteFunc(left.Verbs, func(v string) bool { return v == verb })
							}
							if len(left.Verbs) > 0 {
								fewer = append(fewer, left)
							}
						}
					}
					if err := newProvision(t, c, w, fewer).use(t); err == nil || !strings.Contains(err.Error(), "forbidden") {
						t.Errorf("nobody misses the right: %v", err)
					}
				})
			}
		}
	}
}

// TestProvisionNamesAreUsed: the Role of the Job names what the command makes and nothing else.
func TestProvisionNamesAreUsed(t *testing.T) {
	t.Parallel()
	w := survey(t, rendered(t)["certs-job"].Objects)
	c := cluster.Start(t, cluster.ControlPlane)
	rules := provisionRules(t, w)
	p := newProvision(t, c, w, rules)
	said, err := p.run(t)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, rule := range rules {
		for _, name := range rule.ResourceNames {
			kind := map[string]string{"secrets": "Secret ", "configmaps": "ConfigMap "}[rule.Resources[0]]
			named[kind+name] = true
			if said[kind+name] == "" {
				t.Errorf("%s%s is named, and never made", kind, name)
			}
		}
	}
	for object := range said {
		if !named[object] {
			t.Errorf("%s is made, and not named", object)
		}
	}
}
