package companion

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Relation is what an object that stands is to the one that is wanted. The zero value allows nothing to be done with it.
type Relation uint8

// The relations.
const (
	// Unknown: nobody has looked, or another object was looked at than the one asked for.
	Unknown Relation = iota
	// Absent: there is none.
	Absent
	// Foreign: the name is taken by an object that is not a companion of this sandbox. It is not to be touched.
	Foreign
	// OtherSandbox: it bears our labels and this sandbox's id, and is owned by another Sandbox object: left over from one
	// that is gone, or a companion of one that lives. Only when that Sandbox is proven gone may it be removed.
	OtherSandbox
	// OtherRun: it is owned by this Sandbox, and is of another generation.
	OtherRun
	// Leaving: it is of this run and is being deleted.
	Leaving
	// Altered: it is of this run and does not say what is wanted.
	Altered
	// Same: it is of this run and says what is wanted. The only one that may be used.
	Same
)

// String returns the relation in lower case.
func (r Relation) String() string {
	names := [...]string{"unknown", "absent", "foreign", "other sandbox", "other run", "leaving", "altered", "same"}
	if int(r) < len(names) {
		return names[r]
	}
	return names[Unknown]
}

// Comparison is the answer about one object.
type Comparison struct {
	Relation Relation
	// Difference says in words what was found, the first thing only, in some 500 characters at most; empty when it is the same.
	Difference string
}

// CompareService says what an existing Service is to the one that Service has rendered. Nil is an absent one. It outlives
// runs, so it is never of another one.
func CompareService(existing, wanted *corev1.Service) Comparison {
	if wanted == nil || existing == nil {
		return without(existing == nil, wanted == nil, "Service")
	}
	if c := belongs("Service", &existing.ObjectMeta, &wanted.ObjectMeta); c.Relation != Same {
		return c
	}
	// The selector is exact: one more label in it would select other Pods, or none.
	if len(existing.Spec.Selector) > len(wanted.Spec.Selector) {
		return Comparison{Altered, fmt.Sprintf("Service %s: spec.selector has more labels than %d", existing.Name, len(wanted.Spec.Selector))}
	}
	return says("Service", existing.Name, existing, wanted)
}

// CompareSupervisor says what an existing Pod is to the one that SupervisorPod has rendered. Nil is an absent one. What is
// not rendered may be anything, defaults of the API server and what others have added, except for what makes our container
// another one. The scheduling gate does not count, since it is lifted when the Pod starts; neither does the trace, which
// another call has another one of.
func CompareSupervisor(existing, wanted *corev1.Pod) Comparison {
	if wanted == nil || existing == nil {
		return without(existing == nil, wanted == nil, "Pod")
	}
	if c := belongs("Pod", &existing.ObjectMeta, &wanted.ObjectMeta); c.Relation != Same {
		return c
	}
	if added := widened(&existing.Spec); added != "" {
		return Comparison{Altered, fmt.Sprintf("Pod %s: %s was added", existing.Name, added)}
	}
	lasting := wanted.DeepCopy()
	lasting.Spec.SchedulingGates = nil
	for i := range lasting.Spec.Containers {
		c := &lasting.Spec.Containers[i]
		c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == variableTraceParent || v.Name == variableTraceState })
	}
	return says("Pod", existing.Name, existing, lasting)
}

// widened names what is never rendered and must not be added either: it changes what our container runs, or what it may do
// outside of itself.
func widened(spec *corev1.PodSpec) string {
	for _, c := range spec.Containers {
		if c.Name != SupervisorContainer {
			continue
		}
		security := c.SecurityContext
		for _, f := range []struct {
			name  string
			found bool
		}{
			{"args", len(c.Args) > 0},
			{"envFrom", len(c.EnvFrom) > 0},
			{"lifecycle", c.Lifecycle != nil},
			{"securityContext.privileged", security != nil && security.Privileged != nil && *security.Privileged},
			{"securityContext.capabilities.add", security != nil && security.Capabilities != nil && len(security.Capabilities.Add) > 0},
		} {
			if f.found {
				return f.name + " of container " + c.Name
			}
		}
	}
	for _, f := range []struct {
		name  string
		found bool
	}{
		{"hostNetwork", spec.HostNetwork},
		{"hostPID", spec.HostPID},
		{"hostIPC", spec.HostIPC},
		{"ephemeralContainers", len(spec.EphemeralContainers) > 0},
	} {
		if f.found {
			return f.name
		}
	}
	return ""
}

// Gated says that a Pod is still held back by our gate.
func Gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == workspace.SchedulingGate })
}

func without(noObject, nothingWanted bool, kind string) Comparison {
	if nothingWanted {
		return Comparison{Unknown, "nothing was asked for"}
	}
	if noObject {
		return Comparison{Absent, "the " + kind + " does not exist"}
	}
	return Comparison{}
}

// belongs decides everything but what the object says. Same means that it is of this run and stays.
func belongs(kind string, existing, wanted *metav1.ObjectMeta) Comparison {
	told := func(relation Relation, format string, args ...any) Comparison {
		return Comparison{relation, fmt.Sprintf(kind+" "+existing.Name+": "+format, args...)}
	}
	if existing.Name != wanted.Name || existing.Namespace != wanted.Namespace {
		return told(Unknown, "is in namespace %s, and %s in namespace %s was asked for", existing.Namespace, wanted.Name, wanted.Namespace)
	}
	for _, key := range []string{workspace.LabelManagedBy, workspace.LabelComponent, workspace.LabelSandboxID} {
		if existing.Labels[key] != wanted.Labels[key] {
			return told(Foreign, "has label %s=%.80q, and would have %q if it were this sandbox's", key, existing.Labels[key], wanted.Labels[key])
		}
	}
	owner, err := sandboxapi.OwnerOf(existing.OwnerReferences)
	switch want := string(wanted.OwnerReferences[0].UID); {
	case err != nil:
		return told(Foreign, "%v", err)
	case owner.UID != want:
		return told(OtherSandbox, "is owned by the Sandbox with uid %.130s, and this one has uid %s", owner.UID, want)
	case owner.Controller:
		return told(Foreign, "is controlled by the Sandbox, and no companion is")
	}
	if want, ours := wanted.Annotations[workspace.AnnotationGeneration]; ours && existing.Annotations[workspace.AnnotationGeneration] != want {
		return told(OtherRun, "is of generation %.80q, and this is generation %q", existing.Annotations[workspace.AnnotationGeneration], want)
	}
	if existing.DeletionTimestamp != nil {
		return told(Leaving, "is being deleted")
	}
	return Comparison{Relation: Same}
}

func says(kind, name string, existing, wanted any) Comparison {
	difference, err := difference(existing, wanted)
	switch {
	case err != nil:
		return Comparison{Unknown, fmt.Sprintf("%s %s cannot be compared: %v", kind, name, err)}
	case difference != "":
		return Comparison{Altered, fmt.Sprintf("%s %s: %s", kind, name, difference)}
	default:
		return Comparison{Relation: Same}
	}
}
