package tokenauth

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Workspace makes the namespace of a workspace as the lifecycle of a gateway in managed mode does (contract 4.1, 4.3), but for what
// changes change, and returns its name. It is deleted when the test ends.
func (s *Site) Workspace(gateway, name string, changes ...func(*corev1.Namespace)) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "openshell-" + gateway + "-" + name,
		Labels: map[string]string{
			workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: gateway, workspace.LabelSandboxWorkspace: name,
		},
	}}
	for _, change := range changes {
		change(ns)
	}
	namespaces := s.Cluster.Client().CoreV1().Namespaces()
	_, err := namespaces.Create(ctx, ns, metav1.CreateOptions{})
	s.must("make a managed namespace", err)
	s.t.Cleanup(func() { s.forget(namespaces.Delete, ns.Name) })
	return ns.Name
}

// Label sets labels of a namespace.
func (s *Site) Label(namespace string, labels map[string]string) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	s.must("label a namespace", err)
	_, err = s.Cluster.Client().CoreV1().Namespaces().Patch(s.t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must("label a namespace", err)
}
