package reconcile

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

var now = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)

// base is the valid observation that every case breaks in one way: a running Sandbox of generation 3 with its claim and
// a Pod that is ready.
func base() Observed {
	s := &api.Sandbox{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.V1beta1.APIVersion(), Kind: api.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "box", Namespace: "ns", UID: "sandbox-uid", Generation: 3},
		Spec: api.Spec{
			OperatingMode: api.ModeRunning,
			PodTemplate: api.PodTemplate{
				Metadata: api.TemplateMetadata{Labels: map[string]string{"role": "workload"}},
				Spec: map[string]any{
					"containers": []any{map[string]any{"name": "agent", "image": "i"}},
					"volumes":    []any{map[string]any{"name": "run", "emptyDir": map[string]any{}}},
				},
			},
			VolumeClaimTemplates: []api.ClaimTemplate{{
				Metadata: api.TemplateMetadata{Name: "workspace"},
				Spec:     map[string]any{"accessModes": []any{"ReadWriteOnce"}},
			}},
		},
	}
	return Observed{
		Sandbox: s,
		Pods:    []*corev1.Pod{readyPod(s, "box", "pod-uid")},
		Claims:  []*corev1.PersistentVolumeClaim{{ObjectMeta: child(s, "workspace-box", "claim-uid")}},
	}
}

// child is the metadata of an object that the Sandbox controls.
func child(s *api.Sandbox, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: s.Namespace, UID: types.UID(uid),
		Labels:          map[string]string{api.LabelNameHash: api.NameHash(s.Name)},
		OwnerReferences: []metav1.OwnerReference{ownerReference(s, Newest())},
	}
}

func readyPod(s *api.Sandbox, name, uid string) *corev1.Pod {
	m := child(s, name, uid)
	m.Labels["role"] = "workload"
	m.Annotations = map[string]string{api.AnnotationPropagatedLabels: "role"}
	return &corev1.Pod{
		ObjectMeta: m,
		Spec:       corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase:  corev1.PodRunning,
			PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}},
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			},
		},
	}
}

// stranger turns the controller reference of an object into that of somebody else.
func stranger(m *metav1.ObjectMeta) {
	m.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs-uid", Controller: new(true)}}
}

func suspend(o *Observed) { o.Sandbox.Spec.OperatingMode = api.ModeSuspended }

func terminating(m *metav1.ObjectMeta) { m.DeletionTimestamp = &metav1.Time{Time: now} }
