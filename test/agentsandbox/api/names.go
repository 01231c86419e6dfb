package api

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of the custom resource (contract 8.1).
const (
	Group    = "agents.x-k8s.io"
	Kind     = "Sandbox"
	Resource = "sandboxes"
)

// Keys that the controller writes or reads (contract 4.4, 8.4).
const (
	// LabelNameHash is set on every Pod, claim and Service of a Sandbox; its value is [NameHash] of the Sandbox's name.
	LabelNameHash = Group + "/sandbox-name-hash"
	// AnnotationPodName on a Sandbox names its Pod when that is not the Sandbox's own name.
	AnnotationPodName = Group + "/pod-name"
	// AnnotationPropagatedLabels on a Pod lists, sorted and comma-separated, the label keys copied from the template.
	AnnotationPropagatedLabels = Group + "/propagated-labels"
	// AnnotationPropagatedAnnotations is the same for annotation keys.
	AnnotationPropagatedAnnotations = Group + "/propagated-annotations"
	// AnnotationTraceContext is reserved on Pod templates although it has another prefix.
	AnnotationTraceContext = "opentelemetry.io/trace-context"
	// AnnotationV1alpha1State holds the v1alpha1 object from which a stored v1beta1 object was converted (contract 8.2).
	AnnotationV1alpha1State = "api.agents.x-k8s.io/v1alpha1-sandbox-state"
)

// Condition types (contract 8.3).
const (
	ConditionReady        = "Ready"
	ConditionSuspended    = "Suspended"
	ConditionPodScheduled = "PodScheduled"
	ConditionFinished     = "Finished"
)

// Condition reasons (contract 8.3). The comment names the condition each belongs to.
const (
	ReasonDependenciesReady    = "DependenciesReady"    // Ready
	ReasonDependenciesNotReady = "DependenciesNotReady" // Ready
	ReasonSandboxSuspended     = "SandboxSuspended"     // Ready
	ReasonMultiplePods         = "MultiplePods"         // Ready
	ReasonReconcilerError      = "ReconcilerError"      // Ready
	ReasonSandboxExpired       = "SandboxExpired"       // Ready
	ReasonPodSucceeded         = "PodSucceeded"         // Ready and Finished
	ReasonPodFailed            = "PodFailed"            // Ready and Finished
	ReasonPodTerminated        = "PodTerminated"        // Suspended
	ReasonPodTerminating       = "PodTerminating"       // Suspended
	ReasonPodNotTerminated     = "PodNotTerminated"     // Suspended, older controllers
	ReasonPodNotOwned          = "PodNotOwned"          // Suspended
	ReasonNotSuspended         = "NotSuspended"         // Suspended
	ReasonPodStateUnknown      = "PodStateUnknown"      // Suspended

	// The scheduler gives no reason on success, and a condition needs one. The contract does not name these two; they
	// only stand where the Pod's own condition has an empty reason or is missing.
	ReasonPodScheduled         = "PodScheduled"
	ReasonPodSchedulingUnknown = "PodSchedulingUnknown"
)

// Values of spec.operatingMode (v1beta1) and spec.shutdownPolicy.
const (
	ModeRunning    = "Running"
	ModeSuspended  = "Suspended"
	ShutdownDelete = "Delete"
	ShutdownRetain = "Retain"
)

// Version is a served version of the Sandbox resource. The zero value is not a version.
type Version string

// The two versions of contract 8.1.
const (
	V1alpha1 Version = "v1alpha1"
	V1beta1  Version = "v1beta1"
)

// Resource returns the resource of this version, for the dynamic client.
func (v Version) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: string(v), Resource: Resource}
}

// APIVersion returns the value of the apiVersion field: the group and the version.
func (v Version) APIVersion() string { return Group + "/" + string(v) }

// NameHash returns the 32-bit FNV-1a hash of a Sandbox's name as 8 lower-case hexadecimal digits (contract 8.4).
func NameHash(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name)) // a hash never returns an error
	return fmt.Sprintf("%08x", h.Sum32())
}

// ReservedKey reports whether a label or annotation key belongs to the sandbox system, so that a Pod template may not set
// it (contract 8.4).
func ReservedKey(key string) bool {
	return strings.HasPrefix(key, Group+"/") || strings.HasPrefix(key, "extensions."+Group+"/") ||
		key == AnnotationTraceContext
}
