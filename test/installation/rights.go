package installation

import (
	"context"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/rights"
)

// Rights are what the shipped manifests grant nswatch in operator mode, under the names of this installation.
func (i *Installation) Rights() []*unstructured.Unstructured {
	i.t.Helper()
	objects, err := rights.Shipped(filepath.Join("..", "..", "deploy", "kustomize", "base"), "operator", account)
	if err != nil {
		i.t.Fatal(err)
	}
	names := rights.Names{Namespace: i.Namespace, Sandboxes: i.Namespace, GatewayID: i.GatewayID}
	for _, object := range objects {
		names.Rename(object)
	}
	return objects
}

// grant gives nswatch its Rights, and no others.
func (i *Installation) grant() {
	i.t.Helper()
	for _, object := range i.Rights() {
		resource, err := rights.ResourceOf(object)
		if err == nil {
			_, err = i.Cluster.Dynamic().Resource(resource).Namespace(object.GetNamespace()).Create(i.t.Context(), object, metav1.CreateOptions{})
		}
		if err != nil {
			i.t.Fatalf("grant nswatch its rights: %v", err)
		}
		if object.GetNamespace() == "" { // the others go with the namespace
			i.t.Cleanup(func() {
				i.forget(object.GetKind(), func(ctx context.Context, name string, options metav1.DeleteOptions) error {
					return i.Cluster.Dynamic().Resource(resource).Delete(ctx, name, options)
				}, object.GetName())
			})
		}
	}
}

// Revoke takes the right to read namespaces away from nswatch; of all that is not of its own namespace it has none then.
func (i *Installation) Revoke() {
	i.t.Helper()
	i.change(func(role *unstructured.Unstructured) { role.Object["rules"] = []any{} })
}

// Regrant gives it back.
func (i *Installation) Regrant() { i.t.Helper(); i.change(func(*unstructured.Unstructured) {}) }

func (i *Installation) change(alter func(role *unstructured.Unstructured)) {
	i.t.Helper()
	for _, object := range i.Rights() {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		alter(object)
		resource, err := rights.ResourceOf(object)
		if err == nil {
			_, err = i.Cluster.Dynamic().Resource(resource).Update(i.t.Context(), object, metav1.UpdateOptions{})
		}
		if err != nil {
			i.t.Fatalf("change the rights of nswatch: %v", err)
		}
	}
}

// Lend gives nswatch the Lease of another name, as somebody does who has two installations share one gateway's id.
func (i *Installation) Lend(lease string) {
	i.t.Helper()
	client, meta := i.Cluster.Client().RbacV1(), metav1.ObjectMeta{Name: "lease-" + lease}
	_, err := client.Roles(i.Namespace).Create(i.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{lease}, Verbs: []string{"get", "update"}},
	}}, metav1.CreateOptions{})
	if err == nil {
		_, err = client.RoleBindings(i.Namespace).Create(i.t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: i.Namespace}},
			RoleRef: rbacv1.RoleRef{Kind: "Role", Name: meta.Name},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		i.t.Fatalf("lend nswatch Lease %s: %v", lease, err)
	}
}
