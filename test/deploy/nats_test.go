package deploy_test

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// TestNATSIsForWhoWasLetIn: nobody of another namespace reaches NATS by what they write on their own Pods: whoever runs the cluster has
// labelled the namespace too. The bound of all connections is one that strangers would use up.
func TestNATSIsForWhoWasLetIn(t *testing.T) {
	t.Parallel()
	const label = "portcullis.openshell.ai/nats"
	for _, of := range []string{"operator-label", "ha", "gateway-lifecycle"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			policies := survey(t, rendered(t)[of].Objects).Policies
			i := slices.IndexFunc(policies, func(p networkingv1.NetworkPolicy) bool { return p.Name == "nats" })
			inside, outside := 0, 0
			for _, rule := range policies[i].Spec.Ingress {
				if len(rule.Ports) != 1 || rule.Ports[0].Port.String() != "client" {
					continue
				}
				for _, peer := range rule.From {
					switch {
					case peer.PodSelector == nil:
						t.Errorf("all Pods of %v reach it", peer.NamespaceSelector)
					case peer.NamespaceSelector == nil:
						inside++
					case peer.NamespaceSelector.MatchLabels[label] != "client" || peer.PodSelector.MatchLabels[label] != "client":
						t.Errorf("Pods %v of namespaces %v reach it", peer.PodSelector.MatchLabels, peer.NamespaceSelector.MatchLabels)
					default:
						outside++
					}
				}
			}
			if inside != 3 || outside != 1 {
				t.Errorf("it is reached by %d kinds of Pods of its namespace and %d of others", inside, outside)
			}
		})
	}
}
