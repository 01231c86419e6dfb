package deploy_test

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// directions are those that a NetworkPolicy bounds: what it says, else what the API server takes it to say.
func directions(policy networkingv1.NetworkPolicy) []networkingv1.PolicyType {
	switch {
	case len(policy.Spec.PolicyTypes) > 0:
		return policy.Spec.PolicyTypes
	case len(policy.Spec.Egress) > 0:
		return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	default:
		return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	}
}

// ofLabel reports whether a selector asks for a label that it accepts: for everybody else the selector is closed.
func ofLabel(selector *metav1.LabelSelector, accepts func(label string) bool) bool {
	for label := range selector.MatchLabels {
		if accepts(label) {
			return true
		}
	}
	return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return accepts(r.Key) && (r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists)
	})
}

// ourLabel reports whether a label is one by which we let others in and out, which somebody has to set for that.
func ourLabel(label string) bool { return strings.HasPrefix(label, "portcullis.openshell.ai/") }

// stranger reports whether Pods of others are meant, which are known by a label of ours, or by that of a sandbox's Pods.
func stranger(selector *metav1.LabelSelector) bool {
	return ofLabel(selector, func(label string) bool { return ourLabel(label) || label == workspace.LabelBoundaryRole })
}

// everything reports whether a selector chooses whatever there is.
func everything(selector *metav1.LabelSelector) bool {
	return len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// policiesFit: each Pod is bounded in both directions, and what policies name is there.
func policiesFit(w *deploy.World) (found breaches) {
	bounded := map[string]map[networkingv1.PolicyType]bool{}
	for _, policy := range w.Policies {
		pods := selected(w, policy.Namespace, &policy.Spec.PodSelector)
		if len(pods) == 0 && !stranger(&policy.Spec.PodSelector) && policy.Namespace == "portcullis" {
			found.add("NetworkPolicy %s is for no Pod", policy.Name)
		}
		for _, p := range pods {
			if bounded[p.Workload] == nil {
				bounded[p.Workload] = map[networkingv1.PolicyType]bool{}
			}
			for _, direction := range directions(policy) {
				bounded[p.Workload][direction] = true
			}
		}
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) == 0 {
				found.add("NetworkPolicy %s opens to everybody", policy.Name)
			}
			found = append(found, peersFit(w, policy, rule.From)...)
			found = append(found, portsExist(policy, rule.Ports, pods)...)
		}
		for _, rule := range policy.Spec.Egress {
			found = append(found, peersFit(w, policy, rule.To)...)
			var others []deploy.Pod
			for _, peer := range rule.To {
				if peer.PodSelector != nil && peer.NamespaceSelector == nil {
					others = append(others, selected(w, policy.Namespace, peer.PodSelector)...)
				}
			}
			found = append(found, portsExist(policy, rule.Ports, others)...)
			if len(rule.Ports) == 0 {
				found.add("NetworkPolicy %s lets every port out", policy.Name)
			}
			if len(rule.To) == 0 && slices.ContainsFunc(rule.Ports, beyondCluster) {
				found.add("NetworkPolicy %s lets out to everywhere, by other ports than those of names and of the API server", policy.Name)
			}
		}
	}
	for _, p := range w.Pods {
		if p.Namespace == "portcullis" && len(bounded[p.Workload]) < 2 {
			found.add("no NetworkPolicy bounds %s in both directions", p.Workload)
		}
	}
	return found
}

// beyondCluster reports whether a port is of another service than the cluster's names and its API server, whose addresses no selector
// reaches.
func beyondCluster(port networkingv1.NetworkPolicyPort) bool {
	return port.EndPort != nil || port.Port == nil || !slices.Contains([]int{53, 5353, 443, 6443}, port.Port.IntValue())
}

// peersFit: a policy opens for somebody, and for somebody who is there or is known by a label of ours. Who else reaches the gateway is for
// those to say whose it is: they may name a namespace.
func peersFit(w *deploy.World, policy networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer) (found breaches) {
	gateways := ofGateway(selected(w, policy.Namespace, &policy.Spec.PodSelector))
	for _, peer := range peers {
		switch {
		case peer.IPBlock != nil:
			found.add("NetworkPolicy %s names addresses, %s", policy.Name, peer.IPBlock.CIDR)
		case peer.NamespaceSelector == nil && (peer.PodSelector == nil || everything(peer.PodSelector)):
			found.add("NetworkPolicy %s names every Pod of its namespace", policy.Name)
		case peer.NamespaceSelector == nil:
			if !stranger(peer.PodSelector) && !absent(w, peer.PodSelector) && len(selected(w, policy.Namespace, peer.PodSelector)) == 0 {
				found.add("NetworkPolicy %s names Pods that are not there: %v", policy.Name, peer.PodSelector.MatchLabels)
			}
		case everything(peer.NamespaceSelector) && (peer.PodSelector == nil || !stranger(peer.PodSelector)):
			found.add("NetworkPolicy %s names every namespace", policy.Name)
		case (peer.PodSelector == nil || everything(peer.PodSelector)) && !gateways && !ofLabel(peer.NamespaceSelector, ourLabel):
			found.add("NetworkPolicy %s names every Pod of a namespace of others, %v", policy.Name, peer.NamespaceSelector.MatchLabels)
		}
	}
	return found
}

// ofGateway reports whether there are Pods, and all are a gateway's.
func ofGateway(pods []deploy.Pod) bool {
	return len(pods) > 0 && !slices.ContainsFunc(pods, func(p deploy.Pod) bool { return p.Labels["app.kubernetes.io/name"] != "openshell" })
}

// absent reports whether Pods are meant that some installations do without: NATS where there is no allowlist, lifecycle where it is a
// gateway's sidecar.
func absent(w *deploy.World, selector *metav1.LabelSelector) bool {
	switch selector.MatchLabels["app.kubernetes.io/name"] {
	case "nats":
		return !slices.ContainsFunc(w.Pods, func(p deploy.Pod) bool { return p.Workload == "Deployment nswatch" })
	case "lifecycle":
		return slices.ContainsFunc(w.Pods, func(p deploy.Pod) bool { return p.Labels["portcullis.openshell.ai/sidecar"] == "lifecycle" })
	default:
		return false
	}
}

func portsExist(policy networkingv1.NetworkPolicy, ports []networkingv1.NetworkPolicyPort, pods []deploy.Pod) (found breaches) {
	for _, port := range ports {
		for _, p := range pods {
			if port.Port != nil && !hasPort(p, port.Port.String()) {
				found.add("NetworkPolicy %s is about port %s, which the Pods of %s do not have", policy.Name, port.Port.String(), p.Workload)
			}
		}
	}
	return found
}
