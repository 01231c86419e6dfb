package companion

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Service is the boundary Service (contract 7.4). It is made once for a sandbox and outlives its runs, so nothing in it is
// of the generation.
func (r *Renderer) Service(s Sandbox) (*corev1.Service, error) {
	if err := s.check(r.scheme); err != nil {
		return nil, fmt.Errorf("rendering the boundary Service: %w", err)
	}
	port := int32(r.settings.SandboxRuntime.BoundaryPort)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: workspace.BoundaryService(s.ID),
			Labels: s.labels(workspace.ComponentBoundaryService), OwnerReferences: s.ownedBySandbox(),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP,
			Selector: map[string]string{
				workspace.LabelBoundaryPair: workspace.Pair(s.ID),
				workspace.LabelBoundaryRole: workspace.RoleWorkload,
			},
			Ports: []corev1.ServicePort{{
				Name: "boundary", Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port),
			}},
		},
	}, nil
}

// ClusterIP is the address of a Service that stands, which the supervisor is told to dial. A Service without one, or a
// headless one, is an error (contract 7.2 step 14).
func ClusterIP(service *corev1.Service) (netip.Addr, error) {
	ip, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil || ip.IsUnspecified() || ip.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("service %s in namespace %s has the cluster IP %.40q, and needs a real one for the supervisor to dial",
			service.Name, service.Namespace, service.Spec.ClusterIP)
	}
	return ip, nil
}
