package reconcile

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// feed takes what a reflector reports to the desk. Nothing of an object is kept but what objectOf takes.
type feed struct {
	kind kind
	desk *desk
}

// Add fulfils cache.ReflectorStore.
func (f feed) Add(obj any) error { return f.put(obj) }

// Update fulfils cache.ReflectorStore.
func (f feed) Update(obj any) error { return f.put(obj) }

func (f feed) put(obj any) error {
	if pod, ok := obj.(*corev1.Pod); ok && f.kind == pods {
		f.desk.put(podOf(pod))
		return nil
	}
	m, err := metadataOf(obj)
	if err == nil {
		f.desk.put(objectOf(f.kind, m))
	}
	return err
}

// Delete fulfils cache.ReflectorStore.
func (f feed) Delete(obj any) error {
	m, err := metadataOf(obj)
	if err == nil {
		f.desk.drop(f.kind, string(m.UID))
	}
	return err
}

// Replace fulfils cache.ReflectorStore.
func (f feed) Replace(list []any, _ string) error {
	all := make([]object, 0, len(list))
	for _, obj := range list {
		m, err := metadataOf(obj)
		if err != nil {
			return err
		}
		all = append(all, objectOf(f.kind, m))
	}
	f.desk.replace(f.kind, all)
	return nil
}

// Resync fulfils cache.ReflectorStore. The ledger has times of its own.
func (f feed) Resync() error { return nil }

func metadataOf(obj any) (*metav1.ObjectMeta, error) {
	switch m := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return &m.ObjectMeta, nil
	case *corev1.Pod:
		return &m.ObjectMeta, nil
	}
	return nil, fmt.Errorf("a watch of metadata reported a %T", obj)
}

var _ cache.ReflectorStore = feed{}
