package fence_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
)

func supervisor() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"openshell.ai/boundary-role": "supervisor"}}
}

func TestReopened(t *testing.T) {
	udp := corev1.ProtocolUDP
	labels := map[string]string{"openshell.ai/boundary-pair": "id", "app": "web"}
	port := func(n int32) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(n))}}
	}
	from := func(peers ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer { return peers }
	in := func(rules ...networkingv1.NetworkPolicyIngressRule) networkingv1.NetworkPolicySpec {
		return networkingv1.NetworkPolicySpec{Ingress: rules}
	}
	out := func(rules ...networkingv1.NetworkPolicyEgressRule) networkingv1.NetworkPolicySpec {
		return networkingv1.NetworkPolicySpec{Egress: rules}
	}
	selecting := func(key, value string, spec networkingv1.NetworkPolicySpec) networkingv1.NetworkPolicySpec {
		spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		return spec
	}
	typed := func(spec networkingv1.NetworkPolicySpec, types ...networkingv1.PolicyType) networkingv1.NetworkPolicySpec {
		spec.PolicyTypes = types
		return spec
	}
	for _, c := range []struct {
		name  string
		spec  networkingv1.NetworkPolicySpec
		words string // none: nothing is opened
	}{
		{"isolates only", in(), ""},
		{"default deny", typed(in(), "Ingress", "Egress"), ""},
		{"egress to all", out(networkingv1.NetworkPolicyEgressRule{}), "egress to anywhere on every port"},
		{"egress to the internet", out(networkingv1.NetworkPolicyEgressRule{To: from(networkingv1.NetworkPolicyPeer{
			IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8"}},
		})}), "egress to addresses 0.0.0.0/0 except 10.0.0.0/8 on every port"},
		{"egress to one address", out(networkingv1.NetworkPolicyEgressRule{To: from(networkingv1.NetworkPolicyPeer{
			IPBlock: &networkingv1.IPBlock{CIDR: "10.1.2.3/32"},
		}), Ports: port(443)}), "egress to addresses 10.1.2.3/32 on TCP port 443"},
		{"egress for DNS", out(networkingv1.NetworkPolicyEgressRule{
			To:    from(networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}}),
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: new(intstr.FromInt32(53))}},
		}), "egress to Pods with k8s-app=kube-dns of all namespaces on UDP port 53"},
		{"egress to supervisors is not ours", out(networkingv1.NetworkPolicyEgressRule{To: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: port(5500)}), "egress to Pods with openshell.ai/boundary-role=supervisor of this namespace"},
		{"egress for a label of the caller", selecting("app", "web", out(networkingv1.NetworkPolicyEgressRule{})), "egress"},
		{"egress for the pair", selecting("openshell.ai/boundary-pair", "id", out(networkingv1.NetworkPolicyEgressRule{})), "egress"},
		{"egress for workloads", selecting("openshell.ai/boundary-role", "workload", out(networkingv1.NetworkPolicyEgressRule{})), "egress"},
		{"egress for supervisors", selecting("openshell.ai/boundary-role", "supervisor", out(networkingv1.NetworkPolicyEgressRule{})), ""},
		{"egress for other Pods", selecting("app", "db", out(networkingv1.NetworkPolicyEgressRule{})), ""},
		{"egress for Pods without a label", networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "quarantine", Operator: metav1.LabelSelectorOpDoesNotExist}}},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
		}, "egress"},
		{"a selector that cannot be read", networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}},
		}, "cannot be read"},
		{"egress in a policy for ingress", typed(out(networkingv1.NetworkPolicyEgressRule{}), "Ingress"), ""},
		{"ingress in a policy for egress", typed(in(networkingv1.NetworkPolicyIngressRule{}), "Egress"), ""},
		{"ingress as ours", in(networkingv1.NetworkPolicyIngressRule{From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: port(5500)}), ""},
		{"ingress less than ours", in(networkingv1.NetworkPolicyIngressRule{From: from(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"openshell.ai/boundary-role": "supervisor", "openshell.ai/boundary-pair": "id"},
		}}), Ports: port(5500)}), ""},
		{"ingress from all", in(networkingv1.NetworkPolicyIngressRule{}), "ingress from anywhere on every port"},
		{"ingress from all to our port", in(networkingv1.NetworkPolicyIngressRule{Ports: port(5500)}), "ingress from anywhere on TCP port 5500"},
		{"ingress from supervisors to every port", in(networkingv1.NetworkPolicyIngressRule{From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()})}), "on every port"},
		{"ingress from supervisors to every TCP port", in(networkingv1.NetworkPolicyIngressRule{
			From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: []networkingv1.NetworkPolicyPort{{}},
		}), "on every TCP port"},
		{"ingress from supervisors to SSH", in(networkingv1.NetworkPolicyIngressRule{From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: port(2222)}), "TCP port 2222"},
		{"ingress to a named port", in(networkingv1.NetworkPolicyIngressRule{
			From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("ssh"))}},
		}), "TCP port ssh"},
		{"ingress to a range", in(networkingv1.NetworkPolicyIngressRule{
			From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(5500)), EndPort: new(int32(6000))}},
		}), "TCP ports 5500 to 6000"},
		{"ingress over UDP", in(networkingv1.NetworkPolicyIngressRule{
			From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: new(intstr.FromInt32(5500))}},
		}), "UDP port 5500"},
		{"ingress from supervisors of all namespaces", in(networkingv1.NetworkPolicyIngressRule{
			From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor(), NamespaceSelector: &metav1.LabelSelector{}}), Ports: port(5500),
		}), "of all namespaces"},
		{"ingress from a whole namespace", in(networkingv1.NetworkPolicyIngressRule{
			From: from(networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}), Ports: port(5500),
		}), "all Pods of namespaces with a=b"},
		{"ingress from all Pods", in(networkingv1.NetworkPolicyIngressRule{From: from(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}), Ports: port(5500)}), "all Pods of this namespace"},
		{"ours and another rule", in(
			networkingv1.NetworkPolicyIngressRule{From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}), Ports: port(5500)},
			networkingv1.NetworkPolicyIngressRule{Ports: port(22)}), "ingress from anywhere on TCP port 22"},
		{"ours and a second peer", in(networkingv1.NetworkPolicyIngressRule{
			From: from(networkingv1.NetworkPolicyPeer{PodSelector: supervisor()}, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "::/0"}}), Ports: port(5500),
		}), "addresses ::/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "u"}, Spec: c.spec}
			fenced := rendered(t)
			got := fence.Reopened([]networkingv1.NetworkPolicy{*fenced.Workloads, policy, *fenced.Supervisors}, 5500, labels)
			switch {
			case c.words == "" && len(got) > 0:
				t.Errorf("%s is reported", got[0])
			case c.words == "":
			case len(got) != 1 || got[0].Policy != "other" || got[0].UID != "u" || !strings.Contains(got[0].String(), c.words):
				t.Errorf("got %v, want %q", got, c.words)
			case got[0].Egress != (len(c.spec.Egress) > 0) && c.words != "cannot be read":
				t.Errorf("it opens egress: %t", got[0].Egress)
			case got[0].Ingress != (len(c.spec.Ingress) > 0) && c.words != "cannot be read":
				t.Errorf("it opens ingress: %t", got[0].Ingress)
			case c.words == "cannot be read" && (!got[0].Egress || !got[0].Ingress):
				t.Error("a selector that cannot be read leaves a direction closed")
			}
		})
	}
	if len(labels) != 2 {
		t.Error("the caller's labels were written to")
	}
}

// TestReopenedWithoutLabels: a Pod whose labels nobody has is still a workload.
func TestReopenedWithoutLabels(t *testing.T) {
	policy := networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"openshell.ai/boundary-role": "workload"}},
		Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
	}}
	for _, labels := range []map[string]string{nil, {"openshell.ai/boundary-role": "supervisor"}} {
		if got := fence.Reopened([]networkingv1.NetworkPolicy{policy}, 5500, labels); len(got) != 1 {
			t.Errorf("labels %v: %v", labels, got)
		}
	}
}

func TestReopenedIsOrderedAndShort(t *testing.T) {
	var policies []networkingv1.NetworkPolicy
	for _, name := range []string{"b", "c", "a"} {
		p := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for i := range 500 {
			var rule networkingv1.NetworkPolicyEgressRule
			for range 300 {
				rule.To = append(rule.To, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("10.0.0.%d/32", i%256)}})
			}
			p.Spec.Egress = append(p.Spec.Egress, rule)
		}
		policies = append(policies, p)
	}
	got := fence.Reopened(policies, 5500, nil)
	if len(got) != 3 || got[0].Policy != "a" || got[2].Policy != "c" {
		t.Fatalf("got %d openings, want a, b and c", len(got))
	}
	if text := got[0].String(); len(text) > 2000 || !strings.Contains(text, "and 496 more") || !strings.Contains(text, "296 more") {
		t.Errorf("%d characters: %s", len(text), text)
	}
}

// TestFourRulesAreToldWhole, and a fifth is counted.
func TestFourRulesAreToldWhole(t *testing.T) {
	for _, c := range []struct {
		rules, told int
		last        string
	}{{4, 4, "egress to anywhere on every port"}, {5, 5, "and 1 more"}} {
		policy := networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Egress: make([]networkingv1.NetworkPolicyEgressRule, c.rules)}}
		got := fence.Reopened([]networkingv1.NetworkPolicy{policy}, 5500, nil)
		if len(got) != 1 || len(got[0].Opens) != c.told || got[0].Opens[c.told-1] != c.last {
			t.Errorf("%d rules: %v", c.rules, got)
		}
	}
}

// TestAnAlteredFenceIsAlsoAnOpening: the policy need not be foreign to open what it should close.
func TestAnAlteredFenceIsAlsoAnOpening(t *testing.T) {
	altered := rendered(t).Workloads
	altered.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	if got := fence.Reopened([]networkingv1.NetworkPolicy{*altered}, 5500, nil); len(got) != 1 || !got[0].Egress || got[0].Ingress {
		t.Errorf("got %+v", got)
	}
}
