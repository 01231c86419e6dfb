package sandboxapi

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// Mode is whether a Sandbox is to have a Pod. The zero Mode is not known.
type Mode uint8

// The modes, in either version of the resource (contract 8.2).
const (
	// Suspended is operatingMode Suspended, or replicas 0.
	Suspended Mode = iota + 1
	// Running is any other, which the controller takes for running: operatingMode Running or none, replicas 1 or none.
	Running
)

// String is the mode's name in v1beta1.
func (m Mode) String() string {
	switch m {
	case Suspended:
		return "Suspended"
	case Running:
		return "Running"
	}
	return "unknown"
}

// Spec is what makes a Sandbox of this version have the mode, as the member spec of a JSON merge patch (contract 8.2).
func (m Mode) Spec(v Version) (map[string]any, error) {
	switch {
	case m != Suspended && m != Running || !v.Known():
		return nil, fmt.Errorf("no Sandbox of version %q has the mode %s", v, m)
	case v == V1beta1:
		return map[string]any{"operatingMode": m.String()}, nil
	case m == Suspended:
		return map[string]any{"replicas": int64(0)}, nil
	}
	return map[string]any{"replicas": int64(1)}, nil
}

// Condition is one condition of a Sandbox's status.
type Condition struct {
	Type, Status, Reason, Message string
	// ObservedGeneration is zero when the controller did not say it.
	ObservedGeneration int64
	Transition         metav1.Time
}

// Object is a whole Sandbox: its metadata, the template of its Pod and its status.
type Object struct {
	Sandbox
	Version Version
	// Generation changes with the spec, ResourceVersion with everything.
	Generation      int64
	ResourceVersion string
	Mode            Mode
	// Template of the workload Pod.
	Template corev1.PodTemplateSpec
	// Conditions of the status, in its order, also those of former generations.
	Conditions []Condition
}

// content is what is read of a Sandbox, in either version.
type content struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metadata `json:"metadata"`
	Spec     struct {
		PodTemplate   corev1.PodTemplateSpec `json:"podTemplate"`
		OperatingMode string                 `json:"operatingMode"`
		Replicas      *int64                 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// metadata is the part of metav1.ObjectMeta that is read. Who wrote which field is a good part of an object, and nobody asks.
type metadata struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               types.UID         `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Generation        int64             `json:"generation"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
}

// ObjectFrom reads a whole Sandbox of a known version. Fields that the Pod API of this client does not know are passed over.
func ObjectFrom(u *unstructured.Unstructured) (Object, error) {
	if u == nil {
		return Object{}, errors.New("there is no Sandbox to read")
	}
	var c content
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c); err != nil {
		return Object{}, fmt.Errorf("the Sandbox %s/%s cannot be understood: %w", u.GetNamespace(), u.GetName(), err)
	}
	return c.object()
}

// ObjectFromJSON is ObjectFrom of an answer of the API server as it came, in less than half of the time (BenchmarkObjectFrom).
func ObjectFromJSON(answer []byte) (Object, error) {
	var c content
	if err := json.Unmarshal(answer, &c); err != nil {
		return Object{}, fmt.Errorf("the Sandbox cannot be understood: %w", err)
	}
	return c.object()
}

func (c *content) object() (Object, error) {
	version, known := VersionOf(c.APIVersion)
	if !known || c.Kind != Kind {
		return Object{}, fmt.Errorf("a %s of %s is no Sandbox of a known version", c.Kind, c.APIVersion)
	}
	m := &c.Metadata
	meta, err := complete(Sandbox{
		Namespace: m.Namespace, Name: m.Name, UID: string(m.UID),
		Labels: m.Labels, Annotations: m.Annotations, Deleting: m.DeletionTimestamp != nil,
	})
	if err != nil {
		return Object{}, err
	}
	o := Object{
		Sandbox: meta, Version: version, Generation: m.Generation, ResourceVersion: m.ResourceVersion,
		Mode: Running, Template: c.Spec.PodTemplate,
	}
	if version == V1beta1 && c.Spec.OperatingMode == Suspended.String() || version == V1alpha1 && c.Spec.Replicas != nil && *c.Spec.Replicas == 0 {
		o.Mode = Suspended
	}
	for _, c := range c.Status.Conditions {
		o.Conditions = append(o.Conditions, Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
			ObservedGeneration: c.ObservedGeneration, Transition: c.LastTransitionTime,
		})
	}
	return o, nil
}

// PodName is the name of the workload Pod (contract 8.4).
func (o *Object) PodName() string {
	if name := o.Annotations[AnnotationPodName]; name != "" {
		return name
	}
	return o.Name
}

// Condition types, and the reasons that decide something (contract 8.3).
const (
	ConditionReady     = "Ready"
	ConditionSuspended = "Suspended"
	ConditionFinished  = "Finished"

	ReasonPodNotOwned = "PodNotOwned"
)

// Condition is the condition of this type that is about the present generation, or does not say which it is about (contract
// 7.14); false when there is none.
func (o *Object) Condition(kind string) (Condition, bool) {
	i := slices.IndexFunc(o.Conditions, func(c Condition) bool {
		return c.Type == kind && (c.ObservedGeneration == 0 || c.ObservedGeneration == o.Generation)
	})
	if i < 0 {
		return Condition{}, false
	}
	return o.Conditions[i], true
}

// ReportsSuspended reports whether the controller says that the Sandbox is suspended as it is now. Only v1beta1 can say so
// (contract 7.10, 14.3 "2653"), and only with the present generation: older controllers left the condition behind on resume
// (contract 8.3, bug corpus L16).
func (o *Object) ReportsSuspended() bool {
	if o.Version != V1beta1 || o.Mode != Suspended {
		return false
	}
	c, ok := o.Condition(ConditionSuspended)
	return ok && c.Status == string(metav1.ConditionTrue) && c.ObservedGeneration == o.Generation
}
