package agentsandbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// rig is a namespace with a controller and a pod driver at work, and what a test does there with the Sandbox "box".
type rig struct {
	*testing.T
	cluster   *cluster.Cluster
	namespace string
	dialect   reconcile.Dialect
	faults    *agentsandbox.Faults
	pods      *poddriver.Driver
}

const name = "box"

// patience bounds the wait for something that will never happen.
const patience = 90 * time.Second

// start makes the test a parallel one: every rig has its namespace.
func start(t *testing.T, c *cluster.Cluster, dialect reconcile.Dialect) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{T: t, cluster: c, namespace: c.Namespace(t), dialect: dialect}
	r.drivePods()
	r.control()
	return r
}

// drivePods runs the pod driver until the rig's test ends. It comes before control, so that it ends after it.
func (r *rig) drivePods() {
	r.Helper()
	r.pods = poddriver.Start(r, r.cluster.RESTConfig(), poddriver.Config{Owns: agentsandbox.Namespaces(r.namespace)})
}

// control runs the controller until the rig's test ends.
func (r *rig) control() {
	r.Helper()
	r.faults = new(agentsandbox.Faults)
	agentsandbox.Start(r, r.cluster.RESTConfig(), agentsandbox.Config{
		Owns: agentsandbox.Namespaces(r.namespace), Dialect: r.dialect, Faults: r.faults,
	})
}

func (r *rig) sandboxes() dynamic.ResourceInterface {
	return r.cluster.Dynamic().Resource(r.dialect.Version.Resource()).Namespace(r.namespace)
}

// create makes the Sandbox "box", suspended like the driver under test does, with one claim.
func (r *rig) create(changes ...func(spec map[string]any)) *api.Sandbox {
	r.Helper()
	spec := map[string]any{
		"podTemplate": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"role": "workload"}},
			"spec": map[string]any{
				"restartPolicy": "Never",
				"containers":    []any{map[string]any{"name": "agent", "image": "agent"}},
			},
		},
		"volumeClaimTemplates": []any{map[string]any{
			"metadata": map[string]any{"name": "workspace"},
			"spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"},
				"resources":   map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			},
		}},
	}
	r.setMode(spec, true)
	for _, change := range changes {
		change(spec)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": r.dialect.Version.APIVersion(), "kind": api.Kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
	_, err := r.sandboxes().Create(r.Context(), u, metav1.CreateOptions{})
	r.must(err)
	return r.get()
}

func (r *rig) setMode(spec map[string]any, suspended bool) {
	switch {
	case r.dialect.Version == api.V1alpha1 && suspended:
		spec["replicas"] = int64(0)
	case r.dialect.Version == api.V1alpha1:
		spec["replicas"] = int64(1)
	case suspended:
		spec["operatingMode"] = api.ModeSuspended
	default:
		spec["operatingMode"] = api.ModeRunning
	}
}

func (r *rig) suspend() { r.Helper(); r.editSpec(func(s map[string]any) { r.setMode(s, true) }) }
func (r *rig) resume()  { r.Helper(); r.editSpec(func(s map[string]any) { r.setMode(s, false) }) }

func (r *rig) editSpec(change func(spec map[string]any)) {
	r.Helper()
	r.edit(func(u *unstructured.Unstructured) { change(u.Object["spec"].(map[string]any)) })
}

// edit changes the Sandbox, as often as the controller's own writes make it lose.
func (r *rig) edit(change func(*unstructured.Unstructured)) {
	r.Helper()
	cluster.Eventually(r, "change the sandbox", func(ctx context.Context) error {
		u, err := r.sandboxes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(u)
		_, err = r.sandboxes().Update(ctx, u, metav1.UpdateOptions{})
		return err
	})
}

func (r *rig) get() *api.Sandbox {
	r.Helper()
	u, err := r.sandboxes().Get(r.Context(), name, metav1.GetOptions{})
	r.must(err)
	s, err := api.Decode(u)
	r.must(err)
	return s
}

// await waits until a condition of the current generation has a status and reason, "True/PodTerminated", and returns the
// Sandbox as it was then.
func (r *rig) await(condition, want string) *api.Sandbox {
	r.Helper()
	var s *api.Sandbox
	cluster.Eventually(r, fmt.Sprintf("condition %s of the sandbox is %s", condition, want), func(context.Context) error {
		s = r.get()
		c := meta.FindStatusCondition(s.Status.Conditions, condition)
		if c == nil || c.ObservedGeneration != s.Generation || string(c.Status)+"/"+c.Reason != want {
			return fmt.Errorf("generation %d has conditions %+v", s.Generation, s.Status.Conditions)
		}
		return nil
	})
	return s
}

func (r *rig) ready() *api.Sandbox {
	r.Helper()
	return r.await(api.ConditionReady, "True/DependenciesReady")
}

// pod returns a Pod of the namespace, or nil.
func (r *rig) pod(name string) *corev1.Pod {
	r.Helper()
	pod, err := r.cluster.Client().CoreV1().Pods(r.namespace).Get(r.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	r.must(err)
	return pod
}

func (r *rig) mustPod() *corev1.Pod {
	r.Helper()
	pod := r.pod(name)
	if pod == nil {
		r.Fatal("the pod does not exist")
	}
	return pod
}

// addPod makes a Pod that the controller did not make; owner may be nil.
func (r *rig) addPod(name string, owner *metav1.OwnerReference) *corev1.Pod {
	r.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
		pod.Labels = map[string]string{api.LabelNameHash: api.NameHash(r.get().Name)}
	}
	pod, err := r.cluster.Client().CoreV1().Pods(r.namespace).Create(r.Context(), pod, metav1.CreateOptions{})
	r.must(err)
	return pod
}

func (r *rig) deletePod(name string) {
	r.Helper()
	r.must(r.cluster.Client().CoreV1().Pods(r.namespace).Delete(r.Context(), name, metav1.DeleteOptions{}))
}

func (r *rig) claim() *corev1.PersistentVolumeClaim {
	r.Helper()
	claim, err := r.cluster.Client().CoreV1().PersistentVolumeClaims(r.namespace).Get(r.Context(), "workspace-"+name, metav1.GetOptions{})
	r.must(err)
	return claim
}

func (r *rig) held(step reconcile.Step) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	r.must(r.faults.AwaitHeld(ctx, step, types.NamespacedName{Namespace: r.namespace, Name: name}))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}
