package request

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// MaxBytes is how large a Spec may be, written as JSON. A Sandbox object is little more than that: the bound leaves room below the
// 1.5 MiB that etcd takes, for the driver's own parts, the record of a run, a status and the API server's bookkeeping.
const MaxBytes = 640 << 10

// GPUResource is the extended resource of graphics processors (contract 11.2).
const GPUResource corev1.ResourceName = "nvidia.com/gpu"

// Sandbox is a request that was read and found good. The zero Sandbox is none.
type Sandbox struct {
	spec Spec
}

// Spec is what the request asks for, the settings' defaults put in.
type Spec struct {
	// ID, Name and Workspace are the gateway's.
	ID, Name, Workspace string
	// Namespace and ObjectName are those of the Sandbox object (contract 4.1). In operator mode the allowlist still has to be asked.
	Namespace, ObjectName string
	// Image of the workload; never empty.
	Image string
	// Environment of the workload's processes, without variables of OPENSHELL_.
	Environment map[string]string
	// LogLevel of sandbox and supervisor; empty leaves the choice to them.
	LogLevel string
	// Labels and Annotations are the caller's for the workload Pod.
	Labels, Annotations map[string]string
	// NodeSelector and Tolerations are those of platform and caller together.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// RuntimeClass is the one that takes precedence (contract 11.4), or empty; PriorityClass the caller's, or empty.
	RuntimeClass, PriorityClass string
	// Resources are those of the container agent (contract 11.1).
	Resources corev1.ResourceRequirements
	// GPU says that a graphics processor is asked for, by whichever field, so that a node must offer one (contract 11.2).
	GPU bool
	// Volumes and Mounts are the caller's. Each mount is of one of the volumes.
	Volumes []Volume
	Mounts  []Mount
	// UserNamespace asks for one.
	UserNamespace bool
	// MainProcess is what mainprocess.Encode made.
	MainProcess string
	// CallerConfig says that the caller had a driver_config.
	CallerConfig bool
}

// Volume is a volume claim that the caller attaches.
type Volume struct {
	Name, Claim string
	ReadOnly    bool
}

// Mount is where the container agent has one of the Volumes.
type Mount struct {
	Volume, Path, SubPath string
	ReadOnly              bool
}

// IsZero reports that s is no request.
func (s *Sandbox) IsZero() bool { return s.spec.ID == "" }

// Spec is what is asked for; the caller's own copy.
func (s *Sandbox) Spec() Spec {
	out := s.spec
	out.Environment = maps.Clone(out.Environment)
	out.Labels, out.Annotations = maps.Clone(out.Labels), maps.Clone(out.Annotations)
	out.NodeSelector = maps.Clone(out.NodeSelector)
	out.Tolerations = slices.Clone(out.Tolerations)
	for i := range out.Tolerations {
		out.Tolerations[i] = *out.Tolerations[i].DeepCopy()
	}
	out.Resources = *out.Resources.DeepCopy()
	out.Volumes, out.Mounts = slices.Clone(out.Volumes), slices.Clone(out.Mounts)
	return out
}

// size is the last check: every part may have its own greatest size, but not all at once.
func (c *reading) size() {
	if len(c.found) > 0 {
		return
	}
	text, err := json.Marshal(&c.spec)
	if err != nil || len(text) > MaxBytes {
		c.invalid("sandbox", "is too large for one object: it takes %d bytes, and at most %d can be stored; shorten environment, command or annotations",
			len(text), MaxBytes)
	}
}
