package agentsandbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// TestLife follows one Sandbox from a suspended creation through run, stop, run and deletion.
func TestLife(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	r.create()

	s := r.await(api.ConditionSuspended, "True/PodTerminated")
	if r.pod(name) != nil {
		t.Fatal("a suspended sandbox has a pod")
	}
	if claim := r.claim(); !metav1.IsControlledBy(claim, s) {
		t.Errorf("owner references of the claim = %+v, want the sandbox as controller", claim.OwnerReferences)
	}

	r.resume()
	s = r.ready()
	pod := r.mustPod()
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.UID != s.UID || owner.APIVersion != "agents.x-k8s.io/v1beta1" || owner.Kind != "Sandbox" {
		t.Errorf("controller of the pod = %+v, want the sandbox", owner)
	}
	if pod.Labels[api.LabelNameHash] != api.NameHash(name) || pod.Labels["role"] != "workload" {
		t.Errorf("labels of the pod = %v", pod.Labels)
	}
	if diff := cmp.Diff([]string{pod.Status.PodIP}, s.Status.PodIPs); diff != "" || s.Status.NodeName != pod.Spec.NodeName {
		t.Errorf("status = %+v, want the pod's addresses and node %s", s.Status, pod.Spec.NodeName)
	}
	r.await(api.ConditionPodScheduled, "True/PodScheduled")
	r.await(api.ConditionSuspended, "False/NotSuspended")

	r.suspend()
	s = r.await(api.ConditionSuspended, "True/PodTerminated")
	if r.pod(name) != nil {
		t.Error("Suspended=True while the pod exists")
	}
	if r.claim().DeletionTimestamp != nil {
		t.Error("suspending deletes the claim")
	}
	if ready := meta.FindStatusCondition(s.Status.Conditions, api.ConditionReady); ready.Reason != api.ReasonSandboxSuspended {
		t.Errorf("Ready of a suspended sandbox = %+v", ready)
	}

	r.resume()
	r.ready()
	if r.mustPod().UID == pod.UID {
		t.Error("the pod survived a suspension")
	}

	r.must(r.sandboxes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	cluster.Eventually(t, "the children go with the sandbox", func(ctx context.Context) error {
		if r.pod(name) != nil {
			return errors.New("the pod is there")
		}
		_, err := r.cluster.Client().CoreV1().PersistentVolumeClaims(r.namespace).Get(ctx, "workspace-"+name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.New("the claim is there")
		}
		return nil
	})
}

// TestGatedPod: the gate shows in the status, and readiness comes after it was taken away (contract 7.2 steps 17 to 25).
func TestGatedPod(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	r.create(func(spec map[string]any) {
		template := spec["podTemplate"].(map[string]any)["spec"].(map[string]any)
		template["schedulingGates"] = []any{map[string]any{"name": "openshell.ai/bootstrap"}}
	})
	r.resume()
	r.await(api.ConditionPodScheduled, "False/SchedulingGated")
	r.await(api.ConditionReady, "False/DependenciesNotReady")
	pod := r.mustPod()
	pod.Spec.SchedulingGates = nil
	_, err := r.cluster.Client().CoreV1().Pods(r.namespace).Update(t.Context(), pod, metav1.UpdateOptions{})
	r.must(err)
	r.ready()
}

// TestSuspendRace: the Sandbox is suspended between the decision to make its Pod and the deed. No Pod may appear.
func TestSuspendRace(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	r.create()
	r.faults.Hold(reconcile.CreatePod)
	r.resume()
	r.held(reconcile.CreatePod)
	r.suspend()
	r.faults.Release(reconcile.CreatePod)
	s := r.await(api.ConditionSuspended, "True/PodTerminated")
	if r.pod(name) != nil {
		t.Error("a pod was made for a suspended sandbox")
	}
	if s.Status.Selector != "" {
		t.Error("the status tells of a pod that should never have been made")
	}
}

func TestForeignPod(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	foreign := r.addPod(name, nil)
	r.create()
	r.await(api.ConditionSuspended, "False/PodNotOwned")
	r.resume()
	r.await(api.ConditionReady, "False/ReconcilerError")
	if pod := r.mustPod(); pod.UID != foreign.UID || pod.DeletionTimestamp != nil || pod.Labels != nil {
		t.Errorf("the foreign pod was touched: %+v", pod.ObjectMeta)
	}
	r.deletePod(name)
	r.ready()
}

func TestMultiplePods(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	r.create()
	r.resume()
	s := r.ready()
	r.addPod("second", metav1.NewControllerRef(s, api.V1beta1.Resource().GroupVersion().WithKind(api.Kind)))
	r.await(api.ConditionReady, "False/MultiplePods")
	r.suspend()
	r.await(api.ConditionSuspended, "Unknown/PodStateUnknown")
	if r.pod(name) == nil || r.pod("second") == nil {
		t.Error("a pod was deleted although it is unclear which")
	}
	r.deletePod("second")
	r.await(api.ConditionSuspended, "True/PodTerminated")
}

func TestFailedPod(t *testing.T) {
	tests := map[string]struct {
		end          poddriver.End
		ready, ended string
	}{
		"failed":    {poddriver.End{ExitCode: 3}, "False/PodFailed", "True/PodFailed"},
		"evicted":   {poddriver.End{Evicted: true}, "False/PodFailed", "True/PodFailed"},
		"succeeded": {poddriver.End{}, "False/PodSucceeded", "True/PodSucceeded"},
	}
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
			r.create()
			r.resume()
			r.ready()
			r.pods.Override(r.namespace, name, poddriver.Behaviour{End: &tc.end})
			r.await(api.ConditionReady, tc.ready)
			r.await(api.ConditionFinished, tc.ended)
			uid := r.mustPod().UID

			// A new generation starts over.
			r.suspend()
			s := r.await(api.ConditionSuspended, "True/PodTerminated")
			if meta.FindStatusCondition(s.Status.Conditions, api.ConditionFinished) != nil {
				t.Error("Finished outlived the pod")
			}
			r.pods.Override(r.namespace, name, poddriver.Behaviour{})
			r.resume()
			r.ready()
			if r.mustPod().UID == uid {
				t.Error("the ended pod is still there")
			}
		})
	}
}

// TestTemplateChange: metadata reaches a live Pod, the spec does not (contract 8.4).
func TestTemplateChange(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	r.create()
	r.resume()
	r.ready()
	before := r.mustPod()
	r.editSpec(func(spec map[string]any) {
		template := spec["podTemplate"].(map[string]any)
		template["metadata"] = map[string]any{"labels": map[string]any{"tier": "1", api.LabelNameHash: "forged"}}
		template["spec"].(map[string]any)["containers"] = []any{map[string]any{"name": "agent", "image": "another"}}
	})
	r.ready()
	after := r.mustPod()
	if after.UID != before.UID || after.Spec.Containers[0].Image != "agent" {
		t.Errorf("a changed template spec reached the pod: UID %s, image %s", after.UID, after.Spec.Containers[0].Image)
	}
	want := map[string]string{"tier": "1", api.LabelNameHash: api.NameHash(name)}
	if diff := cmp.Diff(want, after.Labels); diff != "" {
		t.Errorf("labels of the pod (-want +got):\n%s", diff)
	}
}

func TestPodNameAnnotation(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	r.create()
	r.edit(func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{api.AnnotationPodName: "nowhere", "mine": "1"})
	})
	r.resume()
	s := r.ready()
	if diff := cmp.Diff(map[string]string{"mine": "1"}, s.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestService(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	r.create(func(spec map[string]any) { spec["service"] = true })
	r.resume()
	s := r.ready()
	if want := name + "." + r.namespace + ".svc.cluster.local"; s.Status.ServiceFQDN != want || s.Status.Service != name {
		t.Errorf("service in the status = %q, %q; want %q", s.Status.Service, s.Status.ServiceFQDN, want)
	}
	service, err := r.cluster.Client().CoreV1().Services(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
	r.must(err)
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !metav1.IsControlledBy(service, s) {
		t.Errorf("service = %+v, want a headless one of the sandbox", service)
	}
	r.editSpec(func(spec map[string]any) { spec["service"] = false })
	cluster.Eventually(t, "the service goes", func(ctx context.Context) error {
		_, err := r.cluster.Client().CoreV1().Services(r.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is there")
	})
}

func TestExpiry(t *testing.T) {
	expire := func(policy string) func(map[string]any) {
		return func(spec map[string]any) {
			spec["shutdownTime"] = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
			spec["shutdownPolicy"] = policy
		}
	}
	t.Run("retain", func(t *testing.T) {
		r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
		r.create()
		r.resume()
		r.ready()
		r.editSpec(expire(api.ShutdownRetain))
		r.await(api.ConditionReady, "False/SandboxExpired")
		cluster.Eventually(t, "the pod goes", func(context.Context) error {
			if r.pod(name) != nil {
				return errors.New("it is there")
			}
			return nil
		})
		r.claim()
		if s := r.get(); s.DeletionTimestamp != nil || len(s.Status.PodIPs) > 0 {
			t.Errorf("an expired sandbox that is retained = %+v", s)
		}
	})
	t.Run("delete", func(t *testing.T) {
		r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
		r.create(expire(api.ShutdownDelete))
		cluster.Eventually(t, "the sandbox goes", func(ctx context.Context) error {
			_, err := r.sandboxes().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.New("it is there")
		})
	})
	t.Run("in a while", func(t *testing.T) {
		r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
		r.create(func(spec map[string]any) {
			spec["shutdownTime"] = time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
		})
		r.await(api.ConditionReady, "False/SandboxExpired") // without any event at that time
	})
}

// TestFailingSteps: a step that fails shows as ReconcilerError, and the controller recovers by itself.
func TestFailingSteps(t *testing.T) {
	boom := errors.New("the API server is out of order")
	tests := map[string]struct {
		step      reconcile.Step
		suspended bool // in which state the step is reached
		want      map[string]string
	}{
		"creating the claim": {reconcile.CreateClaim, true, map[string]string{api.ConditionReady: "False/ReconcilerError", api.ConditionSuspended: "True/PodTerminated"}},
		"creating the pod":   {reconcile.CreatePod, false, map[string]string{api.ConditionReady: "False/ReconcilerError", api.ConditionPodScheduled: "Unknown/PodSchedulingUnknown"}},
		"looking up the pod": {reconcile.Observe, true, map[string]string{api.ConditionReady: "False/ReconcilerError", api.ConditionSuspended: "Unknown/PodStateUnknown"}},
	}
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
			r.faults.Fail(tc.step, boom)
			r.create(func(spec map[string]any) { r.setMode(spec, tc.suspended) })
			for condition, want := range tc.want {
				r.await(condition, want)
			}
			r.faults.Fail(tc.step, nil)
			if tc.suspended {
				r.await(api.ConditionReady, "False/SandboxSuspended")
			} else {
				r.ready()
			}
		})
	}
}

// TestOlderController: Suspended=True of the old generation stays after a resume, beside Ready=True of the new one.
func TestOlderController(t *testing.T) {
	r := start(t, cluster.Start(t, cluster.ControlPlane), reconcile.OlderV1beta1())
	suspended := r.create().Generation
	r.await(api.ConditionSuspended, "True/PodTerminated")
	r.resume()
	s := r.ready()
	stale := meta.FindStatusCondition(s.Status.Conditions, api.ConditionSuspended)
	if stale == nil || stale.Status != metav1.ConditionTrue || stale.ObservedGeneration != suspended {
		t.Errorf("Suspended after resume = %+v, want True of generation %d", stale, suspended)
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, api.ConditionPodScheduled); c != nil {
		t.Errorf("an older controller reports %+v", c)
	}
}

// TestNeighbour: a Sandbox in a namespace that is not ours gets neither a status nor a Pod.
func TestNeighbour(t *testing.T) {
	c := cluster.Start(t, cluster.ControlPlane)
	ours := start(t, c, reconcile.Newest())
	theirs := *ours
	theirs.namespace = c.Namespace(t)
	running := func(spec map[string]any) { ours.setMode(spec, false) }
	theirs.create(running)
	ours.create(running)
	ours.ready() // the later one is done, so the earlier one was seen
	if s := theirs.get(); s.Status.Conditions != nil || theirs.pod(name) != nil {
		t.Errorf("the neighbour's sandbox was touched: %+v", s.Status)
	}
}

// TestV1alpha1AndUpgrade runs a cluster from before the version upgrade, upgrades it under a running Sandbox, and lets
// the newest controller carry on with what the old one left.
func TestV1alpha1AndUpgrade(t *testing.T) {
	c := cluster.StartPrivate(t).Cluster
	t.Run("v1alpha1", func(t *testing.T) {
		dialects := map[string]reconcile.Dialect{"life": reconcile.V1alpha1(), "life without Suspended": reconcile.V1alpha1WithoutSuspended()}
		for what, dialect := range dialects {
			t.Run(what, func(t *testing.T) {
				r := start(t, c, dialect)
				r.create()
				r.await(api.ConditionReady, "False/SandboxSuspended")
				r.resume()
				if s := r.ready(); s.Status.Replicas == nil || *s.Status.Replicas != 1 || s.Status.NodeName != "" {
					t.Errorf("status of a running v1alpha1 sandbox = %+v", s.Status)
				}
				if owner := metav1.GetControllerOf(r.mustPod()); owner == nil || owner.APIVersion != "agents.x-k8s.io/v1alpha1" {
					t.Errorf("controller of the pod = %+v", owner)
				}
				r.suspend()
				cluster.Eventually(t, "the pod goes", func(context.Context) error {
					if r.pod(name) != nil {
						return errors.New("it is there")
					}
					return nil
				})
				if !dialect.ReportSuspended {
					if s := r.await(api.ConditionReady, "False/SandboxSuspended"); meta.FindStatusCondition(s.Status.Conditions, api.ConditionSuspended) != nil {
						t.Error("the oldest controller reports Suspended")
					}
					return
				}
				r.await(api.ConditionSuspended, "True/PodTerminated")
			})
		}
	})

	// A Sandbox that runs while its cluster is upgraded.
	r := &rig{T: t, cluster: c, namespace: c.Namespace(t), dialect: reconcile.V1alpha1()}
	r.drivePods()
	t.Run("before the upgrade", func(t *testing.T) {
		old := *r
		old.T = t
		old.control()
		old.create(func(spec map[string]any) { r.setMode(spec, false) })
		old.ready()
	})
	pod := r.mustPod()
	r.must(crd.Upgrade(t.Context(), c.RESTConfig()))
	converter, err := crd.NewConverter(c.RESTConfig(), zerolog.Nop())
	r.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- converter.Run(ctx) }()
	defer func() { cancel(); r.must(<-done) }()
	select {
	case <-converter.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("the converter ended before it was ready: %v", err)
	case <-time.After(patience):
		t.Fatal("the converter was not ready in time")
	}

	t.Run("after the upgrade", func(t *testing.T) {
		renewed := *r
		renewed.T, renewed.dialect = t, reconcile.Newest()
		renewed.control()
		renewed.ready()
		if got := renewed.mustPod(); got.UID != pod.UID {
			t.Error("the upgrade cost the sandbox its pod")
		}
		renewed.suspend()
		renewed.await(api.ConditionSuspended, "True/PodTerminated")
		old := *r // a client of the old version sees the same
		if s := old.get(); s.Spec.Replicas == nil || *s.Spec.Replicas != 0 {
			t.Errorf("replicas of the suspended sandbox in v1alpha1 = %v, want 0", s.Spec.Replicas)
		}
	})
}
