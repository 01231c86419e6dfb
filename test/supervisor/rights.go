package supervisor

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rule is a right to do what verbs say to one resource.
func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// grant gives the daemon what it needs and no more.
func (s *Site) grant() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	client, name := s.Cluster.Client(), daemon+"-"+s.home
	_, err := client.CoreV1().ServiceAccounts(s.home).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: daemon}}, metav1.CreateOptions{})
	s.must("make the daemon's ServiceAccount", err)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: daemon, Namespace: s.home}}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			rule("", "pods", "get", "list", "watch", "create", "delete", "patch"),
			rule("", "services", "get", "list", "watch", "create", "delete"),
			rule("", "secrets", "create", "delete"),
			rule("", "namespaces", "get"),
			rule("networking.k8s.io", "networkpolicies", "get", "list", "watch", "create"),
			rule("agents.x-k8s.io", "sandboxes", "get", "list", "watch", "patch"),
		},
	}, metav1.CreateOptions{})
	s.must("grant the rights of supervisorctl", err)
	s.t.Cleanup(func() { s.forget(client.RbacV1().ClusterRoles().Delete, name) })
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	s.must("grant the rights of supervisorctl", err)
	s.t.Cleanup(func() { s.forget(client.RbacV1().ClusterRoleBindings().Delete, name) })
	_, err = client.RbacV1().Roles(s.home).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: daemon},
		Rules:      []rbacv1.PolicyRule{rule("coordination.k8s.io", "leases", "get", "create", "update")},
	}, metav1.CreateOptions{})
	s.must("grant the rights of supervisorctl at home", err)
	_, err = client.RbacV1().RoleBindings(s.home).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: daemon}, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: daemon},
	}, metav1.CreateOptions{})
	s.must("grant the rights of supervisorctl at home", err)
}

// forget deletes a cluster-wide object.
func (s *Site) forget(remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("delete %s: %v", name, err)
	}
}
