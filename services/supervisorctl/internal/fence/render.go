package fence

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// MinPort is the lowest boundary port (contract 3.1).
const MinPort = 1024

// Policies are the two policies of a namespace (contract 7.3). They have no owner and outlive every sandbox.
type Policies struct {
	// Workloads lets nothing out of workload Pods, and into them only what comes from supervisors to the boundary port.
	Workloads *networkingv1.NetworkPolicy
	// Supervisors lets everything out of supervisor Pods, so that a default-deny of the platform does not cut them off.
	Supervisors *networkingv1.NetworkPolicy
}

// Render makes both policies for a namespace and the setting sandbox_runtime.boundary_port. The error names what cannot be
// rendered; there are no policies then.
func Render(namespace string, port uint16) (Policies, error) {
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return Policies{}, fmt.Errorf("namespace %.80q of the fence: %s", namespace, strings.Join(problems, "; "))
	}
	if port < MinPort {
		return Policies{}, fmt.Errorf("sandbox_runtime.boundary_port is %d, and must be at least %d", port, MinPort)
	}
	return Policies{Workloads: workloads(namespace, port), Supervisors: supervisors(namespace)}, nil
}

// workloads leaves the egress list out: with Egress among the policy types that is the closed direction (contract 7.3, bug
// corpus P07).
func workloads(namespace string, port uint16) *networkingv1.NetworkPolicy {
	tcp, number := corev1.ProtocolTCP, intstr.FromInt32(int32(port))
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metadata(namespace, workspace.WorkloadFence, workspace.ComponentWorkloadFence),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: role(workspace.RoleWorkload),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: new(role(workspace.RoleSupervisor))}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &number}},
			}},
		},
	}
}

// supervisors has one rule without a peer and a port, which allows everything; without the rule it would allow nothing.
func supervisors(namespace string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metadata(namespace, workspace.SupervisorEgress, workspace.ComponentSupervisorEgress),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: role(workspace.RoleSupervisor),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
		},
	}
}

func metadata(namespace, name, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{
			workspace.LabelManagedBy: workspace.ManagedByOpenShell,
			workspace.LabelComponent: component,
		},
	}
}

func role(value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{workspace.LabelBoundaryRole: value}}
}
