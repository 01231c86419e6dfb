package inventory

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Kind is what kind of object an attachment is. The zero Kind is none.
type Kind string

// The kinds that a sandbox may be attached to (contract 11.5).
const (
	RuntimeClass          Kind = "RuntimeClass"
	PriorityClass         Kind = "PriorityClass"
	PersistentVolumeClaim Kind = "PersistentVolumeClaim"
)

// Resource is where the API server has objects of the kind; the zero value for none.
func (k Kind) Resource() schema.GroupVersionResource {
	switch k {
	case RuntimeClass:
		return schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}
	case PriorityClass:
		return schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
	case PersistentVolumeClaim:
		return schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	}
	return schema.GroupVersionResource{}
}

// Namespaced reports whether objects of the kind are in namespaces.
func (k Kind) Namespaced() bool { return k == PersistentVolumeClaim }

// Attachment names one object. Namespace is empty for kinds of the cluster.
type Attachment struct {
	Kind            Kind
	Namespace, Name string
}

// String is the key of the annotation: Kind/namespace/name, the middle empty for kinds of the cluster (contract 4.4).
func (a Attachment) String() string { return string(a.Kind) + "/" + a.Namespace + "/" + a.Name }

// parse reads what String wrote, and nothing else.
func parse(key string) (Attachment, error) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return Attachment{}, errors.New("is not Kind/namespace/name")
	}
	a := Attachment{Kind: Kind(parts[0]), Namespace: parts[1], Name: parts[2]}
	switch {
	case a.Kind.Resource().Empty():
		return Attachment{}, errors.New("has a kind that no sandbox is attached to")
	case a.Kind.Namespaced() != (a.Namespace != ""):
		return Attachment{}, errors.New("has a namespace where there must be none, or none where there must be one")
	case a.Namespace != "" && len(validation.IsDNS1123Label(a.Namespace)) > 0, len(validation.IsDNS1123Subdomain(a.Name)) > 0:
		return Attachment{}, errors.New("has a name that no object can have")
	}
	return a, nil
}

func order(a, b Attachment) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// sorted has each once.
func sorted(list []Attachment) []Attachment {
	slices.SortFunc(list, order)
	return slices.Compact(list)
}
