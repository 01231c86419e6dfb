package sandboxapi

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sandbox is what decisions read from the object's metadata. The maps may be shared with the object that was read and must
// not be written to.
type Sandbox struct {
	// Namespace, Name and UID are not empty in what FromMetadata returns.
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

func complete(s Sandbox) (Sandbox, error) {
	if s.Namespace == "" || s.Name == "" || s.UID == "" {
		return Sandbox{}, fmt.Errorf("the Sandbox %q in namespace %q with uid %q lacks one of the three", s.Name, s.Namespace, s.UID)
	}
	return s, nil
}
