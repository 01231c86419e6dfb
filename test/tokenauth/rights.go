package tokenauth

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/rights"
)

// Home is the namespace of the daemon's ServiceAccount.
func (s *Site) Home() string { return s.home }

// Rights are what the shipped manifests grant the daemon in a mode, "shared", "managed" or "operator", under the names of this gateway.
func (s *Site) Rights(mode string) []*unstructured.Unstructured {
	s.t.Helper()
	objects, err := rights.Shipped(filepath.Join("..", "..", "deploy", "kustomize", "base"), mode, daemon)
	s.must("read the rights of tokenauth", err)
	names := rights.Names{Namespace: s.home, Sandboxes: s.Namespace, GatewayID: s.GatewayID}
	for _, object := range objects {
		names.Rename(object)
	}
	return objects
}

// grant gives the daemon the Rights of a mode, and no others.
func (s *Site) grant(mode string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	for _, object := range s.Rights(mode) {
		resource, err := rights.ResourceOf(object)
		s.must("read the rights of tokenauth", err)
		client := s.Cluster.Dynamic().Resource(resource).Namespace(object.GetNamespace())
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
		if object.GetNamespace() == s.home { // which may be an installation's, that has them, and they go with it
			if !apierrors.IsAlreadyExists(err) {
				s.must("grant the rights of tokenauth", err)
			}
			continue
		}
		s.must("grant the rights of tokenauth", err)
		s.t.Cleanup(func() {
			s.forget(func(ctx context.Context, name string, options metav1.DeleteOptions) error {
				return client.Delete(ctx, name, options)
			}, object.GetName())
		})
	}
}

// forget deletes an object.
func (s *Site) forget(remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("delete %s: %v", name, err)
	}
}

// account makes a ServiceAccount unless it is there.
func (s *Site) account(ctx context.Context, namespace, name string) {
	s.t.Helper()
	_, err := s.Cluster.Client().CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.must("make a ServiceAccount", err)
	}
}
