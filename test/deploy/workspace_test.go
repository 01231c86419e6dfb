package deploy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// rightsOf are what a role grants: "verb resource.group", with the name where there is one.
func rightsOf(t *testing.T, w *deploy.World, namespace, name string) map[string]bool {
	t.Helper()
	i := slices.IndexFunc(w.Roles, func(r deploy.Role) bool { return r.Namespace == namespace && r.Name == name })
	if i < 0 {
		t.Fatalf("there is no role %s/%s", namespace, name)
	}
	granted := map[string]bool{}
	for _, rule := range w.Roles[i].Rules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, of := range rule.Resources {
					for _, name := range append(slices.Clone(rule.ResourceNames), "")[:max(1, len(rule.ResourceNames))] {
						granted[strings.TrimSpace(verb+" "+of+"."+group+" "+name)] = true
					}
				}
			}
		}
	}
	return granted
}

// more are the roles that a rendering made from operator-label has besides, by their namespace and name. That of
// components/gateway-sidecar/source is for supervisorctl; the others are for accounts of their own, of which none is a daemon's.
var more = map[string][]string{
	"ha": nil, "openshift-gateway-relay": provisioned, "openshift-gateway-lifecycle": provisioned, "gateway-relay": nil, "gateway-lifecycle": nil,
	"prometheus": nil, "prometheus-relay": nil, "prometheus-lifecycle": nil,
	"dev": provisioned, "openshift": provisioned, "certs-job": provisioned, "pull-secret": provisioned,
	"gateway-reader": provisioned, "certs-cert-manager": {"portcullis/provision"}, "gateway-reader-cert-manager": {"portcullis/provision"},
	"gateway-supervisors": {"openshell/supervisorctl-client-tls"},
}

// provisioned are the roles of components/certs-job.
var provisioned = []string{"portcullis/provision", "portcullis/provision-renewal"}

// TestRightsAreTheSame: what is made from an overlay has its roles, bound to the same accounts, and no others but for what a component is about;
// so what test/rights shows of the overlay holds.
func TestRightsAreTheSame(t *testing.T) {
	t.Parallel()
	all := rendered(t)
	want := survey(t, all["operator-label"].Objects)
	for name, besides := range more {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have := survey(t, all[name].Objects)
			kept := slices.DeleteFunc(slices.Clone(have.Roles), func(r deploy.Role) bool { return slices.Contains(besides, r.Namespace+"/"+r.Name) })
			if diff := cmp.Diff(want.Roles, kept); diff != "" || len(kept)+len(besides) != len(have.Roles) {
				t.Errorf("it has not all of %v, or other rights than operator-label besides (-operator-label +%s):\n%s", besides, name, diff)
			}
			bound := slices.DeleteFunc(slices.Clone(have.Bindings), func(b deploy.Binding) bool {
				return b.Ref.Kind == "Role" && slices.Contains(besides, b.Namespace+"/"+b.Ref.Name) && !slices.ContainsFunc(b.Subjects, isDaemon)
			})
			bindings := want.Bindings
			if slices.Contains(besides, source.Namespace+"/"+source.Name) {
				bindings = append(slices.Clone(bindings), source)
			}
			slices.SortFunc(bound, byName)
			if diff := cmp.Diff(slices.SortedFunc(slices.Values(bindings), byName), bound); diff != "" {
				t.Errorf("other bindings than those of operator-label (-operator-label +%s):\n%s", name, diff)
			}
		})
	}
}

// source is the one binding of a daemon that a component adds: components/gateway-sidecar/source.
var source = deploy.Binding{
	Namespace: "openshell", Name: "supervisorctl-client-tls",
	Ref:      rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "supervisorctl-client-tls"},
	Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "supervisorctl", Namespace: "portcullis"}},
}

func isDaemon(s rbacv1.Subject) bool { return slices.Contains(daemons, s.Name) }

func byName(a, b deploy.Binding) int {
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// TestRightsAreShared: what the component rights-per-workspace takes away, the component workspace gives back in one namespace, and
// nothing is in both. So the daemons' own tests of their rights, which are of the two together, hold.
func TestRightsAreShared(t *testing.T) {
	t.Parallel()
	all := rendered(t)
	for _, daemon := range []string{"lifecycle", "supervisorctl"} {
		t.Run(daemon, func(t *testing.T) {
			t.Parallel()
			whole := rightsOf(t, survey(t, all["operator-label"].Objects), "", "portcullis-"+daemon)
			left := rightsOf(t, survey(t, all["guarded"].Objects), "", "portcullis-"+daemon)
			given := rightsOf(t, survey(t, all["workspace"].Objects), "team-a", "portcullis-"+daemon)
			together := maps.Clone(left)
			for right := range given {
				if left[right] {
					t.Errorf("%q is granted in every namespace and in the workspace", right)
				}
				together[right] = true
			}
			if diff := cmp.Diff(whole, together); diff != "" {
				t.Errorf("the two together are not what the base grants (- base, + both):\n%s", diff)
			}
			for right := range left {
				for _, verb := range []string{"create ", "delete ", "patch ", "update "} {
					if len(right) > len(verb) && right[:len(verb)] == verb {
						t.Errorf("%q is still granted everywhere", right)
					}
				}
			}
		})
	}
}

// TestSSHComesFromTheGateway: where others than lifecycle make the namespace of sandboxes, a policy lets the gateway in to supervisors for SSH,
// and nobody else (contract 12.3, 12.5); it is the same in both of these.
func TestSSHComesFromTheGateway(t *testing.T) {
	t.Parallel()
	all := rendered(t)
	of := func(rendering, namespace string) networkingv1.NetworkPolicySpec {
		policies := survey(t, all[rendering].Objects).Policies
		i := slices.IndexFunc(policies, func(p networkingv1.NetworkPolicy) bool {
			return p.Namespace == namespace && p.Name == workspace.SSHIngress
		})
		if i < 0 {
			t.Fatalf("%s has no policy %s/%s", rendering, namespace, workspace.SSHIngress)
		}
		return policies[i].Spec
	}
	shared := of("shared", "openshell")
	if diff := cmp.Diff(of("workspace", "team-a"), shared); diff != "" {
		t.Errorf("another in shared mode than that of workspace (-workspace +shared):\n%s", diff)
	}
	if rule := shared.Ingress; len(rule) != 1 || len(rule[0].From) != 1 || len(rule[0].Ports) != 1 || rule[0].Ports[0].Port.IntValue() != 2222 ||
		rule[0].From[0].PodSelector == nil || rule[0].From[0].NamespaceSelector == nil || shared.PodSelector.MatchLabels[workspace.LabelManagedBy] != workspace.ManagedByOpenShell {
		t.Errorf("it lets in: %+v", shared)
	}
}
