package deploy_test

import (
	"fmt"
	"net"
	"regexp"
	"slices"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// route is a server of NATS as another has it in its settings.
var route = regexp.MustCompile(`"nats://([^"]+)"`)

// callsOf are the addresses, host:port, of what the containers of a Pod call: what gateway.toml names for a daemon, and for a command that
// makes what NATS holds, and the servers that one of NATS has as its routes.
func callsOf(w *deploy.World, p deploy.Pod) (addresses []string) {
	tree := map[string]any{}
	if err := toml.Unmarshal([]byte(settingsOf(w, p)), &tree); err != nil {
		return nil // settingsAgree says so
	}
	operator := value(tree, "openshell.drivers.kubernetes.workspace_mode") == "operator"
	for _, c := range containers(p) {
		if daemon, ok := ours(c); ok {
			addresses = append(addresses, addressesOf(tree, daemon, operator)...)
		} else if _, program, _ := imageOf(c); slices.Contains(daemons, program) && slices.Contains(c.Args, "bootstrap") {
			addresses = append(addresses, addressesOf(tree, "nswatch", operator)...)
		}
	}
	for _, name := range used(p) {
		for _, c := range w.ConfigMaps {
			if name == "ConfigMap "+c.Namespace+"/"+c.Name {
				for _, m := range route.FindAllStringSubmatch(c.Data["nats.conf"], -1) {
					addresses = append(addresses, m[1])
				}
			}
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// end is where a call arrives: Pods, of which there are none for what no selector reaches, and a port of theirs.
type end struct {
	pod      *deploy.Pod
	port     int32
	protocol corev1.Protocol
}

// endOf is where a call of an address arrives; false for one that no Service serves, which settingsAgree says. Policies are for what the Pods
// have, not for the Service's port; one without an address of its own has none.
func endOf(w *deploy.World, address string) (end, bool) {
	_, number, _ := net.SplitHostPort(address)
	for _, s := range w.Services {
		if !serves(s, address) {
			continue
		}
		pods := selected(w, s.Namespace, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return fmt.Sprint(p.Port) == number })
		if len(pods) == 0 {
			return end{}, false
		}
		called := s.Spec.Ports[i].TargetPort.String()
		if s.Spec.ClusterIP == corev1.ClusterIPNone {
			called = number
		}
		for _, c := range containers(pods[0]) {
			if port, ok := portOf(c, called); ok {
				return end{&pods[0], port, corev1.ProtocolTCP}, true
			}
		}
	}
	return end{}, false
}

// callsGetThrough: whatever a Pod calls, a policy of its own lets out, and one of whom it calls lets in: the others of the mesh, the servers of
// names, since it calls by name, and the API server if it has a token. A network plug-in drops what no policy lets through, and says nothing.
func callsGetThrough(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		calls := callsOf(w, p)
		for _, address := range calls {
			to, ok := endOf(w, address)
			if ok && !letsOut(w, p, to) {
				found.add("%s calls %q, and no NetworkPolicy lets that out", p.Workload, address)
			}
			if ok && !letsIn(w, p, to) {
				found.add("%s calls %q, and no NetworkPolicy lets that in to %s", p.Workload, address, to.pod.Workload)
			}
		}
		names := end{nil, 53, corev1.ProtocolUDP}
		if tcp := (end{nil, 53, corev1.ProtocolTCP}); (len(calls) > 0 || hasToken(p)) && !(letsOut(w, p, names) && letsOut(w, p, tcp)) {
			found.add("%s asks for names, and no NetworkPolicy lets that out", p.Workload)
		}
		for _, port := range []int32{443, 6443} {
			if hasToken(p) && !letsOut(w, p, end{nil, port, corev1.ProtocolTCP}) {
				found.add("%s has a token for the API server, and no NetworkPolicy lets out to port %d", p.Workload, port)
			}
		}
	}
	return found
}

// hasToken reports whether a Pod has what the API server knows it by.
func hasToken(p deploy.Pod) bool {
	if mounted := p.Spec.AutomountServiceAccountToken; mounted != nil && *mounted {
		return true
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == ""
		})
	})
}

// boundBy are the policies that bound a Pod in a direction. They add up; without one everything goes through.
func boundBy(w *deploy.World, p deploy.Pod, direction networkingv1.PolicyType) []networkingv1.NetworkPolicy {
	return slices.DeleteFunc(slices.Clone(w.Policies), func(policy networkingv1.NetworkPolicy) bool {
		return policy.Namespace != p.Namespace || !matches(&policy.Spec.PodSelector, p.Labels) || !slices.Contains(directions(policy), direction)
	})
}

// letsOut reports whether the policies of a Pod let it call.
func letsOut(w *deploy.World, from deploy.Pod, to end) bool {
	bounds := boundBy(w, from, networkingv1.PolicyTypeEgress)
	return len(bounds) == 0 || slices.ContainsFunc(bounds, func(policy networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
			return covers(rule.Ports, to) && means(w, policy, rule.To, to.pod)
		})
	})
}

// letsIn reports whether the policies of whom a Pod calls let it in.
func letsIn(w *deploy.World, from deploy.Pod, to end) bool {
	bounds := boundBy(w, *to.pod, networkingv1.PolicyTypeIngress)
	return len(bounds) == 0 || slices.ContainsFunc(bounds, func(policy networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
			return covers(rule.Ports, to) && means(w, policy, rule.From, &from)
		})
	})
}

// covers reports whether ports of a policy are those of a call. A name is that of a port of whom is called.
func covers(ports []networkingv1.NetworkPolicyPort, to end) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(have networkingv1.NetworkPolicyPort) bool {
		protocol := corev1.ProtocolTCP
		if have.Protocol != nil {
			protocol = *have.Protocol
		}
		switch {
		case protocol != to.protocol:
			return false
		case have.Port == nil:
			return true
		case have.Port.StrVal == "":
			last := have.Port.IntVal
			if have.EndPort != nil {
				last = *have.EndPort
			}
			return have.Port.IntVal <= to.port && to.port <= last
		default:
			return to.pod != nil && slices.ContainsFunc(containers(*to.pod), func(c corev1.Container) bool {
				port, ok := portOf(c, have.Port.StrVal)
				return ok && port == to.port
			})
		}
	})
}

// means reports whether peers of a policy are a Pod; nil is what no selector reaches. Addresses are nobody: Pods have none that is known here.
func means(w *deploy.World, policy networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer, pod *deploy.Pod) bool {
	return len(peers) == 0 || pod != nil && slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		switch {
		case peer.IPBlock != nil, peer.PodSelector != nil && !matches(peer.PodSelector, pod.Labels):
			return false
		case peer.NamespaceSelector == nil:
			return policy.Namespace == pod.Namespace
		default:
			return matches(peer.NamespaceSelector, namespaceLabels(w, pod.Namespace))
		}
	})
}

// namespaceLabels are those that a namespace is rendered with, and the one that Kubernetes gives it.
func namespaceLabels(w *deploy.World, name string) map[string]string {
	have := map[string]string{corev1.LabelMetadataName: name}
	for _, object := range w.Objects {
		if object.GetKind() == "Namespace" && object.GetName() == name {
			for key, value := range object.GetLabels() {
				have[key] = value
			}
		}
	}
	return have
}

func matches(selector *metav1.LabelSelector, have map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(have))
}

// copiesFit: what NATS holds, each of its servers holds. With fewer copies the loss of one server could be that of the last; more there cannot be.
func copiesFit(w *deploy.World) (found breaches) {
	servers := slices.IndexFunc(w.Pods, func(p deploy.Pod) bool { return p.Workload == "StatefulSet nats" })
	if servers < 0 {
		return nil
	}
	want := fmt.Sprint(w.Pods[servers].Replicas)
	for _, p := range w.Pods {
		tree := map[string]any{}
		if err := toml.Unmarshal([]byte(settingsOf(w, p)), &tree); err != nil || len(tree) == 0 {
			continue // settingsAgree says so, or the Pod has none
		}
		if have := value(tree, "portcullis.audit.replicas"); have == nil && want != "1" || have != nil && fmt.Sprint(have) != want {
			found.add("the settings of %s are for %v copies of the audit stream (none is 1), and NATS has %s servers", p.Workload, have, want)
		}
		for _, c := range containers(p) {
			if i := slices.Index(c.Args, "--replicas"); i >= 0 && !slices.Equal(c.Args[i+1:min(i+2, len(c.Args))], []string{want}) {
				found.add("container %s of %s has %v, and NATS has %s servers", c.Name, p.Workload, c.Args[i:], want)
			}
		}
	}
	return found
}
