package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Step names a point of one reconciliation, in the order in which it may be reached. Tests hold, delay or fail the
// controller at a step.
type Step string

// The steps. All but the first and the last are actions.
const (
	Observe       Step = "Observe" // before anything is read
	CreateClaim   Step = "CreateClaim"
	ClearPodName  Step = "ClearPodName" // removes a pod-name annotation that leads nowhere
	CreatePod     Step = "CreatePod"
	DeletePod     Step = "DeletePod"
	PatchPod      Step = "PatchPod" // metadata only
	CreateService Step = "CreateService"
	DeleteService Step = "DeleteService"
	DeleteSandbox Step = "DeleteSandbox"
	WriteStatus   Step = "WriteStatus"
)

// Action is one change of the cluster.
type Action struct {
	Step Step
	// Name is the object's name; the namespace is always the Sandbox's.
	Name string
	// UID is the precondition of deletions.
	UID types.UID
	// Object is the whole object of a creation.
	Object map[string]any
	// Patch is the JSON merge patch of ClearPodName and PatchPod. It holds the UID, so that it never meets a successor.
	Patch map[string]any
}

// OfPod reports whether a failure of the step leaves the Pod's state unknown, and not that of a claim or the Service.
func (s Step) OfPod() bool {
	return s == ClearPodName || s == CreatePod || s == DeletePod || s == PatchPod
}

func deletion(step Step, o metav1.Object) Action {
	return Action{Step: step, Name: o.GetName(), UID: o.GetUID()}
}

func patch(step Step, o metav1.Object, metadata map[string]any) Action {
	metadata["uid"] = string(o.GetUID())
	return Action{Step: step, Name: o.GetName(), UID: o.GetUID(), Patch: map[string]any{"metadata": metadata}}
}
