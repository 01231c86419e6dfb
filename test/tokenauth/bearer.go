package tokenauth

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// audience is what the tokens of supervisors are for (contract 5.3).
const audience = "openshell-gateway"

// Draft is a bearer before it is made; a test changes one thing about it.
type Draft struct {
	// Sandbox has no uid yet, and Pod no owner.
	Sandbox *unstructured.Unstructured
	Pod     *corev1.Pod
	// Controller makes the Sandbox the Pod's controller, which it is of workload Pods only.
	Controller bool
	// Audience of the token; Unbound binds it to nothing.
	Audience string
	Unbound  bool
}

// Bearer is a sandbox with a supervisor and its token.
type Bearer struct {
	Token     string
	SandboxID string
	// Sandbox and Pod as they were made.
	Sandbox *unstructured.Unstructured
	Pod     *corev1.Pod

	site *Site
}

// Bearer makes a bearer in a namespace, which is right in every respect but for what changes change.
func (s *Site) Bearer(namespace string, changes ...func(*Draft)) *Bearer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	s.bearers++
	id := fmt.Sprintf("Box-%04d", s.bearers)
	d := &Draft{Sandbox: s.sandbox(namespace, id), Pod: supervisor(namespace, id), Audience: audience}
	for _, change := range changes {
		change(d)
	}
	s.account(ctx, namespace, d.Pod.Spec.ServiceAccountName)

	b := &Bearer{SandboxID: id, site: s}
	var err error
	b.Sandbox, err = s.sandboxes(namespace).Create(ctx, d.Sandbox, metav1.CreateOptions{})
	s.must("make a Sandbox", err)
	owner := metav1.OwnerReference{
		APIVersion: sandboxapi.V1beta1.APIVersion(), Kind: sandboxapi.Kind, Name: b.Sandbox.GetName(), UID: b.Sandbox.GetUID(),
	}
	if d.Controller {
		owner.Controller = &d.Controller
	}
	d.Pod.OwnerReferences = []metav1.OwnerReference{owner}
	b.Pod, err = s.Cluster.Client().CoreV1().Pods(namespace).Create(ctx, d.Pod, metav1.CreateOptions{})
	s.must("make a Pod", err)
	b.PatchSandbox(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, workspace.AnnotationSupervisorUID, b.Pod.UID))

	request := cluster.TokenRequest{Audiences: []string{d.Audience}, Pod: b.Pod}
	if d.Unbound {
		request.Pod = nil
	}
	b.Token = s.Cluster.Token(s.t, namespace, d.Pod.Spec.ServiceAccountName, request)
	s.tokens = append(s.tokens, b.Token)
	return b
}

func (s *Site) sandboxes(namespace string) dynamic.ResourceInterface {
	return s.Cluster.Dynamic().Resource(sandboxapi.V1beta1.GroupVersionResource()).Namespace(namespace)
}

func (s *Site) sandbox(namespace, id string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"podTemplate": map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "none"}}},
	}}}}
	u.SetAPIVersion(sandboxapi.V1beta1.APIVersion())
	u.SetKind(sandboxapi.Kind)
	u.SetNamespace(namespace)
	u.SetName(team + "--" + workspace.Pair(id))
	u.SetLabels(map[string]string{
		workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: s.GatewayID,
		workspace.LabelSandboxID: id, workspace.LabelSandboxWorkspace: team,
	})
	return u
}

// supervisor is the Pod of contract 7.1 as far as anybody looks at it who does not run it.
func supervisor(namespace, id string) *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: workspace.SupervisorPod(id),
			Annotations: map[string]string{workspace.AnnotationSandboxID: id},
			Labels: map[string]string{
				workspace.LabelBoundaryRole: workspace.RoleSupervisor, workspace.LabelBoundaryPair: workspace.Pair(id), workspace.LabelSandboxID: id,
			},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: Runner, AutomountServiceAccountToken: &no,
			SchedulingGates: []corev1.PodSchedulingGate{{Name: workspace.SchedulingGate}},
			Containers:      []corev1.Container{{Name: "supervisor", Image: "none"}},
		},
	}
}

// PatchSandbox merges a patch into the Sandbox.
func (b *Bearer) PatchSandbox(patch string) {
	b.site.t.Helper()
	_, err := b.site.sandboxes(b.Sandbox.GetNamespace()).Patch(b.site.t.Context(), b.Sandbox.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	b.site.must("patch the Sandbox", err)
}

// DeletePod asks for the deletion of the Pod, which has not begun to run and so is gone at once, unless a finalizer holds it.
func (b *Bearer) DeletePod() {
	b.site.t.Helper()
	err := b.site.Cluster.Client().CoreV1().Pods(b.Pod.Namespace).Delete(b.site.t.Context(), b.Pod.Name, metav1.DeleteOptions{})
	b.site.must("delete the Pod", err)
}

// RecreatePod makes a Pod that differs from a deleted one in nothing that it was made of.
func (b *Bearer) RecreatePod() {
	b.site.t.Helper()
	pod := b.Pod.DeepCopy()
	pod.ResourceVersion, pod.UID = "", ""
	_, err := b.site.Cluster.Client().CoreV1().Pods(pod.Namespace).Create(b.site.t.Context(), pod, metav1.CreateOptions{})
	b.site.must("make the Pod anew", err)
}

// ReleasePod takes the finalizers off the Pod.
func (b *Bearer) ReleasePod() {
	b.site.t.Helper()
	_, err := b.site.Cluster.Client().CoreV1().Pods(b.Pod.Namespace).Patch(b.site.t.Context(), b.Pod.Name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	b.site.must("take the finalizers off the Pod", err)
}

// DeleteSandbox asks for the deletion of the Sandbox, which is gone at once, unless a finalizer holds it.
func (b *Bearer) DeleteSandbox() {
	b.site.t.Helper()
	err := b.site.sandboxes(b.Sandbox.GetNamespace()).Delete(b.site.t.Context(), b.Sandbox.GetName(), metav1.DeleteOptions{})
	b.site.must("delete the Sandbox", err)
}

// RecreateSandbox makes a Sandbox that differs from a deleted one in nothing but its uid, and names the same supervisor.
func (b *Bearer) RecreateSandbox() {
	b.site.t.Helper()
	sandbox := b.Sandbox.DeepCopy()
	sandbox.SetUID("")
	sandbox.SetResourceVersion("")
	sandbox.SetAnnotations(map[string]string{workspace.AnnotationSupervisorUID: string(b.Pod.UID)})
	_, err := b.site.sandboxes(sandbox.GetNamespace()).Create(b.site.t.Context(), sandbox, metav1.CreateOptions{})
	b.site.must("make the Sandbox anew", err)
}
