package lifecycle_test

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// kinds are those of which a sandbox has objects.
var kinds = []schema.GroupVersionResource{
	reconcile.Newest().Version.Resource(), corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("services"),
	corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
}

// left are the objects that have to do with a sandbox, wherever they are, seen with an administrator's rights: those with its id in a
// label, an annotation or their name, or its name in their own.
func left(ctx context.Context, c *cluster.Cluster, namespace, id, name string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, kind := range kinds {
		list, err := c.Dynamic().Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; about(o, id, name) {
				all = append(all, o)
			}
		}
	}
	return all, nil
}

func about(o *unstructured.Unstructured, id, name string) bool {
	if strings.Contains(o.GetName(), id) || strings.Contains(o.GetName(), name) {
		return true
	}
	for _, texts := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for _, text := range texts {
			if strings.Contains(text, id) {
				return true
			}
		}
	}
	return false
}

// nothingLeft is an error while something of a sandbox is left.
func nothingLeft(ctx context.Context, c *cluster.Cluster, namespace, id, name string) error {
	all, err := left(ctx, c, namespace, id, name)
	if err != nil {
		return err
	}
	return describe(all)
}

func describe(all []*unstructured.Unstructured) error {
	if len(all) == 0 {
		return nil
	}
	var names []string
	for _, o := range all {
		going := ""
		if o.GetDeletionTimestamp() != nil {
			going = " (going)"
		}
		names = append(names, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()+going)
	}
	return fmt.Errorf("there is %s", strings.Join(names, ", "))
}
