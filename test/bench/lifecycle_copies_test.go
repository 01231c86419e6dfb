package bench_test

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// populate makes the copies.
func (v *view) populate() {
	v.b.Helper()
	v.forEach(len(v.boxes), v.copy)
}

// forEach makes n of something, some of them at once.
func (v *view) forEach(n int, do func(int) error) {
	v.b.Helper()
	errs := make([]error, n)
	todo := make(chan int)
	var making sync.WaitGroup
	for range viewMakers {
		making.Go(func() {
			for n := range todo {
				if errs[n] = do(n); n%1000 == 999 {
					v.b.Logf("%d sandboxes", n+1)
				}
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	making.Wait()
	for _, err := range errs {
		v.must(err)
	}
}

// copy makes the n-th sandbox: its object and its Pods, with what was recorded of the Pods, and with the status that the controller gave
// the one and the kubelet the others.
func (v *view) copy(n int) error {
	id, ctx := fmt.Sprintf("%08d%s", n, v.id[8:]), v.b.Context()
	text, err := v.box.MarshalJSON()
	if err != nil {
		return err
	}
	box := new(unstructured.Unstructured)
	if err := box.UnmarshalJSON([]byte(strings.ReplaceAll(string(text), v.id, id))); err != nil {
		return err
	}
	v.boxes[n] = fmt.Sprintf("box-%05d", n)
	labels, annotations := box.GetLabels(), box.GetAnnotations()
	for _, of := range []map[string]string{labels, annotations} {
		for key, value := range map[string]string{workspace.LabelSandboxName: v.boxes[n], workspace.LabelSandboxWorkspace: v.ns} {
			if of[key] != "" {
				of[key] = value
			}
		}
	}
	state := box.Object["status"]
	delete(box.Object, "status")
	box.Object["metadata"] = map[string]any{"name": v.boxes[n], "namespace": v.ns}
	box.SetLabels(labels)
	box.SetAnnotations(annotations)
	at := v.objects.Resource(sandboxes).Namespace(v.ns)
	made, err := at.Create(ctx, box, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for i := range v.pods {
		pod, err := v.copyPod(&v.pods[i], made, id)
		if err != nil {
			return err
		}
		for key, value := range annotations {
			annotations[key] = strings.ReplaceAll(value, string(v.pods[i].UID), string(pod.UID))
		}
	}
	made.SetAnnotations(annotations)
	if made, err = at.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	made.Object["status"] = state
	conditions, _, err := unstructured.NestedSlice(made.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["observedGeneration"] != nil {
			c["observedGeneration"] = made.GetGeneration()
		}
	}
	if err := unstructured.SetNestedSlice(made.Object, conditions, "status", "conditions"); err != nil {
		return err
	}
	_, err = at.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// copyPod makes a Pod of a copy, on a node that nobody is.
func (v *view) copyPod(of *corev1.Pod, box *unstructured.Unstructured, id string) (*corev1.Pod, error) {
	pod := of.DeepCopy()
	name := box.GetName()
	if pod.Labels[workspace.LabelBoundaryRole] == workspace.RoleSupervisor {
		name = workspace.SupervisorPod(id)
	}
	owners := pod.OwnerReferences
	for k := range owners {
		owners[k].Name, owners[k].UID = box.GetName(), box.GetUID()
	}
	for key, value := range pod.Labels {
		pod.Labels[key] = strings.ReplaceAll(value, v.id, id)
	}
	pod.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: v.ns, Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: owners}
	pod.Spec.NodeName, pod.Spec.SchedulingGates = "nobody", nil
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount, pod.Spec.AutomountServiceAccountToken = "", "", new(false)
	at := v.many.CoreV1().Pods(v.ns)
	made, err := at.Create(v.b.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	made.Status = of.Status
	return at.UpdateStatus(v.b.Context(), made, metav1.UpdateOptions{})
}
