package fence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// State is what became of one policy. The zero value says nothing about it.
type State uint8

// The states.
const (
	// Unknown: nobody has looked, or what was handed in is another object than the one asked for.
	Unknown State = iota
	// Absent: there is no such policy.
	Absent
	// Foreign: the name is taken by a policy that does not bear our label. A collision, for a person to end.
	Foreign
	// Altered: ours, and it does not say what it must, or it is being deleted.
	Altered
	// Standing: ours, and it says what it must.
	Standing
)

// String returns the state in lower case, as metrics and conditions show it.
func (s State) String() string {
	names := [...]string{"unknown", "absent", "foreign", "altered", "standing"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[Unknown]
}

// Finding is the answer about one policy.
type Finding struct {
	State State
	// Difference is the first one found, in words for the operator; empty when the policy stands. At most some 500
	// characters, since the policy may be anyone's.
	Difference string
}

// Compare says whether existing, as the API server returned it, is the policy that wanted describes (contract 7.3). Nil is
// an absent policy. Labels and annotations may be more than ours; the spec must be equal.
func Compare(existing, wanted *networkingv1.NetworkPolicy) Finding {
	switch {
	case wanted == nil:
		return Finding{Unknown, "nothing was asked for"}
	case existing == nil:
		return Finding{Absent, fmt.Sprintf("NetworkPolicy %s does not exist in namespace %s", wanted.Name, wanted.Namespace)}
	case existing.Name != wanted.Name || existing.Namespace != wanted.Namespace:
		return Finding{Unknown, fmt.Sprintf("NetworkPolicy %s in namespace %s was looked at, and %s in namespace %s asked for",
			existing.Name, existing.Namespace, wanted.Name, wanted.Namespace)}
	case existing.Labels[workspace.LabelManagedBy] != wanted.Labels[workspace.LabelManagedBy]:
		return Finding{Foreign, fmt.Sprintf("NetworkPolicy %s has not the label %s=%s, so it is somebody else's under the name of the fence;"+
			" rename or delete it", existing.Name, workspace.LabelManagedBy, wanted.Labels[workspace.LabelManagedBy])}
	case existing.DeletionTimestamp != nil:
		return Finding{Altered, fmt.Sprintf("NetworkPolicy %s is being deleted", existing.Name)}
	}
	for _, differ := range []func(existing, wanted *networkingv1.NetworkPolicy) string{metadataDiffers, specDiffers} {
		if difference := differ(existing, wanted); difference != "" {
			return Finding{Altered, fmt.Sprintf("NetworkPolicy %s: %s", existing.Name, difference)}
		}
	}
	return Finding{State: Standing}
}

func metadataDiffers(existing, wanted *networkingv1.NetworkPolicy) string {
	for _, m := range []struct {
		kind             string
		existing, wanted map[string]string
	}{{"label", existing.Labels, wanted.Labels}, {"annotation", existing.Annotations, wanted.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(m.wanted)) {
			if value, ok := m.existing[key]; !ok || value != m.wanted[key] {
				return fmt.Sprintf("%s %s is %s, and must be %s", m.kind, key, quoted(value, ok), quoted(m.wanted[key], true))
			}
		}
	}
	return ""
}

// specDiffers ends with the whole spec, so that a field which this package does not know yet is not overlooked.
func specDiffers(existing, wanted *networkingv1.NetworkPolicy) string {
	e, w := &existing.Spec, &wanted.Spec
	for _, f := range []struct {
		name             string
		existing, wanted any
	}{
		{"spec.podSelector", e.PodSelector, w.PodSelector},
		{"spec.policyTypes", e.PolicyTypes, w.PolicyTypes},
		{"spec.ingress", e.Ingress, w.Ingress},
		{"spec.egress", e.Egress, w.Egress},
		{"spec", *e, *w},
	} {
		if !equality.Semantic.DeepEqual(f.existing, f.wanted) {
			return fmt.Sprintf("%s is %s, and must be %s", f.name, shown(f.existing), shown(f.wanted))
		}
	}
	return ""
}

func quoted(value string, present bool) string {
	if !present {
		return "not set"
	}
	return fmt.Sprintf("%.80q", value)
}

// shown is the JSON of a value, cut where it is too long to read.
func shown(v any) string {
	const longest = 200
	text, err := json.Marshal(v)
	switch {
	case err != nil:
		return "not printable"
	case string(text) == "null" || string(text) == "[]":
		return "empty"
	case len(text) > longest:
		return string(text[:longest]) + "..."
	}
	return string(text)
}
