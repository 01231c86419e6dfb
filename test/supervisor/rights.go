package supervisor

import (
	"context"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/rights"
)

// Rights are what the shipped manifests grant the daemon in the Site's mode, under the names of this Site, and to read the Secrets that its Setup
// names, as an operator who follows the manifests grants it.
func (s *Site) Rights() []*unstructured.Unstructured {
	s.t.Helper()
	manifests := filepath.Join("..", "..", "deploy", "kustomize", "base")
	names := rights.Names{Namespace: s.home, Sandboxes: s.shared, GatewayID: s.GatewayID}
	objects, err := rights.Shipped(manifests, string(s.Mode), daemon)
	s.must("read the rights of supervisorctl", err)
	for _, object := range objects {
		names.Rename(object)
	}
	if secrets := s.sourced(); len(secrets) > 0 {
		sources, err := rights.Sources(manifests, string(s.Mode), s.home, secrets, names)
		s.must("read the rights of supervisorctl", err)
		objects = append(objects, sources...)
	}
	return objects
}

// Rare reports whether not every life of a sandbox uses a right that the daemon has: to count an Event that is like one before, and to write
// what is wrong with its own Pod, which it has none of here.
func (s *Site) Rare(r rights.Right, namespace string) bool {
	return r.Group == "" && r.Resource == "events" && (r.Verb == "patch" || namespace == s.home)
}

// RightsUsed is an error until the daemon has used its Rights, the Rare ones aside, and when it has asked for more.
func (s *Site) RightsUsed() error {
	s.t.Helper()
	used, denied := map[apiproxy.Use]bool{}, map[apiproxy.Use]bool{}
	for use := range s.Gate.Uses() {
		if use.Denied {
			denied[use.Use] = true
		} else {
			used[use.Use] = true
		}
	}
	return rights.Needed(s.Rights(), used, denied, s.Rare)
}

// grant gives the daemon its Rights and no more.
func (s *Site) grant() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	for _, object := range s.Rights() {
		resource, err := rights.ResourceOf(object)
		s.must("grant the rights of supervisorctl", err)
		client := s.Cluster.Dynamic().Resource(resource)
		_, err = client.Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
		s.must("grant the rights of supervisorctl", err)
		if object.GetNamespace() == "" { // the others go with their namespaces
			s.t.Cleanup(func() {
				s.forget(func(ctx context.Context, name string, options metav1.DeleteOptions) error {
					return client.Delete(ctx, name, options)
				}, object.GetName())
			})
		}
	}
}

// forget deletes a cluster-wide object.
func (s *Site) forget(remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("delete %s: %v", name, err)
	}
}
