package fence_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// goesAnywhere reports whether policies, as the API defines them, let a Pod out to wherever it likes: none selects it for egress, or one
// that does has a rule without a peer and a port.
func goesAnywhere(t *testing.T, role string, policies ...*networkingv1.NetworkPolicy) bool {
	t.Helper()
	pod, isolated := labels.Set{workspace.LabelBoundaryRole: role}, false
	for _, p := range policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(pod) || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			continue
		}
		isolated = true
		for _, rule := range p.Spec.Egress {
			if len(rule.To) == 0 && len(rule.Ports) == 0 {
				return true
			}
		}
	}
	return !isolated
}

// TestReplayP04ADefaultDenyOfTheNamespace does not cut supervisors off: what they may is said by a policy of ours, and does not rest on
// there being no other. Package test/e2e has the same with a network that enforces it.
func TestReplayP04ADefaultDenyOfTheNamespace(t *testing.T) {
	ours, err := fence.Render("team", 5500)
	if err != nil {
		t.Fatal(err)
	}
	deny := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}}
	if goesAnywhere(t, workspace.RoleSupervisor, deny) || goesAnywhere(t, workspace.RoleSupervisor, deny, ours.Workloads) {
		t.Fatal("the default-deny denies nothing")
	}
	if !goesAnywhere(t, workspace.RoleSupervisor, deny, ours.Workloads, ours.Supervisors) {
		t.Errorf("supervisors are cut off: %+v", ours.Supervisors.Spec)
	}
	if goesAnywhere(t, workspace.RoleWorkload, ours.Workloads, ours.Supervisors) {
		t.Errorf("workloads are let out: %+v", ours.Workloads.Spec)
	}
}

// TestReplayP10NoPortOfDNS is in any rule, so none can be the wrong one: a workload asks no name server, and a supervisor every one, at
// whatever port the cluster's listens behind its Service.
func TestReplayP10NoPortOfDNS(t *testing.T) {
	const boundary = 5500
	ours, err := fence.Render("team", boundary)
	if err != nil {
		t.Fatal(err)
	}
	var named []networkingv1.NetworkPolicyPort
	for _, p := range []*networkingv1.NetworkPolicy{ours.Workloads, ours.Supervisors} {
		for _, rule := range p.Spec.Ingress {
			named = append(named, rule.Ports...)
		}
		for _, rule := range p.Spec.Egress {
			named = append(named, rule.Ports...)
		}
	}
	if len(named) != 1 || *named[0].Protocol != corev1.ProtocolTCP || named[0].Port.IntVal != boundary {
		t.Errorf("the ports are %+v, and must be the boundary's alone", named)
	}
	if !goesAnywhere(t, workspace.RoleSupervisor, ours.Workloads, ours.Supervisors) || len(ours.Workloads.Spec.Egress) != 0 {
		t.Errorf("%+v, %+v", ours.Workloads.Spec, ours.Supervisors.Spec)
	}
}
