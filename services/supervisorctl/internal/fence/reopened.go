package fence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// maxTold is how many rules of one policy an Opening describes.
const maxTold = 4

// Opening is one policy that allows a workload Pod more than the fence does.
type Opening struct {
	// Policy and UID are those of the NetworkPolicy.
	Policy string
	UID    types.UID
	// Egress and Ingress say which directions it opens.
	Egress, Ingress bool
	// Opens describes the rules, in their order; after the fourth one it only counts.
	Opens []string
}

// String describes the opening on one line.
func (o Opening) String() string {
	return fmt.Sprintf("NetworkPolicy %s opens %s", o.Policy, strings.Join(o.Opens, "; "))
}

// Reopened finds the policies among all those of one namespace that select a workload Pod with the given labels and allow
// it egress, or ingress other than from supervisors of the namespace to the boundary port; in the order of their names. The
// labels are those of the Pod, or of its template
// with the caller's labels; the role of a workload is put on top in any case. The fence itself opens nothing, so it may be
// among the policies. A policy that is being deleted counts, because it is enforced until it is gone.
func Reopened(policies []networkingv1.NetworkPolicy, port uint16, pod map[string]string) []Opening {
	set := labels.Set(maps.Clone(pod))
	if set == nil {
		set = labels.Set{}
	}
	set[workspace.LabelBoundaryRole] = workspace.RoleWorkload
	var openings []Opening
	for i := range policies {
		p := &policies[i]
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		switch {
		case err != nil:
			openings = append(openings, Opening{p.Name, p.UID, true, true, []string{"what nobody can tell, since its podSelector cannot be read"}})
		case selector.Matches(set):
			if o := opens(p, port); o.Egress || o.Ingress {
				openings = append(openings, o)
			}
		}
	}
	slices.SortFunc(openings, func(a, b Opening) int { return strings.Compare(a.Policy, b.Policy) })
	return openings
}

func opens(p *networkingv1.NetworkPolicy, port uint16) Opening {
	o := Opening{Policy: p.Name, UID: p.UID}
	if affects(p, networkingv1.PolicyTypeEgress) {
		for _, rule := range p.Spec.Egress {
			o.Egress = true
			o.Opens = append(o.Opens, "egress to "+described(rule.To, rule.Ports))
		}
	}
	if affects(p, networkingv1.PolicyTypeIngress) {
		for _, rule := range p.Spec.Ingress {
			if within(rule, port) {
				continue
			}
			o.Ingress = true
			o.Opens = append(o.Opens, "ingress from "+described(rule.From, rule.Ports))
		}
	}
	if extra := len(o.Opens) - maxTold; extra > 0 {
		o.Opens = append(o.Opens[:maxTold:maxTold], fmt.Sprintf("and %d more", extra))
	}
	return o
}

// affects follows the API's own rule for a policy that names no types.
func affects(p *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if len(p.Spec.PolicyTypes) > 0 {
		return slices.Contains(p.Spec.PolicyTypes, direction)
	}
	return direction == networkingv1.PolicyTypeIngress || len(p.Spec.Egress) > 0
}

// within says that a rule allows no more than the fence's own: each peer is a supervisor of this namespace, each port the
// boundary's. A selector with further requirements selects fewer.
func within(rule networkingv1.NetworkPolicyIngressRule, port uint16) bool {
	supervisor := func(peer networkingv1.NetworkPolicyPeer) bool {
		return peer.IPBlock == nil && peer.NamespaceSelector == nil && peer.PodSelector != nil &&
			peer.PodSelector.MatchLabels[workspace.LabelBoundaryRole] == workspace.RoleSupervisor
	}
	boundary := func(p networkingv1.NetworkPolicyPort) bool {
		return (p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP) && p.Port != nil && p.Port.Type == intstr.Int &&
			p.Port.IntVal == int32(port) && (p.EndPort == nil || *p.EndPort == int32(port))
	}
	return allOf(rule.From, supervisor) && allOf(rule.Ports, boundary)
}

// allOf is false for an empty list: no peer and no port mean every one.
func allOf[T any](list []T, is func(T) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}

func described(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) string {
	who := "anywhere"
	if len(peers) > 0 {
		who = listed(peers, peerWords)
	}
	if len(ports) == 0 {
		return who + " on every port"
	}
	return who + " on " + listed(ports, portWords)
}

func listed[T any](list []T, words func(T) string) string {
	var told []string
	for i, v := range list {
		if i == maxTold {
			told = append(told, fmt.Sprintf("%d more", len(list)-maxTold))
			break
		}
		told = append(told, words(v))
	}
	return strings.Join(told, ", ")
}

func peerWords(peer networkingv1.NetworkPolicyPeer) string {
	switch {
	case peer.IPBlock != nil && len(peer.IPBlock.Except) > 0:
		return fmt.Sprintf("addresses %s except %s", peer.IPBlock.CIDR, listed(peer.IPBlock.Except, func(s string) string { return s }))
	case peer.IPBlock != nil:
		return "addresses " + peer.IPBlock.CIDR
	case peer.NamespaceSelector != nil:
		return selectorWords("Pods", peer.PodSelector) + " of " + selectorWords("namespaces", peer.NamespaceSelector)
	default:
		return selectorWords("Pods", peer.PodSelector) + " of this namespace"
	}
}

func selectorWords(what string, s *metav1.LabelSelector) string {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return "all " + what
	}
	const longest = 160
	text := metav1.FormatLabelSelector(s)
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return what + " with " + text
}

func portWords(p networkingv1.NetworkPolicyPort) string {
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	switch {
	case p.Port == nil:
		return "every " + string(protocol) + " port"
	case p.EndPort != nil:
		return fmt.Sprintf("%s ports %s to %d", protocol, p.Port.String(), *p.EndPort)
	default:
		return fmt.Sprintf("%s port %s", protocol, p.Port.String())
	}
}
