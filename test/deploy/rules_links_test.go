package deploy_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// budgetsHold: what runs more than once is not drained at once, and a budget is for something. A daemon's Pods that are not ready hold no drain
// up: two of them would for ever. A server of NATS that is not ready does: with a second there is no majority.
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
		always := b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
		if majority := pods[0].Workload == "StatefulSet nats"; always == majority {
			found.add("PodDisruptionBudget %s lets Pods that are not ready go: that is %t, and is to be %t", b.Name, always, !majority)
		}
	}
	for _, p := range w.Pods {
		if p.Replicas > 1 && !held[p.Workload] {
			found.add("a drain may take all replicas of %s at once: it has no PodDisruptionBudget", p.Workload)
		}
	}
	return found
}
