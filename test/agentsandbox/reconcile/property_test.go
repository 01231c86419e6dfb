package reconcile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// world is a naive cluster around one Sandbox: it carries decisions out and lets accidents happen in between.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	dialect Dialect
	now     time.Time
	o       Observed
	uids    int
	gone    bool // the Sandbox itself was deleted
}

func (w *world) uid() types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("uid-%d", w.uids))
}

// happen changes the world at random, within what an API server allows.
func (w *world) happen() {
	s := w.o.Sandbox
	events := []func(){
		func() { w.setMode(true) },
		func() { w.setMode(false) },
		func() { // kubelet
			for _, p := range w.o.Pods {
				p.Status.Phase = []corev1.PodPhase{
					corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed,
				}[w.rand.IntN(5)]
				p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
				p.Status.Conditions = []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
				}
			}
		},
		func() { // a terminating Pod is gone
			w.o.Pods = slices.DeleteFunc(w.o.Pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
		},
		func() { // somebody deletes Pods
			for _, p := range w.o.Pods {
				p.DeletionTimestamp = &metav1.Time{Time: w.now}
			}
		},
		func() { // a stranger takes the name
			if podNamed(w.o.Pods, s.Name) == nil {
				w.o.Pods = append(w.o.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.Name, UID: w.uid()}})
			}
		},
		func() { // somebody makes a second Pod that claims our ownership
			if podNamed(w.o.Pods, "second") == nil {
				w.o.Pods = append(w.o.Pods, &corev1.Pod{ObjectMeta: child(s, "second", string(w.uid()))})
			}
		},
		func() { w.o.PodError = errors.New("pod lookup failed") },
		func() { w.o.ChildError = errors.New("claim lookup failed") },
		func() { s.Annotations = map[string]string{api.AnnotationPodName: "second"} },
		func() { s.Spec.Service = []*bool{nil, new(true), new(bool)}[w.rand.IntN(3)]; s.Generation++ },
		func() {
			s.Spec.PodTemplate.Metadata.Labels = map[string]string{"k": strconv.Itoa(w.rand.IntN(3))}
			s.Generation++
		},
		func() { w.now = w.now.Add(time.Second) },
		func() {
			if w.rand.IntN(8) == 0 {
				s.Spec.ShutdownTime = &metav1.Time{Time: w.now.Add(time.Second)}
				s.Spec.ShutdownPolicy = []string{api.ShutdownRetain, api.ShutdownDelete}[w.rand.IntN(2)]
				s.Generation++
			}
		},
	}
	events[w.rand.IntN(len(events))]()
}

func (w *world) setMode(suspended bool) {
	s := w.o.Sandbox
	s.Generation++
	if w.dialect.Version == api.V1alpha1 {
		s.Spec.OperatingMode, s.Spec.Replicas = "", map[bool]*int64{true: new(int64), false: nil}[suspended]
		return
	}
	s.Spec.OperatingMode = map[bool]string{true: api.ModeSuspended, false: api.ModeRunning}[suspended]
}

// step decides, checks the invariants of the package and carries the decision out. It reports whether anything changed.
func (w *world) step() bool {
	s := w.o.Sandbox
	d := Decide(w.o, w.dialect, w.now)
	w.checkActions(d)
	w.checkConditions(d)
	changed := len(d.Actions) > 0
	for _, a := range d.Actions {
		w.carryOut(a)
	}
	if d.Status != nil {
		changed = changed || !equality.Semantic.DeepEqual(s.Status, *d.Status)
		s.Status = *d.Status
	}
	return changed
}

func (w *world) checkActions(d Decision) {
	s := w.o.Sandbox
	if (w.o.PodError != nil || w.o.ChildError != nil) && len(d.Actions) > 0 {
		w.t.Fatalf("acted (%v) although something could not be found out", d.Actions)
	}
	for _, a := range d.Actions {
		switch a.Step {
		case CreatePod:
			if s.Suspended() || expired(s, w.now) || s.DeletionTimestamp != nil {
				w.t.Fatalf("made a pod while suspended=%v expired=%v", s.Suspended(), expired(s, w.now))
			}
			if len(owned(w.o.Pods, s)) > 0 || podNamed(w.o.Pods, s.Name) != nil {
				w.t.Fatalf("made a pod beside %d existing ones", len(w.o.Pods))
			}
		case DeletePod:
			pod := podNamed(w.o.Pods, a.Name)
			if pod == nil || pod.UID != a.UID || !controls(s, pod) {
				w.t.Fatalf("deletes pod %s with UID %s, which is not the sandbox's", a.Name, a.UID)
			}
			if !s.Suspended() && !expired(s, w.now) {
				w.t.Fatal("deletes the pod of a running sandbox")
			}
		case DeleteService:
			if w.o.Service == nil || w.o.Service.UID != a.UID || !controls(s, w.o.Service) {
				w.t.Fatalf("deletes service %s with UID %s, which is not the sandbox's", a.Name, a.UID)
			}
		case DeleteSandbox:
			if !expired(s, w.now) || s.Spec.ShutdownPolicy != api.ShutdownDelete || a.UID != s.UID {
				w.t.Fatal("deletes a sandbox that did not ask for it")
			}
		default: // no harm can come from it
		}
	}
}

func (w *world) checkConditions(d Decision) {
	s := w.o.Sandbox
	if d.Status == nil {
		return
	}
	ready := 0
	for _, c := range d.Status.Conditions {
		if c.Type == api.ConditionReady {
			ready++
		}
		left := c.Type == api.ConditionSuspended && w.dialect.KeepSuspended && !s.Suspended() || expired(s, w.now) && c.Type != api.ConditionReady
		if c.ObservedGeneration != s.Generation && !left {
			w.t.Fatalf("condition %s/%s has generation %d at %d", c.Type, c.Reason, c.ObservedGeneration, s.Generation)
		}
		if c.Reason == "" {
			w.t.Fatalf("condition %s has no reason", c.Type)
		}
		if c.Type == api.ConditionSuspended && c.Status == metav1.ConditionTrue && !left && len(owned(w.o.Pods, s)) > 0 {
			w.t.Fatal("Suspended=True while the sandbox's pod exists")
		}
		if c.Type == api.ConditionReady && c.Status == metav1.ConditionTrue && (s.Suspended() || len(owned(w.o.Pods, s)) != 1) {
			w.t.Fatal("Ready=True without exactly one pod, or while suspended")
		}
	}
	if ready != 1 {
		w.t.Fatalf("%d Ready conditions, want one", ready)
	}
}

func (w *world) carryOut(a Action) {
	s := w.o.Sandbox
	switch a.Step {
	case CreatePod:
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(a.Object, &pod); err != nil {
			w.t.Fatal(err)
		}
		pod.UID, pod.Status.Phase = w.uid(), corev1.PodPending
		w.o.Pods = append(w.o.Pods, &pod)
	case DeletePod:
		podNamed(w.o.Pods, a.Name).DeletionTimestamp = &metav1.Time{Time: w.now}
	case PatchPod:
		pod := podNamed(w.o.Pods, a.Name)
		m := a.Patch["metadata"].(map[string]any)
		pod.Labels = mergeInto(pod.Labels, m["labels"])
		pod.Annotations = mergeInto(pod.Annotations, m["annotations"])
	case CreateClaim:
		w.o.Claims = append(w.o.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: child(s, a.Name, string(w.uid()))})
	case CreateService:
		w.o.Service = &corev1.Service{ObjectMeta: child(s, a.Name, string(w.uid()))}
	case DeleteService:
		w.o.Service = nil
	case ClearPodName:
		delete(s.Annotations, api.AnnotationPodName)
	case DeleteSandbox:
		w.gone = true
	default:
		w.t.Fatalf("%s is not an action", a.Step)
	}
}

func mergeInto(m map[string]string, change any) map[string]string {
	changes, _ := change.(map[string]any)
	for k, v := range changes {
		if m == nil {
			m = map[string]string{}
		}
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v.(string)
		}
	}
	return m
}

// TestProperties lets hundreds of short lives happen in every dialect. After each accident the invariants hold; when
// accidents end, the controller comes to rest.
func TestProperties(t *testing.T) {
	dialects := map[string]Dialect{
		"newest": Newest(), "older v1beta1": OlderV1beta1(), "v1alpha1": V1alpha1(), "bare": V1alpha1WithoutSuspended(),
	}
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(400) {
				w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), dialect: dialect, now: now, o: base()}
				w.o.Pods = nil
				w.setMode(seed%2 == 0)
				for range 30 {
					w.happen()
					w.step()
					if w.gone {
						break
					}
				}
				w.comeToRest(seed)
			}
		})
	}
}

func (w *world) comeToRest(seed uint64) {
	w.o.PodError, w.o.ChildError = nil, nil
	for range 10 {
		if w.gone || !w.step() {
			return
		}
	}
	w.t.Fatalf("seed %d: still busy after 10 undisturbed passes: %+v", seed, summarise(Decide(w.o, w.dialect, w.now)))
}
