package poddriver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// rig is a namespace with a driver at work.
type rig struct {
	*testing.T
	cluster   *cluster.Cluster
	namespace string
	driver    *poddriver.Driver
	watch     *podWatch
}

// podWatch follows the one Pod of a rig event by event, so that a test sees every state, however short and however busy
// the machine is.
type podWatch struct {
	events <-chan watch.Event
	last   *corev1.Pod // nil: not there
}

// patience bounds the wait for something that will never happen.
const patience = 90 * time.Second

func start(t *testing.T, cfg poddriver.Config) *rig {
	t.Helper()
	c := cluster.Start(t, cluster.ControlPlane)
	r := &rig{T: t, cluster: c, namespace: c.Namespace(t)}
	cfg.Owns = agentsandbox.Namespaces(r.namespace)
	r.driver = poddriver.Start(t, c.RESTConfig(), cfg)
	w, err := c.Client().CoreV1().Pods(r.namespace).Watch(t.Context(), metav1.ListOptions{})
	r.must(err)
	t.Cleanup(w.Stop)
	r.watch = &podWatch{events: w.ResultChan()}
	return r
}

// create makes a Pod "p" with a behaviour by annotation.
func (r *rig) create(behaviour string, changes ...func(*corev1.Pod)) {
	r.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{poddriver.AnnotationBehaviour: behaviour}},
		Spec: corev1.PodSpec{
			RestartPolicy:  corev1.RestartPolicyNever,
			Containers:     []corev1.Container{{Name: "agent", Image: "i"}},
			InitContainers: []corev1.Container{{Name: "init", Image: "i"}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	_, err := r.cluster.Client().CoreV1().Pods(r.namespace).Create(r.Context(), pod, metav1.CreateOptions{})
	r.must(err)
}

// await follows the Pod until the condition holds, and returns it as it was then.
func (r *rig) await(what string, condition func(*corev1.Pod) bool) *corev1.Pod {
	r.Helper()
	r.follow(what, func(pod *corev1.Pod) bool { return pod != nil && condition(pod) })
	return r.watch.last.DeepCopy()
}

func (r *rig) awaitGone() {
	r.Helper()
	r.follow("the pod is gone", func(pod *corev1.Pod) bool { return pod == nil })
}

func (r *rig) follow(what string, condition func(*corev1.Pod) bool) {
	r.Helper()
	deadline := time.After(patience)
	for !condition(r.watch.last) {
		select {
		case event, open := <-r.watch.events:
			pod, ok := event.Object.(*corev1.Pod)
			if !open || !ok {
				r.Fatalf("the watch ended while waiting until %s: %+v", what, event)
			}
			r.watch.last = pod
			if event.Type == watch.Deleted {
				r.watch.last = nil
			}
		case <-deadline:
			r.Fatalf("waited in vain until %s, last state: %+v", what, r.watch.last)
		}
	}
}

func (r *rig) delete(grace int64) {
	r.Helper()
	r.must(r.cluster.Client().CoreV1().Pods(r.namespace).Delete(r.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func is(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == status
		}
	}
	return false
}

func ready(pod *corev1.Pod) bool { return is(pod, corev1.PodReady, corev1.ConditionTrue) }

func waiting(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		s := pod.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == reason
	}
}

// TestBehaviours sees each named behaviour through the API server, which validates what is reported.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	phase := func(p corev1.PodPhase, reason string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool { return pod.Status.Phase == p && pod.Status.Reason == reason }
	}
	tests := map[string]struct {
		behaviour string
		stages    []func(*corev1.Pod) bool
	}{
		"ready":         {"ready", []func(*corev1.Pod) bool{ready}},
		"ready later":   {"ready=1s", []func(*corev1.Pod) bool{func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && !ready(p) }, ready}},
		"slow start":    {"slow-start=1s", []func(*corev1.Pod) bool{waiting("ContainerCreating"), ready}},
		"never ready":   {"not-ready", []func(*corev1.Pod) bool{func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && !ready(p) }}},
		"flapping":      {"flap=1s", []func(*corev1.Pod) bool{ready, func(p *corev1.Pod) bool { return !ready(p) }, ready}},
		"image":         {"image-pull-backoff", []func(*corev1.Pod) bool{waiting("ImagePullBackOff")}},
		"crash loop":    {"crash-loop", []func(*corev1.Pod) bool{waiting("CrashLoopBackOff")}},
		"succeeds":      {"succeed=1s", []func(*corev1.Pod) bool{ready, phase(corev1.PodSucceeded, "")}},
		"fails":         {"fail", []func(*corev1.Pod) bool{phase(corev1.PodFailed, "")}},
		"evicted":       {"evict=1s", []func(*corev1.Pod) bool{ready, phase(corev1.PodFailed, "Evicted")}},
		"no such thing": {"explode", []func(*corev1.Pod) bool{phase(corev1.PodFailed, "UnknownBehaviour")}},
	}
	r := start(t, poddriver.Config{})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.T = t
			r.create(tc.behaviour)
			for i, stage := range tc.stages {
				r.await(fmt.Sprintf("stage %d of %s", i, tc.behaviour), stage)
			}
			r.delete(30)
			r.awaitGone()
		})
	}
}

// TestGate: a gated Pod stays as the API server made it, is deleted at once, and runs when the gate is taken away.
func TestGate(t *testing.T) {
	t.Parallel()
	r := start(t, poddriver.Config{})
	gate := func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "openshell.ai/bootstrap"}}
	}
	gated := func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonSchedulingGated
			}
		}
		return false
	}
	r.create("ready", gate)
	r.await("PodScheduled=False/SchedulingGated", gated)
	r.delete(30)
	if _, err := r.cluster.Client().CoreV1().Pods(r.namespace).Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a gated pod survived its deletion: %v", err)
	}
	r.awaitGone()

	r.create("ready", gate)
	pod := r.await("the second is gated", gated)
	pod.Spec.SchedulingGates = nil
	_, err := r.cluster.Client().CoreV1().Pods(r.namespace).Update(t.Context(), pod, metav1.UpdateOptions{})
	r.must(err)
	r.await("it is ready", ready)
}

// TestMissingSecret: no container starts before its volumes are there, as with a kubelet.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	r := start(t, poddriver.Config{})
	r.create("ready", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
			{Name: "o", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "o", Optional: new(true)}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			}}}},
		}
	})
	blocked := func(on string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			return waiting("ContainerCreating")(p) && p.Status.ContainerStatuses[0].State.Waiting.Message == on
		}
	}
	r.await("the pod waits for its secret", blocked(`secret "s" is missing`))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	_, err := r.cluster.Client().CoreV1().Secrets(r.namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	r.must(err)
	r.await("the pod waits for its config map", blocked(`configmap "c" is missing`))
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	_, err = r.cluster.Client().CoreV1().ConfigMaps(r.namespace).Create(t.Context(), configMap, metav1.CreateOptions{})
	r.must(err)
	r.await("it is ready", ready)
}

// claim makes the claim that claimed gives to a Pod.
func (r *rig) claim() {
	r.Helper()
	_, err := r.cluster.Client().CoreV1().PersistentVolumeClaims(r.namespace).Create(r.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: new("a-class-of-its-own"),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	r.must(err)
}

func claimed(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "w", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "w"},
	}}}
}

// TestClaim: the scheduler waits for the claim, the driver makes its volume, and the volume goes with it.
func TestClaim(t *testing.T) {
	t.Parallel()
	r := start(t, poddriver.Config{})
	r.create("ready", claimed)
	r.claim()
	r.await("the pod is ready", ready)
	claims := r.cluster.Client().CoreV1().PersistentVolumeClaims(r.namespace)
	claim, err := claims.Get(t.Context(), "w", metav1.GetOptions{})
	r.must(err)
	if claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("claim = %+v, want it bound", claim.Status)
	}
	r.delete(0)
	r.awaitGone()
	r.must(claims.Delete(t.Context(), "w", metav1.DeleteOptions{}))
	cluster.Eventually(t, "the volume goes", func(ctx context.Context) error {
		_, err := r.cluster.Client().CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		return absent(err)
	})
}

// absent returns nil for the answer that an object does not exist.
func absent(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it is there")
	}
	return err
}

// TestNothingOutlivesDriver: where a driver has ended, neither a Pod nor a claim keeps the namespace from going, and the
// volumes are gone.
func TestNothingOutlivesDriver(t *testing.T) {
	t.Parallel()
	core := cluster.Start(t, cluster.ControlPlane).Client().CoreV1()
	var namespace, volume string
	t.Run("driver", func(t *testing.T) {
		r := start(t, poddriver.Config{})
		r.claim()
		r.create("ignore-deletion", claimed)
		r.await("the pod is ready", ready)
		r.delete(30)
		r.create("ready", func(p *corev1.Pod) { p.Name = "unscheduled"; p.Spec.SchedulerName = "nobody" })
		claim, err := core.PersistentVolumeClaims(r.namespace).Get(t.Context(), "w", metav1.GetOptions{})
		r.must(err)
		namespace, volume = r.namespace, claim.Spec.VolumeName
	})
	if t.Failed() {
		return
	}
	if _, err := core.PersistentVolumes().Get(t.Context(), volume, metav1.GetOptions{}); absent(err) != nil {
		t.Errorf("the volume: %v", absent(err))
	}
	pods, err := core.Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		t.Errorf("pod %s on node %q is there", pod.Name, pod.Spec.NodeName)
	}
	cluster.Eventually(t, "the namespace goes", func(ctx context.Context) error {
		_, err := core.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return absent(err)
	})
}

// TestDeletion: the Pod is Terminating until it is confirmed, and a grace period that is too short kills it.
func TestDeletion(t *testing.T) {
	t.Parallel()
	r := start(t, poddriver.Config{})
	terminating := func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }
	t.Run("slow", func(t *testing.T) {
		r := *r
		r.T = t
		r.create("slow-stop=1s")
		r.await("ready", ready)
		r.delete(30)
		r.await("terminating", terminating)
		r.awaitGone()
	})
	t.Run("killed after its grace period", func(t *testing.T) {
		r := *r
		r.T = t
		r.create("slow-stop=1h")
		r.await("ready", ready)
		r.delete(1)
		r.awaitGone()
	})
	t.Run("ignored, until the node is back", func(t *testing.T) {
		r := *r
		r.T = t
		r.create("ignore-deletion")
		uid := r.await("ready", ready).UID
		r.delete(1)
		r.await("terminating", terminating)
		r.driver.Override(r.namespace, "p", poddriver.Behaviour{StopAfter: time.Millisecond})
		r.awaitGone()
		r.create("fail") // an override outlives the Pod and wins
		if pod := r.await("the next pod is ready", ready); pod.UID == uid {
			t.Error("the old pod came back")
		}
	})
}

// TestRule: a rule wins over the annotation, and only where it wants to.
func TestRule(t *testing.T) {
	t.Parallel()
	r := start(t, poddriver.Config{Rule: func(p *corev1.Pod) (poddriver.Behaviour, bool) {
		return poddriver.Behaviour{Waiting: "ErrImagePull"}, p.Labels["broken"] == "yes"
	}})
	r.create("fail", func(p *corev1.Pod) { p.Labels = map[string]string{"broken": "yes"} })
	r.await("the rule's reason", waiting("ErrImagePull"))
	r.delete(0)
	r.awaitGone()
	r.create("fail")
	r.await("the annotation's end", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
}

// TestBind: without a scheduler the driver binds, here a Pod that asks for a scheduler that does not exist.
func TestBind(t *testing.T) {
	t.Parallel()
	r := start(t, poddriver.Config{Bind: true})
	r.create("ready", func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" })
	pod := r.await("ready", ready)
	if pod.Spec.NodeName != "stand-in" || !is(pod, corev1.PodScheduled, corev1.ConditionTrue) {
		t.Errorf("pod on node %q with conditions %+v", pod.Spec.NodeName, pod.Status.Conditions)
	}
}

// TestNeighbours: two drivers share the Node, each drives its own namespace, and the end of one does not disturb the other.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	r := start(t, poddriver.Config{})
	t.Run("the other", func(t *testing.T) {
		other := start(t, poddriver.Config{})
		other.create("ready")
		other.await("ready", ready)
		r.create("ready")
		r.await("ready", ready)
	})
	r.delete(0)
	r.awaitGone()
	r.create("ready")
	r.await("ready", ready)
	node, err := r.cluster.Client().CoreV1().Nodes().Get(t.Context(), "stand-in", metav1.GetOptions{})
	r.must(err)
	if len(node.Spec.Taints) > 0 {
		t.Errorf("the shared node is tainted: %+v", node.Spec.Taints)
	}
}
