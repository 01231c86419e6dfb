package tokenauth

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// grant gives the daemon what it needs and no more.
func (s *Site) grant(ctx context.Context) {
	s.t.Helper()
	client, name := s.Cluster.Client(), daemon+"-"+s.home
	s.account(ctx, s.home, daemon)
	get := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get"}}
	}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
			get("", "pods"), get("", "namespaces"), get(sandboxapi.Group, sandboxapi.Resource),
		},
	}, metav1.CreateOptions{})
	s.must("grant the rights of tokenauth", err)
	s.t.Cleanup(func() { s.forget(client.RbacV1().ClusterRoles().Delete, name) })
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: daemon, Namespace: s.home}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	s.must("grant the rights of tokenauth", err)
	s.t.Cleanup(func() { s.forget(client.RbacV1().ClusterRoleBindings().Delete, name) })
}

// forget deletes a cluster-wide object.
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
