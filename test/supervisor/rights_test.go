package supervisor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/rights"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// verbs are those of objects.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"}

// denials are resources of which the daemon may do only what its Rights say: those that it has rights to, and those that would make it
// powerful.
var denials = []struct{ group, resource string }{
	{"", "pods"},
	{"", "pods/exec"},
	{"", "pods/attach"},
	{"", "pods/portforward"},
	{"", "pods/log"},
	{"", "pods/status"},
	{"", "pods/binding"},
	{"", "pods/ephemeralcontainers"},
	{"", "services"},
	{"", "secrets"},
	{"", "configmaps"},
	{"", "serviceaccounts/token"},
	{"", "namespaces"},
	{"", "nodes"},
	{"networking.k8s.io", "networkpolicies"},
	{"agents.x-k8s.io", "sandboxes"},
	{"agents.x-k8s.io", "sandboxes/status"},
	{"agents.x-k8s.io", "sandboxes/finalizers"},
	{"apps", "deployments"},
	{"authentication.k8s.io", "tokenreviews"},
	{"rbac.authorization.k8s.io", "rolebindings"},
	{"coordination.k8s.io", "leases"},
	{"*", "*"},
}

// The API server grants the daemon exactly its Rights: each verb of each, and no other verb on them or on what would make it powerful,
// where its sandboxes are, at home, elsewhere and of the whole cluster, whichever object is named.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, mode := range []supervisor.Mode{supervisor.Operator, supervisor.Shared, supervisor.Managed} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			c := sharedCluster(t)
			s := supervisor.NewAs(t, c, newest, supervisor.Setup{Mode: mode, ClientTLS: clientTLS, PullSecrets: pullSecrets})
			cfg := c.ServiceAccountConfig(t, s.Home(), "supervisorctl")
			cfg.QPS = -1
			client, err := kubernetes.NewForConfig(cfg)
			must(t, err)
			granted, err := rights.Granted(s.Rights())
			must(t, err)
			ns := namespace(t, s)
			nobody := c.ServiceAccountClient(t, s.Home(), "default")
			for _, place := range []string{ns, s.Home(), "kube-system"} {
				demandRules(t, client, nobody, granted.In(place), place)
			}
			demandAnswers(t, client, granted, ns, s.Home())
			demandDenied(t, s, client, ns)
		})
	}
}

// demandRules demands that RBAC knows of no rule for the daemon in a namespace but those that are granted, and those of every ServiceAccount.
func demandRules(t *testing.T, client, nobody kubernetes.Interface, granted map[rights.Right]bool, ns string) {
	t.Helper()
	want := rules(t, nobody, ns)
	maps.Copy(want, granted)
	if diff := cmp.Diff(want, rules(t, client, ns)); diff != "" {
		t.Errorf("rules in namespace %s (-want +got):\n%s", ns, diff)
	}
}

// rules are what RBAC knows of.
func rules(t *testing.T, client kubernetes.Interface, ns string) map[rights.Right]bool {
	t.Helper()
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: ns}}, metav1.CreateOptions{})
	must(t, err)
	// The authorizer of nodes has rules for nodes only, and does not list them.
	if why := review.Status.EvaluationError; why != "" && !strings.Contains(why, "node authorizer") {
		t.Fatalf("the rules are not known: %s", why)
	}
	return rights.Of(review.Status.ResourceRules)
}

// demandAnswers asks for every verb on every resource of denials.
func demandAnswers(t *testing.T, client kubernetes.Interface, granted rights.Grants, ns, home string) {
	t.Helper()
	yes := 0
	for _, of := range denials {
		resource, sub, _ := strings.Cut(of.resource, "/")
		places, names := []string{ns}, map[string]bool{"": true}
		for _, place := range []string{ns, home} {
			for r := range granted.In(place) {
				if r.Resource == of.resource {
					places = []string{ns, home, "kube-system", ""}
					names[r.Name] = true
				}
			}
		}
		if len(names) > 1 { // a right that is limited to some is none to others
			names["some"] = true
		}
		for _, q := range questions(places, slices.Sorted(maps.Keys(names))) {
			q.Group, q.Resource, q.Subresource = of.group, resource, sub
			answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &q}}, metav1.CreateOptions{})
			must(t, err)
			want := granted.Covers(apiproxy.Use{Verb: q.Verb, Group: of.group, Resource: of.resource, Namespace: q.Namespace, Name: q.Name})
			if answer.Status.Allowed != want {
				t.Errorf("allowed is %t, want %t: %+v (%s)", answer.Status.Allowed, want, q, answer.Status.Reason)
			} else if want {
				yes++
			}
		}
	}
	if yes == 0 {
		t.Error("nothing is allowed, so nothing is proven")
	}
}

// questions are whether each verb is allowed in each of the namespaces, on each of the names.
func questions(namespaces, names []string) []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
	for _, verb := range verbs {
		for _, ns := range namespaces {
			for _, name := range names {
				all = append(all, authorizationv1.ResourceAttributes{Verb: verb, Namespace: ns, Name: name})
			}
		}
	}
	return all
}

// demandDenied makes the requests that would hurt most, and demands that each is forbidden.
func demandDenied(t *testing.T, s *supervisor.Site, client kubernetes.Interface, ns string) {
	t.Helper()
	ctx, core := t.Context(), client.CoreV1()
	b := s.Box(ns)
	sandboxes := dynamicAs(t, s).Resource(s.Dialect.Version.Resource()).Namespace(ns)
	box, err := s.Cluster.Dynamic().Resource(s.Dialect.Version.Resource()).Namespace(ns).Get(ctx, b.Name, metav1.GetOptions{})
	must(t, err)
	get, list, drop := metav1.GetOptions{}, metav1.ListOptions{}, metav1.DeleteOptions{}
	for name, request := range map[string]func() error{
		"read a Secret":        func() error { _, err := core.Secrets(ns).Get(ctx, clientTLS, get); return err },
		"read another source":  func() error { _, err := core.Secrets(s.Home()).Get(ctx, "other", get); return err },
		"list Secrets":         func() error { _, err := core.Secrets(ns).List(ctx, list); return err },
		"list Secrets at home": func() error { _, err := core.Secrets(s.Home()).List(ctx, list); return err },
		"list all Secrets":     func() error { _, err := core.Secrets("").List(ctx, list); return err },
		"watch Secrets":        func() error { _, err := core.Secrets(ns).Watch(ctx, list); return err },
		"delete all Secrets":   func() error { return core.Secrets(ns).DeleteCollection(ctx, drop, list) },
		"read ConfigMaps":      func() error { _, err := core.ConfigMaps(ns).List(ctx, list); return err },
		"list nodes":           func() error { _, err := core.Nodes().List(ctx, list); return err },
		"list namespaces":      func() error { _, err := core.Namespaces().List(ctx, list); return err },
		"delete a namespace":   func() error { return core.Namespaces().Delete(ctx, ns, drop) },
		"delete a policy": func() error {
			return client.NetworkingV1().NetworkPolicies(ns).Delete(ctx, "openshell-sandbox-workloads", drop)
		},
		"delete a Sandbox":        func() error { return sandboxes.Delete(ctx, b.Name, drop) },
		"make a Sandbox":          func() error { _, err := sandboxes.Create(ctx, box, metav1.CreateOptions{}); return err },
		"replace a Sandbox":       func() error { _, err := sandboxes.Update(ctx, box, metav1.UpdateOptions{}); return err },
		"write a Sandbox's state": func() error { _, err := sandboxes.UpdateStatus(ctx, box, metav1.UpdateOptions{}); return err },
		"review a token": func() error {
			_, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{})
			return err
		},
		"have a token": func() error {
			_, err := core.ServiceAccounts(ns).CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		},
		"run a command": func() error {
			return core.RESTClient().Post().Resource("pods").Namespace(ns).Name(b.Name).SubResource("exec").Do(ctx).Error()
		},
	} {
		if err := request(); !apierrors.IsForbidden(err) {
			t.Errorf("to %s is not forbidden: %v", name, err)
		}
	}
	if s.Mode == supervisor.Shared { // its rights end at its namespace
		for name, request := range map[string]func() error{
			"list Pods elsewhere":       func() error { _, err := core.Pods("default").List(ctx, list); return err },
			"list all Pods":             func() error { _, err := core.Pods("").List(ctx, list); return err },
			"delete a Secret elsewhere": func() error { return core.Secrets("default").Delete(ctx, "some", drop) },
			"read another namespace":    func() error { _, err := core.Namespaces().Get(ctx, "default", get); return err },
		} {
			if err := request(); !apierrors.IsForbidden(err) {
				t.Errorf("to %s is not forbidden: %v", name, err)
			}
		}
	}
}

func dynamicAs(t *testing.T, s *supervisor.Site) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Cluster.ServiceAccountConfig(t, s.Home(), "supervisorctl"))
	must(t, err)
	return client
}
