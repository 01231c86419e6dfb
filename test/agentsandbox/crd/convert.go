package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// convert returns a copy of a Sandbox in another version: replicas 0 is Suspended and back, nodeName exists only in
// v1beta1, status.replicas only in v1alpha1, and the v1alpha1 object travels in an annotation so that what v1beta1 cannot
// say (replicas unset or 1, the replica count) comes back (contract 8.2).
func convert(in *unstructured.Unstructured, to api.Version) (*unstructured.Unstructured, error) {
	out := in.DeepCopy()
	from := in.GetAPIVersion()
	switch {
	case from == to.APIVersion():
	case from == api.V1alpha1.APIVersion() && to == api.V1beta1:
		if err := toV1beta1(out, in); err != nil {
			return nil, err
		}
	case from == api.V1beta1.APIVersion() && to == api.V1alpha1:
		if err := toV1alpha1(out); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("convert a Sandbox from %q to %q: only the two versions of group %s convert",
			from, to.APIVersion(), api.Group)
	}
	out.SetAPIVersion(to.APIVersion())
	return out, nil
}

func toV1beta1(out, in *unstructured.Unstructured) error {
	original := in.DeepCopy()
	removeAnnotation(original, api.AnnotationV1alpha1State)
	state, err := json.Marshal(original.Object)
	if err != nil {
		return fmt.Errorf("keep the v1alpha1 object: %w", err)
	}
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[api.AnnotationV1alpha1State] = string(state)
	out.SetAnnotations(annotations)

	replicas, found, err := unstructured.NestedInt64(out.Object, "spec", "replicas")
	if err != nil {
		return fmt.Errorf("read spec.replicas: %w", err)
	}
	mode := api.ModeRunning
	if found && replicas == 0 {
		mode = api.ModeSuspended
	}
	unstructured.RemoveNestedField(out.Object, "spec", "replicas")
	unstructured.RemoveNestedField(out.Object, "status", "replicas")
	return unstructured.SetNestedField(out.Object, mode, "spec", "operatingMode")
}

func toV1alpha1(out *unstructured.Unstructured) error {
	mode, _, err := unstructured.NestedString(out.Object, "spec", "operatingMode")
	if err != nil {
		return fmt.Errorf("read spec.operatingMode: %w", err)
	}
	original, err := takeState(out)
	if err != nil {
		return err
	}
	replicas := int64(1)
	if mode == api.ModeSuspended {
		replicas = 0
	}
	unstructured.RemoveNestedField(out.Object, "spec", "operatingMode")
	unstructured.RemoveNestedField(out.Object, "status", "nodeName")

	_, wasSet, _ := unstructured.NestedInt64(original, "spec", "replicas")
	if replicas == 0 || original == nil || wasSet {
		if err := unstructured.SetNestedField(out.Object, replicas, "spec", "replicas"); err != nil {
			return fmt.Errorf("write spec.replicas: %w", err)
		}
	}
	// The count is the one of the kept object when there is one, even if it is out of date: v1beta1 has no place for it.
	if original != nil {
		replicas, _, _ = unstructured.NestedInt64(original, "status", "replicas")
	}
	if err := unstructured.SetNestedField(out.Object, replicas, "status", "replicas"); err != nil {
		return fmt.Errorf("write status.replicas: %w", err)
	}
	return nil
}

// takeState removes the kept v1alpha1 object from the annotations and returns it, or nil if there is none.
func takeState(out *unstructured.Unstructured) (map[string]any, error) {
	text, ok := out.GetAnnotations()[api.AnnotationV1alpha1State]
	if !ok {
		return nil, nil
	}
	removeAnnotation(out, api.AnnotationV1alpha1State)
	var original unstructured.Unstructured
	if err := json.Unmarshal([]byte(text), &original.Object); err != nil {
		return nil, fmt.Errorf("read annotation %s: %w", api.AnnotationV1alpha1State, err)
	}
	if original.Object == nil {
		return nil, fmt.Errorf("read annotation %s: it holds null", api.AnnotationV1alpha1State)
	}
	return original.Object, nil
}

func removeAnnotation(u *unstructured.Unstructured, key string) {
	annotations := u.GetAnnotations()
	delete(annotations, key)
	if len(annotations) == 0 {
		annotations = nil
	}
	u.SetAnnotations(annotations)
}
