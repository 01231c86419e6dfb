package sandboxapi

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Sandbox is what decisions read from the object's metadata. The maps may be shared with the object that was read and must
// not be written to.
type Sandbox struct {
	// Namespace, Name and UID are not empty in what FromMetadata and FromUnstructured return.
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	// Deleting says that the object has a deletion timestamp, whatever it reads.
	Deleting bool
}

// FromMetadata reads decoded metadata, such as that of a metav1.PartialObjectMetadata.
func FromMetadata(m *metav1.ObjectMeta) (Sandbox, error) {
	if m == nil {
		return Sandbox{}, errors.New("the Sandbox has no metadata")
	}
	return complete(Sandbox{
		Namespace: m.Namespace, Name: m.Name, UID: string(m.UID),
		Labels: m.Labels, Annotations: m.Annotations, Deleting: m.DeletionTimestamp != nil,
	})
}

// FromUnstructured reads an object as the dynamic client gives it. The accessors of package unstructured answer "empty" for
// a field of another type and "not deleting" for a timestamp that does not parse; here both are errors.
func FromUnstructured(u *unstructured.Unstructured) (Sandbox, error) {
	if u == nil || u.Object == nil {
		return Sandbox{}, errors.New("the Sandbox is empty")
	}
	if _, known := VersionOf(u.GetAPIVersion()); !known || u.GetKind() != Kind {
		return Sandbox{}, fmt.Errorf("the object is a %q of %q, not a %s of %s or %s",
			u.GetKind(), u.GetAPIVersion(), Kind, V1beta1.APIVersion(), V1alpha1.APIVersion())
	}
	var s Sandbox
	for name, field := range map[string]*string{"namespace": &s.Namespace, "name": &s.Name, "uid": &s.UID} {
		text, _, err := unstructured.NestedString(u.Object, "metadata", name)
		if err != nil {
			return Sandbox{}, fmt.Errorf("read the Sandbox: %w", err)
		}
		*field = text
	}
	for name, field := range map[string]*map[string]string{"labels": &s.Labels, "annotations": &s.Annotations} {
		values, err := stringMap(u.Object, name)
		if err != nil {
			return Sandbox{}, err
		}
		*field = values
	}
	at, found, err := unstructured.NestedFieldNoCopy(u.Object, "metadata", "deletionTimestamp")
	if err != nil {
		return Sandbox{}, fmt.Errorf("read the Sandbox: %w", err)
	}
	s.Deleting = found && at != nil
	return complete(s)
}

// stringMap reads a map of metadata; JSON null is a map that is missing.
func stringMap(object map[string]any, name string) (map[string]string, error) {
	value, found, err := unstructured.NestedFieldNoCopy(object, "metadata", name)
	if err != nil {
		return nil, fmt.Errorf("read the Sandbox: %w", err)
	}
	if !found || value == nil {
		return nil, nil
	}
	values, _, err := unstructured.NestedStringMap(object, "metadata", name)
	if err != nil {
		return nil, fmt.Errorf("read the Sandbox: %w", err)
	}
	return values, nil
}

func complete(s Sandbox) (Sandbox, error) {
	if s.Namespace == "" || s.Name == "" || s.UID == "" {
		return Sandbox{}, fmt.Errorf("the Sandbox %q in namespace %q with uid %q lacks one of the three", s.Name, s.Namespace, s.UID)
	}
	return s, nil
}
