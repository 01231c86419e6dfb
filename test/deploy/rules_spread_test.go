package deploy_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// replicasAreApart: the replicas of a daemon are spread over nodes, those of one release by themselves: were the last release's counted
// too, a rollout could end with all of them on one node.
func replicasAreApart(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		if !strings.HasPrefix(p.Workload, "Deployment ") || !slices.Contains(daemons, strings.TrimPrefix(p.Workload, "Deployment ")) {
			continue
		}
		for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
			if c := spread(p, key); c == nil || c.MaxSkew != 1 {
				found.add("%s is not spread by %s", p.Workload, key)
			} else if !slices.Contains(c.MatchLabelKeys, "pod-template-hash") {
				found.add("%s is spread by %s together with the release before", p.Workload, key)
			}
		}
	}
	return found
}

// serversAreApart: two servers of NATS are never on one node: with it a majority of three would go.
func serversAreApart(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		if p.Workload != "StatefulSet nats" {
			continue
		}
		if !keptApart(p) {
			found.add("two servers of %s may share a node", p.Workload)
		}
		if c := spread(p, corev1.LabelTopologyZone); c == nil || c.MaxSkew != 1 {
			found.add("%s is not spread by %s", p.Workload, corev1.LabelTopologyZone)
		}
	}
	return found
}

// keptApart reports whether no node takes two of a workload's Pods.
func keptApart(p deploy.Pod) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(term corev1.PodAffinityTerm) bool {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		return err == nil && term.TopologyKey == corev1.LabelHostname && selector.Matches(labels.Set(p.Labels))
	})
}

// spread is the constraint of a Pod about its own replicas and a label of nodes.
func spread(p deploy.Pod, key string) *corev1.TopologySpreadConstraint {
	for i, c := range p.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err == nil && c.TopologyKey == key && selector.Matches(labels.Set(p.Labels)) {
			return &p.Spec.TopologySpreadConstraints[i]
		}
	}
	return nil
}

// TestSeveralNodes: with several nodes a second replica waits rather than be where the first is, and nodes that take no Pod do not count. How
// the servers of NATS are kept apart, serversAreApart says of every overlay.
func TestSeveralNodes(t *testing.T) {
	t.Parallel()
	for _, p := range survey(t, rendered(t)["ha"].Objects).Pods {
		if p.Replicas == 0 || p.Workload == "StatefulSet nats" {
			continue
		}
		c := spread(p, corev1.LabelHostname)
		if c == nil || c.WhenUnsatisfiable != corev1.DoNotSchedule || c.NodeTaintsPolicy == nil || *c.NodeTaintsPolicy != corev1.NodeInclusionPolicyHonor {
			t.Errorf("the replicas of %s may share a node: %+v", p.Workload, c)
		}
	}
}
