package installation

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// cleanupLimit bounds the removal of one object when the test has ended.
const cleanupLimit = 30 * time.Second

// forget deletes a cluster-wide object of the installation.
func (i *Installation) forget(kind string, remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(i.t.Context()), cleanupLimit)
	defer cancel()
	if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		i.t.Errorf("delete %s %s: %v", kind, name, err)
	}
}

// Labelled makes a namespace that carries the label, and returns its name.
func (i *Installation) Labelled() string {
	i.t.Helper()
	key, value, _ := strings.Cut(i.Label, "=")
	return i.Cluster.Namespace(i.t, map[string]string{key: value})
}

// SetLabel puts the label on a namespace.
func (i *Installation) SetLabel(namespace string) {
	i.t.Helper()
	key, value, _ := strings.Cut(i.Label, "=")
	i.patch(namespace, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value))
}

// RemoveLabel takes the label off a namespace.
func (i *Installation) RemoveLabel(namespace string) {
	i.t.Helper()
	key, _, _ := strings.Cut(i.Label, "=")
	i.patch(namespace, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key))
}

func (i *Installation) patch(namespace, patch string) {
	i.t.Helper()
	_, err := i.Cluster.Client().CoreV1().Namespaces().Patch(i.t.Context(), namespace, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	if err != nil {
		i.t.Fatalf("patch namespace %s: %v", namespace, err)
	}
}

// Delete asks for a namespace to be deleted.
func (i *Installation) Delete(namespace string) {
	i.t.Helper()
	if err := i.Cluster.Client().CoreV1().Namespaces().Delete(i.t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		i.t.Fatalf("delete namespace %s: %v", namespace, err)
	}
}

// Recreate makes a labelled namespace under the name of one that is being deleted, as soon as that is gone. It is
// deleted when the test ends.
func (i *Installation) Recreate(namespace string) {
	i.t.Helper()
	key, value, _ := strings.Cut(i.Label, "=")
	cluster.Eventually(i.t, "namespace "+namespace+" is made anew", func(ctx context.Context) error {
		_, err := i.Cluster.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{key: value}},
		}, metav1.CreateOptions{})
		return err
	})
	i.t.Cleanup(func() { i.forget("namespace", i.Cluster.Client().CoreV1().Namespaces().Delete, namespace) })
}
