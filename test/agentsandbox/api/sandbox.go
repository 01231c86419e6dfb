package api

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Sandbox is the custom resource in either version. Fields that only one version has are named so; the other version's
// objects leave them unset.
type Sandbox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// Spec is the desired state (contract 8.2).
type Spec struct {
	PodTemplate          PodTemplate     `json:"podTemplate"`
	VolumeClaimTemplates []ClaimTemplate `json:"volumeClaimTemplates,omitempty"`
	Service              *bool           `json:"service,omitempty"`
	ShutdownTime         *metav1.Time    `json:"shutdownTime,omitempty"`
	ShutdownPolicy       string          `json:"shutdownPolicy,omitempty"`

	// Replicas is v1alpha1 only: 0 suspends, 1 or unset runs.
	Replicas *int64 `json:"replicas,omitempty"`
	// OperatingMode is v1beta1 only: [ModeSuspended] suspends, everything else runs.
	OperatingMode string `json:"operatingMode,omitempty"`
}

// PodTemplate describes the Pod of a Sandbox.
type PodTemplate struct {
	Metadata TemplateMetadata `json:"metadata,omitempty"`
	// Spec is a Pod spec, kept as it was written.
	Spec map[string]any `json:"spec"`
}

// ClaimTemplate describes one PersistentVolumeClaim of a Sandbox.
type ClaimTemplate struct {
	Metadata TemplateMetadata `json:"metadata,omitempty"`
	// Spec is a claim spec, kept as it was written.
	Spec map[string]any `json:"spec"`
}

// TemplateMetadata is the metadata that templates may carry. Name is used by claim templates only.
type TemplateMetadata struct {
	Name        string            `json:"name,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Status is the observed state (contract 8.3).
type Status struct {
	ServiceFQDN string             `json:"serviceFQDN,omitempty"`
	Service     string             `json:"service,omitempty"`
	Conditions  []metav1.Condition `json:"conditions,omitempty"`
	Selector    string             `json:"selector,omitempty"`
	PodIPs      []string           `json:"podIPs,omitempty"`

	// NodeName is v1beta1 only.
	NodeName string `json:"nodeName,omitempty"`
	// Replicas is v1alpha1 only: the number of Pods that exist, 0 or 1.
	Replicas *int64 `json:"replicas,omitempty"`
}

// Suspended reports whether the spec asks for suspension, in the words of either version.
func (s *Sandbox) Suspended() bool {
	return s.Spec.OperatingMode == ModeSuspended || (s.Spec.Replicas != nil && *s.Spec.Replicas == 0)
}

// PodName returns the name of the Sandbox's Pod: the annotation's if there is one, else the Sandbox's own (contract 8.4).
func (s *Sandbox) PodName() string {
	if name := s.Annotations[AnnotationPodName]; name != "" {
		return name
	}
	return s.Name
}

// ClaimName returns the name of the claim made from template t: template name, dash, Sandbox name (contract 8.4).
func (s *Sandbox) ClaimName(t ClaimTemplate) string { return t.Metadata.Name + "-" + s.Name }

// Decode reads a Sandbox as the dynamic client returns it. It fails only when a field has a type that the CRD's schema
// would have refused.
func Decode(u *unstructured.Unstructured) (*Sandbox, error) {
	var s Sandbox
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return nil, fmt.Errorf("read Sandbox %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return &s, nil
}

// Encode returns a value as a map of JSON types, which is what the dynamic client sends.
func Encode(value any) (map[string]any, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", value, err)
	}
	return m, nil
}
