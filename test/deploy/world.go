package deploy

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// World is what the objects of a rendering make up, by what looks at it. Kinds that nothing looks at are not in it.
type World struct {
	// Objects are all, as they were rendered.
	Objects []*unstructured.Unstructured

	Pods       []Pod
	Services   []corev1.Service
	ConfigMaps []corev1.ConfigMap
	Accounts   []corev1.ServiceAccount
	Policies   []networkingv1.NetworkPolicy
	Budgets    []policyv1.PodDisruptionBudget
	Roles      []Role
	Bindings   []Binding
}

// Pod is what a workload makes.
type Pod struct {
	// Workload is its kind and name. Replicas is how many of them run; 0 is a Job's or CronJob's.
	Workload, Namespace string
	Replicas            int
	Labels              map[string]string
	// Meta and Spec are those of the template.
	Meta metav1.ObjectMeta
	Spec corev1.PodSpec
}

// Role is a Role or, without a namespace, a ClusterRole.
type Role struct {
	Namespace, Name string
	Rules           []rbacv1.PolicyRule
}

// Binding is a RoleBinding or, without a namespace, a ClusterRoleBinding.
type Binding struct {
	Namespace, Name string
	Ref             rbacv1.RoleRef
	Subjects        []rbacv1.Subject
}

// Survey reads the objects. One with a field that its kind does not have is an error.
func Survey(objects []*unstructured.Unstructured) (*World, error) {
	w := &World{Objects: objects}
	for _, object := range objects {
		if err := w.add(object); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return w, nil
}

// read converts an object, and keeps it if it could be.
func read[T any](object *unstructured.Unstructured, keep func(T)) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true); err != nil {
		return err
	}
	keep(typed)
	return nil
}

func (w *World) add(object *unstructured.Unstructured) error {
	switch object.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps":
		return read(object, func(d appsv1.Deployment) { w.pod(object, replicas(d.Spec.Replicas), d.Spec.Template) })
	case "StatefulSet.apps":
		return read(object, func(s appsv1.StatefulSet) { w.pod(object, replicas(s.Spec.Replicas), s.Spec.Template) })
	case "Job.batch":
		return read(object, func(j batchv1.Job) { w.pod(object, 0, j.Spec.Template) })
	case "CronJob.batch":
		return read(object, func(c batchv1.CronJob) { w.pod(object, 0, c.Spec.JobTemplate.Spec.Template) })
	case "Service":
		return read(object, func(s corev1.Service) { w.Services = append(w.Services, s) })
	case "ConfigMap":
		return read(object, func(c corev1.ConfigMap) { w.ConfigMaps = append(w.ConfigMaps, c) })
	case "ServiceAccount":
		return read(object, func(a corev1.ServiceAccount) { w.Accounts = append(w.Accounts, a) })
	case "NetworkPolicy.networking.k8s.io":
		return read(object, func(p networkingv1.NetworkPolicy) { w.Policies = append(w.Policies, p) })
	case "PodDisruptionBudget.policy":
		return read(object, func(b policyv1.PodDisruptionBudget) { w.Budgets = append(w.Budgets, b) })
	case "Role.rbac.authorization.k8s.io", "ClusterRole.rbac.authorization.k8s.io":
		return read(object, func(r rbacv1.ClusterRole) { w.Roles = append(w.Roles, Role{r.Namespace, r.Name, r.Rules}) })
	case "RoleBinding.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io":
		return read(object, func(b rbacv1.RoleBinding) {
			w.Bindings = append(w.Bindings, Binding{b.Namespace, b.Name, b.RoleRef, b.Subjects})
		})
	}
	return nil
}

func (w *World) pod(object *unstructured.Unstructured, count int, template corev1.PodTemplateSpec) {
	meta := template.ObjectMeta
	meta.Namespace = object.GetNamespace()
	w.Pods = append(w.Pods, Pod{
		Workload: object.GetKind() + " " + object.GetName(), Namespace: object.GetNamespace(), Replicas: count,
		Labels: maps.Clone(template.Labels), Meta: meta, Spec: template.Spec,
	})
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}
