package supervisor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is what the daemon may do to one resource.
type Right struct {
	Group, Resource string
	Verbs           []string
	// Namespace is where; empty for everywhere.
	Namespace string
	// Names are the objects that the right is limited to; none for all.
	Names []string
	// Rare says that not every life of a sandbox needs it.
	Rare bool
}

// Rights are all that the daemon needs in the Site's mode.
func (s *Site) Rights() []Right {
	where := s.shared // empty, and so everywhere, in the other modes
	rights := []Right{
		{"", "pods", []string{"get", "list", "watch", "create", "delete", "patch"}, where, nil, false},
		{"", "services", []string{"get", "list", "watch", "create", "delete"}, where, nil, false},
		{"", "secrets", []string{"create", "delete"}, where, nil, false},
		{"networking.k8s.io", "networkpolicies", []string{"get", "list", "watch", "create"}, where, nil, false},
		{"agents.x-k8s.io", "sandboxes", []string{"get", "list", "watch", "patch"}, where, nil, false},
		{"", "events", []string{"create"}, where, nil, false},
		{"", "events", []string{"patch"}, where, nil, true}, // to count those that are like one before
		{"coordination.k8s.io", "leases", []string{"create"}, s.home, nil, false},
		{"coordination.k8s.io", "leases", []string{"get", "update"}, s.home, []string{s.lease()}, false},
	}
	if s.Mode == Shared {
		rights = append(rights, Right{"", "namespaces", []string{"get"}, "", []string{s.shared}, false})
	} else {
		rights = append(rights, Right{"", "namespaces", []string{"get"}, "", nil, false})
	}
	if names := s.sourced(); len(names) > 0 {
		rights = append(rights, Right{"", "secrets", []string{"get"}, s.home, names, false})
	}
	return rights
}

// lease is the name of the daemon's Lease.
func (s *Site) lease() string { return "portcullis-" + daemon + "-" + s.GatewayID }

// grant gives the daemon its Rights and no more: a Role in each namespace that they name, and a ClusterRole for the rest.
func (s *Site) grant() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	client := s.Cluster.Client()
	_, err := client.CoreV1().ServiceAccounts(s.home).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: daemon}}, metav1.CreateOptions{})
	s.must("make the daemon's ServiceAccount", err)
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range s.Rights() {
		rules[r.Namespace] = append(rules[r.Namespace], rbacv1.PolicyRule{
			APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: slices.Clone(r.Verbs), ResourceNames: slices.Clone(r.Names),
		})
	}
	for namespace, rules := range rules {
		if namespace == "" {
			s.grantEverywhere(ctx, rules)
			continue
		}
		_, err := client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: daemon}, Rules: rules}, metav1.CreateOptions{})
		s.must("grant the rights of supervisorctl in "+namespace, err)
		_, err = client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: daemon}, Subjects: s.subjects(), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: daemon},
		}, metav1.CreateOptions{})
		s.must("grant the rights of supervisorctl in "+namespace, err)
	}
}

func (s *Site) grantEverywhere(ctx context.Context, rules []rbacv1.PolicyRule) {
	s.t.Helper()
	client, name := s.Cluster.Client().RbacV1(), daemon+"-"+s.home
	_, err := client.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	s.must("grant the rights of supervisorctl", err)
	s.t.Cleanup(func() { s.forget(client.ClusterRoles().Delete, name) })
	_, err = client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: s.subjects(), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	s.must("grant the rights of supervisorctl", err)
	s.t.Cleanup(func() { s.forget(client.ClusterRoleBindings().Delete, name) })
}

func (s *Site) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: daemon, Namespace: s.home}}
}

// forget deletes a cluster-wide object.
func (s *Site) forget(remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("delete %s: %v", name, err)
	}
}
