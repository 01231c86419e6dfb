package mesh

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/rights"
)

// grant gives a daemon the rights of its shipped manifests in the mode of this mesh, under the names of this mesh.
func (m *Mesh) grant(ctx context.Context, daemon string) error {
	objects, err := rights.Shipped(m.options.Manifests, m.options.Mode, daemon)
	if m.options.PerWorkspace {
		objects, err = rights.PerWorkspace(m.options.Manifests, daemon)
	}
	if err == nil && daemon == Lifecycle && slices.Contains(m.options.Stock, "allow_driver_config = true") {
		_, err = rights.WithDriverConfig(m.options.Manifests, objects)
	}
	if err != nil {
		return err
	}
	for _, object := range objects {
		m.names().Rename(object)
		if object.GetNamespace() == "" {
			object.SetLabels(m.options.Labels)
		}
		if err := m.apply(ctx, object); err != nil {
			return fmt.Errorf("grant the rights of %s: %w", daemon, err)
		}
		if object.GetNamespace() != m.Namespace() { // what is there goes with it
			m.cleanups = append(m.cleanups, func(ctx context.Context) error { return m.withdraw(ctx, object) })
		}
	}
	return nil
}

func (m *Mesh) names() rights.Names {
	return rights.Names{Namespace: m.Namespace(), Sandboxes: m.options.SandboxNamespace, GatewayID: m.options.GatewayID}
}

// Furnish lets the daemons of a mesh with PerWorkspace write in a namespace, as the component workspace does, until it is deleted; others may
// already. It is safe for concurrent use.
func (m *Mesh) Furnish(ctx context.Context, namespace string) error {
	if !m.options.PerWorkspace {
		return nil
	}
	objects, err := rights.Workspace(m.options.Manifests, namespace, m.names())
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := m.apply(ctx, object); err != nil {
			return fmt.Errorf("furnish namespace %s: %w", namespace, err)
		}
	}
	return nil
}

func (m *Mesh) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := rights.ResourceOf(object)
	if err != nil {
		return err
	}
	client := m.dynamic.Resource(resource).Namespace(object.GetNamespace())
	_, err = client.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, object, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("make %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// withdraw takes back what apply has made.
func (m *Mesh) withdraw(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := rights.ResourceOf(object)
	if err != nil {
		return err
	}
	err = m.dynamic.Resource(resource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
