package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

func TestCreatedObjects(t *testing.T) {
	o := base()
	o.Pods, o.Claims = nil, nil
	o.Sandbox.Spec.Service = new(true)
	o.Sandbox.Spec.PodTemplate.Metadata = api.TemplateMetadata{
		Labels: map[string]string{"role": "workload", api.LabelNameHash: "forged", "extensions.agents.x-k8s.io/id": "forged"},
		Annotations: map[string]string{
			"note": "n", "another": "a", api.AnnotationTraceContext: "forged", api.AnnotationPropagatedLabels: "forged",
		},
	}
	o.Sandbox.Spec.PodTemplate.Spec["volumes"] = []any{
		map[string]any{"name": "run", "emptyDir": map[string]any{}},
		map[string]any{"name": "workspace", "emptyDir": map[string]any{}},
	}
	owner := []any{map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "name": "box", "uid": "sandbox-uid",
		"controller": true, "blockOwnerDeletion": true,
	}}
	hash := api.NameHash("box")
	want := []Action{
		{Step: CreateClaim, Name: "workspace-box", Object: map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": map[string]any{
				"name": "workspace-box", "namespace": "ns", "ownerReferences": owner,
				"labels": map[string]any{api.LabelNameHash: hash},
			},
			"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}},
		}},
		{Step: CreatePod, Name: "box", Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{
				"name": "box", "namespace": "ns", "ownerReferences": owner,
				"labels": map[string]any{"role": "workload", api.LabelNameHash: hash},
				"annotations": map[string]any{
					"note": "n", "another": "a",
					api.AnnotationPropagatedLabels:      "role",
					api.AnnotationPropagatedAnnotations: "another,note",
				},
			},
			"spec": map[string]any{
				"containers": []any{map[string]any{"name": "agent", "image": "i"}},
				"volumes": []any{
					map[string]any{"name": "run", "emptyDir": map[string]any{}},
					map[string]any{"name": "workspace", "persistentVolumeClaim": map[string]any{"claimName": "workspace-box"}},
				},
			},
		}},
		{Step: CreateService, Name: "box", Object: map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{
				"name": "box", "namespace": "ns", "ownerReferences": owner,
				"labels": map[string]any{api.LabelNameHash: hash},
			},
			"spec": map[string]any{"clusterIP": "None", "selector": map[string]any{api.LabelNameHash: hash}},
		}},
	}
	template := cmp.Diff(nil, o.Sandbox.Spec.PodTemplate)
	if diff := cmp.Diff(want, Decide(o, Newest(), now).Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(nil, o.Sandbox.Spec.PodTemplate); diff != template {
		t.Error("Decide changed the Sandbox's template")
	}
}

func TestPropagation(t *testing.T) {
	none := map[string]any(nil)
	tests := map[string]struct {
		change func(*api.Sandbox, *corev1.Pod)
		want   map[string]any // metadata of the patch without the UID
	}{
		"nothing changed": {func(*api.Sandbox, *corev1.Pod) {}, none},
		"a label's value": {
			func(s *api.Sandbox, _ *corev1.Pod) { s.Spec.PodTemplate.Metadata.Labels["role"] = "supervisor" },
			map[string]any{"labels": map[string]any{"role": "supervisor"}},
		},
		"a new label": {
			func(s *api.Sandbox, _ *corev1.Pod) { s.Spec.PodTemplate.Metadata.Labels["b"] = "1" },
			map[string]any{
				"labels":      map[string]any{"b": "1"},
				"annotations": map[string]any{api.AnnotationPropagatedLabels: "b,role"},
			},
		},
		"a removed label": {
			func(s *api.Sandbox, _ *corev1.Pod) { s.Spec.PodTemplate.Metadata.Labels = nil },
			map[string]any{
				"labels":      map[string]any{"role": nil},
				"annotations": map[string]any{api.AnnotationPropagatedLabels: ""},
			},
		},
		"a new annotation": {
			func(s *api.Sandbox, _ *corev1.Pod) {
				s.Spec.PodTemplate.Metadata.Annotations = map[string]string{"a": "1"}
			},
			map[string]any{"annotations": map[string]any{"a": "1", api.AnnotationPropagatedAnnotations: "a"}},
		},
		"a removed annotation": {
			func(_ *api.Sandbox, p *corev1.Pod) {
				p.Annotations["a"] = "1"
				p.Annotations[api.AnnotationPropagatedAnnotations] = "a"
			},
			map[string]any{"annotations": map[string]any{"a": nil, api.AnnotationPropagatedAnnotations: ""}},
		},
		"what others wrote on the pod stays": {
			func(_ *api.Sandbox, p *corev1.Pod) { p.Labels["mesh"], p.Annotations["mesh"] = "x", "y" },
			none,
		},
		"a reserved key in the template": {
			func(s *api.Sandbox, _ *corev1.Pod) { s.Spec.PodTemplate.Metadata.Labels[api.Group+"/x"] = "1" },
			none,
		},
		"a forged name hash is put right": {
			func(_ *api.Sandbox, p *corev1.Pod) { p.Labels[api.LabelNameHash] = "0" },
			map[string]any{"labels": map[string]any{api.LabelNameHash: api.NameHash("box")}},
		},
		"a changed pod spec recreates nothing": {
			func(s *api.Sandbox, _ *corev1.Pod) { s.Spec.PodTemplate.Spec["restartPolicy"] = "Always" },
			none,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := base()
			tc.change(o.Sandbox, o.Pods[0])
			actions := Decide(o, Newest(), now).Actions
			var got map[string]any
			if len(actions) > 0 {
				if len(actions) > 1 || actions[0].Step != PatchPod || actions[0].UID != "pod-uid" {
					t.Fatalf("actions = %+v, want one PatchPod of pod-uid", actions)
				}
				got = actions[0].Patch["metadata"].(map[string]any)
				if got["uid"] != "pod-uid" {
					t.Errorf("the patch names UID %v, want pod-uid", got["uid"])
				}
				delete(got, "uid")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("metadata patch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPodName covers the annotation that names another Pod (contract 8.4).
func TestPodName(t *testing.T) {
	annotate := func(o *Observed, name string) { o.Sandbox.Annotations = map[string]string{api.AnnotationPodName: name} }
	tests := map[string]struct {
		change func(*Observed)
		want   []string
	}{
		"names the sandbox's pod": {func(o *Observed) { annotate(o, "warm"); o.Pods[0].Name = "warm" }, nil},
		"the pod it names is suspended": {
			func(o *Observed) { annotate(o, "warm"); o.Pods[0].Name = "warm"; suspend(o) },
			[]string{"DeletePod warm"},
		},
		"names nothing": {
			func(o *Observed) { annotate(o, "warm"); o.Pods = nil },
			[]string{"ClearPodName box", "CreatePod box"},
		},
		"names nothing while suspended": {
			func(o *Observed) { annotate(o, "warm"); o.Pods = nil; suspend(o) },
			[]string{"ClearPodName box"},
		},
		"names a foreign pod": {
			func(o *Observed) { annotate(o, "warm"); o.Pods[0].Name = "warm"; stranger(&o.Pods[0].ObjectMeta) },
			[]string{"ClearPodName box"},
		},
		"names another than the owned one": {
			func(o *Observed) { annotate(o, "warm") },
			[]string{"ClearPodName box"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := base()
			tc.change(&o)
			d := Decide(o, Newest(), now)
			if diff := cmp.Diff(tc.want, summarise(d).Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			for _, a := range d.Actions {
				if a.Step == ClearPodName && a.UID != "sandbox-uid" {
					t.Errorf("ClearPodName names UID %q, want the Sandbox's", a.UID)
				}
			}
		})
	}
}

func TestService(t *testing.T) {
	mine := func(o *Observed) { o.Service = &corev1.Service{ObjectMeta: child(o.Sandbox, "box", "svc-uid")} }
	tests := map[string]struct {
		change func(*Observed)
		steps  []string
		name   string // status.service
	}{
		"unset, none":                {func(*Observed) {}, nil, ""},
		"unset, ours stays":          {mine, nil, "box"},
		"unset, foreign is ignored":  {func(o *Observed) { mine(o); stranger(&o.Service.ObjectMeta) }, nil, ""},
		"true, none":                 {func(o *Observed) { o.Sandbox.Spec.Service = new(true) }, []string{"CreateService box"}, "box"},
		"true, ours":                 {func(o *Observed) { mine(o); o.Sandbox.Spec.Service = new(true) }, nil, "box"},
		"false, none":                {func(o *Observed) { o.Sandbox.Spec.Service = new(bool) }, nil, ""},
		"false, ours goes":           {func(o *Observed) { mine(o); o.Sandbox.Spec.Service = new(bool) }, []string{"DeleteService box"}, ""},
		"false, foreign is not ours": {func(o *Observed) { mine(o); stranger(&o.Service.ObjectMeta); o.Sandbox.Spec.Service = new(bool) }, nil, ""},
		"true while suspended":       {func(o *Observed) { o.Sandbox.Spec.Service = new(true); suspend(o); o.Pods = nil }, []string{"CreateService box"}, "box"},
		"untouched with several pods": {func(o *Observed) {
			o.Sandbox.Spec.Service = new(true)
			o.Pods = append(o.Pods, readyPod(o.Sandbox, "b", "b"))
		}, nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := base()
			tc.change(&o)
			d := Decide(o, Newest(), now)
			if diff := cmp.Diff(tc.steps, summarise(d).Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if d.Status.Service != tc.name {
				t.Errorf("status.service = %q, want %q", d.Status.Service, tc.name)
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	before := base()
	before.Sandbox.Spec.ShutdownTime = &metav1.Time{Time: now.Add(time.Minute)}
	if d := Decide(before, Newest(), now); d.Again != time.Minute || summarise(d).Ready != "True/DependenciesReady" {
		t.Errorf("a minute before shutdownTime: again in %v with Ready %s, want a minute and True", d.Again, summarise(d).Ready)
	}

	// marked is a Sandbox whose expiry has been written, as the second pass sees it.
	marked := func(policy string) Observed {
		o := base()
		o.Sandbox.Spec.ShutdownTime = &metav1.Time{Time: now}
		o.Sandbox.Spec.ShutdownPolicy = policy
		o.Sandbox.Status = *Decide(before, Newest(), now).Status
		first := Decide(o, Newest(), now)
		if len(first.Actions) > 0 || summarise(first).Ready != "False/SandboxExpired" || first.Again == 0 {
			t.Fatalf("first pass after shutdownTime = %+v, want only the mark and another pass", summarise(first))
		}
		o.Sandbox.Status = *first.Status
		return o
	}
	tests := map[string]struct {
		policy string
		change func(*Observed)
		want   []string
	}{
		"retain":           {api.ShutdownRetain, func(*Observed) {}, []string{"DeletePod box"}},
		"no policy":        {"", func(*Observed) {}, []string{"DeletePod box"}},
		"delete":           {api.ShutdownDelete, func(*Observed) {}, []string{"DeletePod box", "DeleteSandbox box"}},
		"foreign pod":      {api.ShutdownRetain, func(o *Observed) { stranger(&o.Pods[0].ObjectMeta) }, nil},
		"pod terminating":  {api.ShutdownRetain, func(o *Observed) { terminating(&o.Pods[0].ObjectMeta) }, nil},
		"nothing left":     {api.ShutdownRetain, func(o *Observed) { o.Pods = nil }, nil},
		"suspended":        {api.ShutdownRetain, func(o *Observed) { suspend(o); o.Pods = nil }, nil},
		"with its service": {api.ShutdownRetain, func(o *Observed) { o.Service = &corev1.Service{ObjectMeta: child(o.Sandbox, "box", "s")} }, []string{"DeletePod box", "DeleteService box"}},
		"foreign service":  {api.ShutdownRetain, func(o *Observed) { o.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "box"}} }, []string{"DeletePod box"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := marked(tc.policy)
			tc.change(&o)
			d := Decide(o, Newest(), now)
			if diff := cmp.Diff(tc.want, summarise(d).Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if tc.policy == api.ShutdownDelete {
				return
			}
			if meta.FindStatusCondition(d.Status.Conditions, api.ConditionPodScheduled) != nil {
				t.Error("PodScheduled outlived the expiry")
			}
			if len(d.Status.PodIPs) > 0 || d.Status.Selector != "" || d.Status.NodeName != "" {
				t.Errorf("status still describes the pod: %+v", d.Status)
			}
		})
	}
}
