package deploy_test

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// madeElsewhere are what the Pods use and no manifest holds: Secrets and what goes with them, which the components certs-*, NATS's
// bootstrap or the platform team make.
var madeElsewhere = []string{
	"Secret portcullis/portcullis-tokenauth-mesh-tls",
	"Secret portcullis/portcullis-supervisorctl-mesh-tls",
	"Secret portcullis/portcullis-lifecycle-mesh-tls",
	"Secret portcullis/portcullis-relay-mesh-tls",
	"Secret portcullis/portcullis-nswatch-nats",
	"Secret portcullis/portcullis-tokenauth-nats",
	"Secret portcullis/portcullis-lifecycle-nats",
	"Secret portcullis/portcullis-nswatch-signing",
	"ConfigMap portcullis/portcullis-allowlist-keys",
	"Secret portcullis/portcullis-nats-tls",
	"Secret portcullis/portcullis-tokenauth-audit",
	"Secret portcullis/portcullis-bootstrap-nats",
	"ConfigMap portcullis/portcullis-nats-identities",
	// Kubernetes makes these in every namespace.
	"ConfigMap portcullis/kube-root-ca.crt",
	"ServiceAccount portcullis/default",
}

// used are the Secrets, ConfigMaps and ServiceAccounts that a Pod does not start without.
func used(p deploy.Pod) []string {
	var names []string
	add := func(kind, name string) { names = append(names, kind+" "+p.Namespace+"/"+name) }
	account := p.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	add("ServiceAccount", account)
	for _, v := range p.Spec.Volumes {
		sources := []corev1.VolumeProjection{{}}
		if v.Projected != nil {
			sources = v.Projected.Sources
		}
		for _, s := range sources {
			if s.Secret != nil {
				add("Secret", s.Secret.Name)
			}
			if s.ConfigMap != nil {
				add("ConfigMap", s.ConfigMap.Name)
			}
		}
		if v.Secret != nil {
			add("Secret", v.Secret.SecretName)
		}
		if v.ConfigMap != nil {
			add("ConfigMap", v.ConfigMap.Name)
		}
	}
	for _, c := range containers(p) {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				add("Secret", e.ValueFrom.SecretKeyRef.Name)
			}
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				add("ConfigMap", e.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
	}
	return names
}

// nothingIsMissing: what a Pod uses is there, or is known to be made by others.
func nothingIsMissing(w *deploy.World) (found breaches) {
	have := map[string]bool{}
	for _, object := range w.Objects {
		have[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = true
	}
	for _, p := range w.Pods {
		for _, name := range used(p) {
			if !have[name] && !slices.Contains(madeElsewhere, name) {
				found.add("%s uses %s, which is not there and is not known to be made elsewhere", p.Workload, name)
			}
		}
	}
	return found
}

// selected are the Pods that labels choose in a namespace.
func selected(w *deploy.World, namespace string, selector *metav1.LabelSelector) []deploy.Pod {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.Pods), func(p deploy.Pod) bool { return p.Namespace != namespace || !s.Matches(labels.Set(p.Labels)) })
}

// servicesServe: a Service chooses Pods of one workload, and leads to ports that they have.
func servicesServe(w *deploy.World) (found breaches) {
	for _, s := range w.Services {
		pods := selected(w, s.Namespace, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		if len(pods) != 1 || len(s.Spec.Selector) == 0 {
			found.add("Service %s chooses the Pods of %d workloads", s.Name, len(pods))
			continue
		}
		for _, port := range s.Spec.Ports {
			if !hasPort(pods[0], port.TargetPort.String()) {
				found.add("Service %s leads to port %s, which the Pods of %s do not have", s.Name, port.TargetPort.String(), pods[0].Workload)
			}
		}
	}
	return found
}

// budgetsHold: what runs more than once is not drained at once, and a budget is for something.
func budgetsHold(w *deploy.World) (found breaches) {
	held := map[string]bool{}
	for _, b := range w.Budgets {
		pods := selected(w, b.Namespace, b.Spec.Selector)
		if len(pods) != 1 {
			found.add("PodDisruptionBudget %s is for the Pods of %d workloads", b.Name, len(pods))
			continue
		}
		held[pods[0].Workload] = true
		if b.Spec.MinAvailable != nil {
			found.add("PodDisruptionBudget %s has minAvailable, which holds every drain up where one replica runs", b.Name)
		}
		if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.String() == "0" || b.Spec.MaxUnavailable.String() == "0%" {
			found.add("PodDisruptionBudget %s lets no Pod go, ever", b.Name)
		}
	}
	for _, p := range w.Pods {
		if p.Replicas > 1 && !held[p.Workload] {
			found.add("a drain may take all replicas of %s at once: it has no PodDisruptionBudget", p.Workload)
		}
	}
	return found
}

// stranger reports whether Pods of others are meant, which are known by a label of ours, or by that of a sandbox's Pods.
func stranger(selector *metav1.LabelSelector) bool {
	for label := range selector.MatchLabels {
		if strings.HasPrefix(label, "portcullis.openshell.ai/") || label == workspace.LabelBoundaryRole {
			return true
		}
	}
	return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return strings.HasPrefix(r.Key, "portcullis.openshell.ai/")
	})
}

// policiesFit: each Pod is bounded in both directions, and what policies name is there.
func policiesFit(w *deploy.World) (found breaches) {
	bounded := map[string]int{}
	for _, policy := range w.Policies {
		pods := selected(w, policy.Namespace, &policy.Spec.PodSelector)
		if len(pods) == 0 && !stranger(&policy.Spec.PodSelector) && policy.Namespace == "portcullis" {
			found.add("NetworkPolicy %s is for no Pod", policy.Name)
		}
		for _, p := range pods {
			bounded[p.Workload] += len(policy.Spec.PolicyTypes)
		}
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) == 0 {
				found.add("NetworkPolicy %s opens to everybody", policy.Name)
			}
			found = append(found, peersExist(w, policy, rule.From)...)
			found = append(found, portsExist(policy, rule.Ports, pods)...)
		}
		for _, rule := range policy.Spec.Egress {
			found = append(found, peersExist(w, policy, rule.To)...)
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
		if p.Namespace == "portcullis" && bounded[p.Workload] < 2 {
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

// peersExist: a policy opens for somebody, and for somebody who is there or is known by a label of ours. NATS is not there in modes
// without an allowlist, nor lifecycle where it is a gateway's sidecar.
func peersExist(w *deploy.World, policy networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer) (found breaches) {
	for _, peer := range peers {
		switch {
		case peer.NamespaceSelector != nil && len(peer.NamespaceSelector.MatchLabels)+len(peer.NamespaceSelector.MatchExpressions) == 0 &&
			(peer.PodSelector == nil || !stranger(peer.PodSelector)):
			found.add("NetworkPolicy %s names every namespace", policy.Name)
		case peer.PodSelector == nil || peer.NamespaceSelector != nil || stranger(peer.PodSelector):
		case slices.Contains([]string{"nats", "lifecycle"}, peer.PodSelector.MatchLabels["app.kubernetes.io/name"]):
		case len(selected(w, policy.Namespace, peer.PodSelector)) == 0:
			found.add("NetworkPolicy %s names Pods that are not there: %v", policy.Name, peer.PodSelector.MatchLabels)
		}
	}
	return found
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
