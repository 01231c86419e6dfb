package fence_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
)

var update = flag.Bool("update", false, "write the golden policies anew; a change makes every fence in the field an altered one")

func rendered(t *testing.T) fence.Policies {
	t.Helper()
	p, err := fence.Render("team-a", 5500)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRenderedPolicies(t *testing.T) {
	p := rendered(t)
	for _, policy := range []*networkingv1.NetworkPolicy{p.Workloads, p.Supervisors} {
		got, err := yaml.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", policy.Name+".yaml")
		if *update {
			if err := os.WriteFile(golden, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is\n%s\nwant\n%s", golden, got, want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, c := range []struct {
		name, namespace string
		port            uint16
		want            string
	}{
		{"no namespace", "", 5500, "namespace"},
		{"a namespace that cannot be", "Team_A", 5500, "namespace"},
		{"no port", "team-a", 0, "sandbox_runtime.boundary_port"},
		{"a privileged port", "team-a", 1023, "sandbox_runtime.boundary_port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := fence.Render(c.namespace, c.port)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that names %s", err, c.want)
			}
			if p.Workloads != nil || p.Supervisors != nil {
				t.Errorf("policies were rendered beside the error")
			}
		})
	}
	for _, port := range []uint16{1024, 65535} {
		if _, err := fence.Render("team-a", port); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

func TestCompare(t *testing.T) {
	udp, tcp := corev1.ProtocolUDP, corev1.ProtocolTCP
	cases := []struct {
		name   string
		breaks func(*networkingv1.NetworkPolicy)
		want   fence.State
		words  string
	}{
		{"as rendered", func(*networkingv1.NetworkPolicy) {}, fence.Standing, ""},
		{"more labels and annotations", func(p *networkingv1.NetworkPolicy) {
			p.Labels["argocd.argoproj.io/instance"] = "x"
			p.Annotations = map[string]string{"note": "x"}
		}, fence.Standing, ""},
		{"empty lists", func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{} }, fence.Standing, ""},
		{"being deleted", func(p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, fence.Altered, "being deleted"},
		{"being deleted since the year zero", func(p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = &metav1.Time{} }, fence.Altered, "being deleted"},
		{"no label of ours", func(p *networkingv1.NetworkPolicy) { p.Labels = nil }, fence.Foreign, "openshell.ai/managed-by"},
		{"managed by another", func(p *networkingv1.NetworkPolicy) { p.Labels["openshell.ai/managed-by"] = "helm" }, fence.Foreign, "somebody else's"},
		{"foreign and being deleted", func(p *networkingv1.NetworkPolicy) {
			p.Labels, p.DeletionTimestamp = nil, &metav1.Time{}
		}, fence.Foreign, "somebody else's"},
		{"no component", func(p *networkingv1.NetworkPolicy) { delete(p.Labels, "openshell.ai/component") }, fence.Altered, "component is not set"},
		{"other component", func(p *networkingv1.NetworkPolicy) { p.Labels["openshell.ai/component"] = "x" }, fence.Altered, `component is "x"`},
		{"selects all", func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector = metav1.LabelSelector{} }, fence.Altered, "spec.podSelector is {}"},
		{"selects fewer", func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector.MatchLabels["team"] = "x" }, fence.Altered, "spec.podSelector"},
		{"egress not closed", func(p *networkingv1.NetworkPolicy) { p.Spec.PolicyTypes = p.Spec.PolicyTypes[:1] }, fence.Altered, "spec.policyTypes"},
		{"no types", func(p *networkingv1.NetworkPolicy) { p.Spec.PolicyTypes = nil }, fence.Altered, "spec.policyTypes is empty"},
		{"egress to all", func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}} }, fence.Altered, "spec.egress is [{}], and must be empty"},
		{"no ingress", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress = nil }, fence.Altered, "spec.ingress is empty"},
		{"second ingress rule", func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		}, fence.Altered, "spec.ingress"},
		{"from anywhere", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].From = nil }, fence.Altered, "spec.ingress"},
		{"from anywhere, as an empty list", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{} }, fence.Altered, "spec.ingress"},
		{"from all Pods", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].From[0].PodSelector = &metav1.LabelSelector{} }, fence.Altered, "spec.ingress"},
		{"from all namespaces", func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress[0].From[0].NamespaceSelector = &metav1.LabelSelector{}
		}, fence.Altered, "namespaceSelector"},
		{"second peer", func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}})
		}, fence.Altered, "10.0.0.0/8"},
		{"every port", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports = nil }, fence.Altered, "spec.ingress"},
		{"other port", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports[0].Port = new(intstr.FromInt32(5501)) }, fence.Altered, "5501"},
		{"named port", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports[0].Port = new(intstr.FromString("5500")) }, fence.Altered, "spec.ingress"},
		{"range of ports", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports[0].EndPort = new(int32(6000)) }, fence.Altered, "6000"},
		{"other protocol", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports[0].Protocol = &udp }, fence.Altered, "UDP"},
		{"no protocol", func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].Ports[0].Protocol = nil }, fence.Altered, "spec.ingress"},
		{"second port", func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress[0].Ports = append(p.Spec.Ingress[0].Ports, networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: new(intstr.FromInt32(22))})
		}, fence.Altered, "22"},
		{"another name", func(p *networkingv1.NetworkPolicy) { p.Name = "x" }, fence.Unknown, "asked for"},
		{"another namespace", func(p *networkingv1.NetworkPolicy) { p.Namespace = "team-b" }, fence.Unknown, "asked for"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wanted := rendered(t).Workloads
			existing := wanted.DeepCopy()
			c.breaks(existing)
			got := fence.Compare(existing, wanted)
			if got.State != c.want || (c.words == "") != (got.Difference == "") || !strings.Contains(got.Difference, c.words) {
				t.Errorf("got %s (%s), want %s with %q", got.State, got.Difference, c.want, c.words)
			}
		})
	}
}

func TestCompareWithoutAnObject(t *testing.T) {
	p := rendered(t)
	if got := fence.Compare(nil, p.Workloads); got.State != fence.Absent || got.Difference == "" {
		t.Errorf("no policy: %+v", got)
	}
	if got := fence.Compare(p.Workloads, nil); got.State != fence.Unknown {
		t.Errorf("nothing wanted: %+v", got)
	}
	if got := (fence.Finding{}).State; got == fence.Standing || got.String() != "unknown" || (fence.Standing+1).String() != "unknown" || fence.Standing.String() != "standing" {
		t.Errorf("the zero finding says %s", got)
	}
}

func TestARequiredAnnotation(t *testing.T) {
	wanted := rendered(t).Workloads
	wanted.Annotations = map[string]string{"a": ""}
	existing := wanted.DeepCopy()
	if got := fence.Compare(existing, wanted); got.State != fence.Standing {
		t.Errorf("equal: %+v", got)
	}
	existing.Annotations = nil // an empty value is not an absent one
	if got := fence.Compare(existing, wanted); got.State != fence.Altered || !strings.Contains(got.Difference, "annotation a is not set") {
		t.Errorf("without it: %+v", got)
	}
}

func TestADifferenceIsShort(t *testing.T) {
	wanted := rendered(t).Workloads
	existing := wanted.DeepCopy()
	for i := range 2000 {
		existing.Spec.PodSelector.MatchLabels[fmt.Sprintf("l%d", i)] = "x"
	}
	if got := fence.Compare(existing, wanted); got.State != fence.Altered || len(got.Difference) > 600 {
		t.Errorf("state %s, %d characters", got.State, len(got.Difference))
	}
}

// TestRoundTripAndMutations takes each policy through what an API server does to it, and then changes every field of its
// spec, one at a time: by taking it away, changing it, and putting something beside it.
func TestRoundTripAndMutations(t *testing.T) {
	p := rendered(t)
	for _, wanted := range []*networkingv1.NetworkPolicy{p.Workloads, p.Supervisors} {
		text, err := json.Marshal(wanted)
		if err != nil {
			t.Fatal(err)
		}
		stored := decode(t, text)
		stored.UID, stored.ResourceVersion, stored.Generation = "u", "7", 1
		if got := fence.Compare(stored, wanted); got.State != fence.Standing {
			t.Errorf("after a round trip %s is %+v", wanted.Name, got)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		count := 0
		mutate(tree["spec"], func(what string) {
			changed, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			existing := &networkingv1.NetworkPolicy{}
			if json.Unmarshal(changed, existing) != nil {
				return // no API server would have such an object
			}
			if again, err := json.Marshal(existing); err != nil || string(again) == string(text) {
				return // an unknown field, or nothing but an empty list
			}
			count++
			if got := fence.Compare(existing, wanted); got.State != fence.Altered {
				t.Errorf("%s, %s: %s is %+v", wanted.Name, what, changed, got)
			}
		})
		if count < 10 {
			t.Errorf("only %d mutations of %s were tried", count, wanted.Name)
		}
	}
}

func decode(t *testing.T, text []byte) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{}
	if err := json.Unmarshal(text, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// mutate changes every node below v in place, calls try, and puts it back.
func mutate(v any, try func(what string)) {
	switch node := v.(type) {
	case map[string]any:
		for key, value := range node {
			mutate(value, try)
			delete(node, key)
			try("without " + key)
			for _, other := range others(value) {
				node[key] = other
				try("other " + key)
			}
			node[key] = value
		}
		for _, key := range []string{
			"matchLabels", "matchExpressions", "podSelector", "namespaceSelector", "ipBlock", "ports", "from", "to", "ingress", "egress",
			"endPort", "port", "protocol", "policyTypes", "x",
		} {
			if _, taken := node[key]; taken {
				continue
			}
			for _, value := range others(nil) {
				node[key] = value
				try("with " + key)
			}
			delete(node, key)
		}
	case []any:
		for i, value := range node {
			mutate(value, try)
			for _, other := range others(value) {
				node[i] = other
				try("other element")
			}
			node[i] = value
		}
	}
}

// others are values to put in the place of v.
func others(v any) []any {
	all := []any{"x", float64(1), map[string]any{}, map[string]any{"x": "y"}, []any{"x"}, []any{map[string]any{}}, []any{}}
	if list, ok := v.([]any); ok {
		all = append(all, append(append([]any{}, list...), list[0]), list[1:])
	}
	return all
}
