package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestOrphans: companions whose Sandbox is gone are looked at after a grace, for the Sandbox that they are of, and forgotten with it.
func TestOrphans(t *testing.T) {
	t.Run("after the Sandbox", func(t *testing.T) {
		b, box, supervisor, workload, service := healthy(t)
		b.ends(b.wants(), settled)
		b.pass(time.Minute)
		b.drop(boxes, string(box.UID), b.now)
		b.rests(orphanGrace)
		b.drop(pods, string(supervisor.UID), b.now)
		b.pass(2 * time.Second)
		b.drop(pods, string(workload.UID), b.now)
		b.rests(orphanGrace - 2*time.Second)
		b.pass(orphanGrace - 2*time.Second)
		look := b.wants()
		if look.ref.UID != "uid-1" || look.ref.SandboxID != id(1) || look.readable {
			t.Errorf("%+v", look)
		}
		b.ends(look, waiting)
		b.rests(30 * time.Second)
		b.drop(services, string(service.UID), b.now)
		b.rests(-1)
		if len(b.spaces) != 0 {
			t.Errorf("still known: %v", b.spaces)
		}
	})
	t.Run("found by a new leader", func(t *testing.T) {
		gone := boxMeta(1, running())
		b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{pods: {supervisorMeta(1, gone)}, services: {serviceMeta(1, gone)}})
		b.rests(orphanGrace)
		b.pass(orphanGrace)
		if look := b.wants(); look.ref != (plan.Ref{GatewayID: gateway, SandboxID: id(1), Namespace: ns, Name: "box-1", UID: "uid-1"}) {
			t.Errorf("%+v", look.ref)
		}
	})
	t.Run("gone while it was looked at", func(t *testing.T) {
		b, box, supervisor, workload, service := healthy(t)
		look := b.wants()
		b.drop(boxes, string(box.UID), b.now)
		b.drop(pods, string(supervisor.UID), b.now)
		b.drop(pods, string(workload.UID), b.now)
		b.drop(services, string(service.UID), b.now)
		b.ends(look, waiting)
		b.rests(-1)
		if len(b.spaces) != 0 {
			t.Errorf("still known: %v", b.spaces)
		}
	})
	t.Run("disowned", func(t *testing.T) {
		b, box, supervisor, workload, service := healthy(t)
		b.ends(b.wants(), settled)
		other := boxMeta(2, ready(2))
		for _, m := range []*metav1.PartialObjectMetadata{supervisor, workload} {
			b.see(pods, next(m, func(m *metav1.PartialObjectMetadata) { m.OwnerReferences = supervisorMeta(2, other).OwnerReferences }))
		}
		b.drop(services, string(service.UID), b.now)
		b.drop(boxes, string(box.UID), b.now)
		b.pass(orphanGrace)
		if look := b.wants(); look.ref.UID != "uid-2" || look.ref.Name != "box-2" || b.spaces[ns]["uid-1"] != nil {
			t.Errorf("%+v", look.ref)
		}
	})
	for name, edit := range map[string]func(m *metav1.PartialObjectMetadata){
		"of another gateway": func(m *metav1.PartialObjectMetadata) { m.Labels[workspace.LabelGatewayID] = "red" },
		"not managed":        func(m *metav1.PartialObjectMetadata) { delete(m.Labels, workspace.LabelManagedBy) },
		"no supervisor":      func(m *metav1.PartialObjectMetadata) { m.Labels[workspace.LabelComponent] = "another" },
		"without an id":      func(m *metav1.PartialObjectMetadata) { delete(m.Labels, workspace.LabelSandboxID) },
		"without an owner":   func(m *metav1.PartialObjectMetadata) { m.OwnerReferences = nil },
		"with two owners": func(m *metav1.PartialObjectMetadata) {
			m.OwnerReferences = append(m.OwnerReferences, m.OwnerReferences[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			gone := boxMeta(1, running())
			pod := supervisorMeta(1, gone)
			edit(pod)
			b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{pods: {pod}, services: {serviceMeta(1, gone)}})
			b.rests(-1)
		})
	}
}

// TestWhoseSandbox: those of others and of nobody are never looked at.
func TestWhoseSandbox(t *testing.T) {
	for name, edit := range map[string]func(m *metav1.PartialObjectMetadata){
		"of another gateway": func(m *metav1.PartialObjectMetadata) { m.Labels[workspace.LabelGatewayID] = "red" },
		"of no gateway":      func(m *metav1.PartialObjectMetadata) { delete(m.Labels, workspace.LabelGatewayID) },
		"not managed":        func(m *metav1.PartialObjectMetadata) { m.Labels[workspace.LabelManagedBy] = "another" },
		"without an id":      func(m *metav1.PartialObjectMetadata) { delete(m.Labels, workspace.LabelSandboxID) },
		"without a uid":      func(m *metav1.PartialObjectMetadata) { m.UID = "" },
		"without labels":     func(m *metav1.PartialObjectMetadata) { m.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			box := boxMeta(1, running())
			edit(box)
			b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{boxes: {box}})
			b.rests(-1)
		})
	}
	t.Run("whatever its Pods say", func(t *testing.T) {
		box := boxMeta(1, running())
		box.Labels[workspace.LabelGatewayID] = "red"
		b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{boxes: {box}, pods: {supervisorMeta(1, box)}})
		b.rests(-1)
		// Nor does a Pod say which one it is.
		box = boxMeta(1, running())
		b = newBench(t, map[kind][]*metav1.PartialObjectMetadata{boxes: {box}, pods: {supervisorMeta(2, box)}})
		if look := b.wants(); look.ref.SandboxID != id(1) {
			t.Errorf("%+v", look.ref)
		}
	})
	t.Run("not ours any more", func(t *testing.T) {
		b, box, _, _, _ := healthy(t)
		b.ends(b.wants(), settled)
		b.see(boxes, next(box, func(m *metav1.PartialObjectMetadata) { m.Labels[workspace.LabelGatewayID] = "red" }))
		b.rests(-1)
	})
}
