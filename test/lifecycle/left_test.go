package lifecycle_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// boxes are the Sandbox objects.
var boxes = reconcile.Newest().Version.Resource()

// kinds are those of which a sandbox has objects.
var kinds = []schema.GroupVersionResource{
	boxes, corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("services"),
	corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
}

// object is what is looked at of one.
type object struct {
	kind schema.GroupVersionResource
	metav1.ObjectMeta
}

// objects are those of some kinds in a namespace that fit, seen with an administrator's rights.
func objects(ctx context.Context, s *lifecycle.Site, namespace string, kinds []schema.GroupVersionResource, fit func(*metav1.ObjectMeta) bool) ([]object, error) {
	var all []object
	for _, kind := range kinds {
		list, err := s.Metadata.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			if fit(&list.Items[i].ObjectMeta) {
				all = append(all, object{kind: kind, ObjectMeta: list.Items[i].ObjectMeta})
			}
		}
	}
	return all, nil
}

// left are the objects that have to do with a sandbox: those with its id in a label, an annotation or their name, or its name in their
// own.
func left(ctx context.Context, s *lifecycle.Site, namespace, id, name string) ([]object, error) {
	return objects(ctx, s, namespace, kinds, func(o *metav1.ObjectMeta) bool {
		return strings.Contains(o.Name, id) || strings.Contains(o.Name, name) || slices.ContainsFunc(
			slices.AppendSeq(slices.Collect(maps.Values(o.Labels)), maps.Values(o.Annotations)), func(text string) bool { return strings.Contains(text, id) })
	})
}

// nothingLeft is an error while something of a sandbox is left.
func nothingLeft(ctx context.Context, s *lifecycle.Site, namespace, id, name string) error {
	all, err := left(ctx, s, namespace, id, name)
	if err != nil {
		return err
	}
	return describe(all)
}

func describe(all []object) error {
	if len(all) == 0 {
		return nil
	}
	var names []string
	for _, o := range all {
		going := ""
		if o.DeletionTimestamp != nil {
			going = " (going)"
		}
		names = append(names, o.kind.Resource+" "+o.Namespace+"/"+o.Name+going)
	}
	return fmt.Errorf("there is %s", strings.Join(names, ", "))
}
