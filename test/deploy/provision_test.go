package deploy_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// What runs `nswatch secrets`.
const (
	once   = "Job portcullis-provision"
	weekly = "CronJob portcullis-provision"
)

// provision runs `nswatch secrets` as what is shipped does: with its arguments, with the settings of the overlay, and as an account that has
// just the Role of its account, in a namespace of the test.
type provision struct {
	*cluster.Cluster
	world     *deploy.World
	namespace string
}

func newProvision(t *testing.T, c *cluster.Cluster, of string) *provision {
	t.Helper()
	w := survey(t, rendered(t)[of].Objects)
	p := &provision{Cluster: c, world: w, namespace: c.Namespace(t)}
	rbac := c.Client().RbacV1()
	for _, binding := range w.Bindings {
		if binding.Namespace != "portcullis" || !strings.HasPrefix(binding.Ref.Name, "provision") {
			continue
		}
		rules := p.rules(t, binding.Ref.Name)
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: binding.Ref.Name}, Rules: rules}
		if _, err := rbac.Roles(p.namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		bound := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name}, RoleRef: binding.Ref}
		for _, subject := range binding.Subjects {
			bound.Subjects = append(bound.Subjects, rbacv1.Subject{Kind: subject.Kind, Name: subject.Name, Namespace: p.namespace})
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: subject.Name}}
			if _, err := c.Client().CoreV1().ServiceAccounts(p.namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rbac.RoleBindings(p.namespace).Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// rules are those of a Role that is shipped.
func (p *provision) rules(t *testing.T, role string) []rbacv1.PolicyRule {
	t.Helper()
	i := slices.IndexFunc(p.world.Roles, func(r deploy.Role) bool { return r.Namespace == "portcullis" && r.Name == role })
	if i < 0 {
		t.Fatalf("there is no Role %s", role)
	}
	return p.world.Roles[i].Rules
}

// pod is that of the Job or of the CronJob.
func (p *provision) pod(t *testing.T, workload string) deploy.Pod {
	t.Helper()
	i := slices.IndexFunc(p.world.Pods, func(pod deploy.Pod) bool { return pod.Workload == workload })
	if i < 0 {
		t.Fatalf("there is no %s", workload)
	}
	return p.world.Pods[i]
}

// run does what the Job or the CronJob does, and returns what it said of each object.
func (p *provision) run(t *testing.T, workload string) (map[string]string, error) {
	t.Helper()
	pod := p.pod(t, workload)
	config := program.Settings(t, settingsOf(p.world, pod)+
		fmt.Sprintf("\n[portcullis.kubernetes]\nkubeconfig = %q\n", p.ServiceAccountKubeconfig(t, p.namespace, pod.Spec.ServiceAccountName)))
	args := slices.Clone(pod.Spec.Containers[0].Args)
	i := slices.Index(args, "/etc/portcullis/config/gateway.toml")
	if i < 0 {
		t.Fatalf("%s runs with %q, without its settings", workload, args)
	}
	args[i] = config
	out, err := program.Command(t, "nswatch", append(args, "--namespace", p.namespace)...).CombinedOutput()
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

// says runs it, and demands that it says so of so many objects and nothing else of any.
func (p *provision) says(t *testing.T, workload string, want map[string]int) {
	t.Helper()
	said, err := p.run(t, workload)
	have := map[string]int{}
	for _, what := range said {
		have[what]++
	}
	if err != nil || !maps.Equal(have, want) {
		t.Fatalf("%s said %v: %v; want %v", workload, said, err, want)
	}
}

// lose deletes Secrets.
func (p *provision) lose(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := p.Client().CoreV1().Secrets(p.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// spoil gives Secrets another ca.crt than they must have.
func (p *provision) spoil(t *testing.T, names ...string) {
	t.Helper()
	secrets := p.Client().CoreV1().Secrets(p.namespace)
	for _, name := range names {
		object, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		object.Data["ca.crt"] = []byte("another")
		if _, err := secrets.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// everythingIsThere: what Pods of the installation wait for.
func (p *provision) everythingIsThere(t *testing.T) {
	t.Helper()
	core := p.Client().CoreV1()
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
}

// isBounded: of all Secrets and ConfigMaps of the namespace, and of one that is nobody's, the account may what its Role says and no more.
func (p *provision) isBounded(t *testing.T, account string) {
	t.Helper()
	core := p.Client().CoreV1()
	secrets, err := core.Secrets(p.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	configs, err := core.ConfigMaps(p.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{"secrets": {"", "another"}, "configmaps": {"", "another"}, "pods": {""}, "serviceaccounts": {""}, "roles": {""}}
	for _, o := range secrets.Items {
		names["secrets"] = append(names["secrets"], o.Name)
	}
	for _, o := range configs.Items {
		names["configmaps"] = append(names["configmaps"], o.Name)
	}
	rules := p.rules(t, account)
	tried := 0
	for resource, objects := range names {
		group := map[string]string{"roles": rbacv1.GroupName}[resource]
		for _, name := range objects {
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
				if name != "" && verb == "create" {
					continue // it has no name
				}
				want := slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
					return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb) &&
						(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
				})
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + p.namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.namespace, Verb: verb, Group: group, Resource: resource, Name: name},
				}}
				answer, err := p.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if tried++; answer.Status.Allowed != want {
					t.Errorf("that %s may %s %s %q is %t, and must be %t", account, verb, resource, name, answer.Status.Allowed, want)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d rights were tried", tried)
	}
	mine := p.ServiceAccountClient(t, p.namespace, account).CoreV1()
	if _, err := mine.Secrets(p.namespace).Get(t.Context(), "another", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another Secret: %v", err)
	}
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

// TestProvision: the Job's and the CronJob's own commands, each as its own account with just the Role that is shipped, make every Secret and
// ConfigMap that Pods of the installation wait for, and renew what is to be renewed. That each verb on each name is needed, the tests of
// nswatch show.
func TestProvision(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	p := newProvision(t, c, "certs-job")
	beside := newProvision(t, c, "gateway-reader")
	beside.says(t, once, map[string]int{"made": 17})
	beside.says(t, weekly, map[string]int{"kept": 7})
	beside.isBounded(t, "provision")
	certificates := []string{
		"portcullis-tokenauth-mesh-tls", "portcullis-supervisorctl-mesh-tls", "portcullis-lifecycle-mesh-tls", "portcullis-relay-mesh-tls", "portcullis-nats-tls",
	}
	if _, err := p.run(t, weekly); err == nil || !strings.Contains(err.Error(), "a renewal makes nothing") {
		t.Errorf("a renewal of nothing: %v", err)
	}
	p.says(t, once, map[string]int{"made": 16})
	p.everythingIsThere(t)
	p.compareCertificates(t)
	p.says(t, weekly, map[string]int{"kept": 7})
	p.spoil(t, certificates...)
	p.says(t, weekly, map[string]int{"kept": 2, "renewed": 5})
	p.lose(t, "portcullis-mesh-ca", "portcullis-nats-ca", "portcullis-tokenauth-nats")
	// 5 certificates, 4 identities that know the old authority, and the servers' file for the new one.
	p.says(t, once, map[string]int{"made": 3, "renewed": 10, "kept": 3})
	p.says(t, once, map[string]int{"kept": 16})
	p.isBounded(t, "provision")
	p.isBounded(t, "provision-renewal")
}

// TestProvisionBesideCertManager: the same with certificates that somebody else makes. Nothing goes on for ever there.
func TestProvisionBesideCertManager(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	p := newProvision(t, c, "certs-cert-manager")
	if i := slices.IndexFunc(p.world.Pods, func(pod deploy.Pod) bool { return pod.Workload == weekly }); i >= 0 {
		t.Error("there is a CronJob")
	}
	if _, err := p.run(t, once); err == nil || !strings.Contains(err.Error(), "is not there yet") {
		t.Errorf("without NATS' certificate: %v", err)
	}
	servers := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "portcullis-nats-tls"}, Data: map[string][]byte{"ca.crt": []byte("one")}}
	if _, err := c.Client().CoreV1().Secrets(p.namespace).Create(t.Context(), servers, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The keys of audit events and of the list were made already: they need no certificate.
	p.says(t, once, map[string]int{"kept": 3, "made": 6})
	p.spoil(t, "portcullis-nats-tls")
	p.lose(t, "portcullis-tokenauth-nats")
	p.says(t, once, map[string]int{"made": 1, "renewed": 5, "kept": 3})
	p.says(t, once, map[string]int{"kept": 9})
	p.isBounded(t, "provision")
	if rules := newProvision(t, c, "gateway-reader-cert-manager").rules(t, "provision"); !slices.Contains(rules[2].ResourceNames, "portcullis-gateway-nats") {
		t.Errorf("a gateway's identity cannot be made beside cert-manager: %v", rules)
	}
}

// TestAuthoritiesKeepTheirKey: an authority of cert-manager never gets another key by itself: what the old one has signed and what the new one
// signs would not trust each other.
func TestAuthoritiesKeepTheirKey(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, object := range rendered(t)["certs-cert-manager"].Objects {
		if isCA, _, _ := unstructured.NestedBool(object.Object, "spec", "isCA"); object.GetKind() != "Certificate" || !isCA {
			continue
		}
		seen++
		if policy, _, _ := unstructured.NestedString(object.Object, "spec", "privateKey", "rotationPolicy"); policy != "Never" {
			t.Errorf("%s has the rotationPolicy %q", object.GetName(), policy)
		}
	}
	if seen != 2 {
		t.Errorf("there are %d authorities", seen)
	}
}
