package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestObjectOf(t *testing.T) {
	box := boxMeta(1, running())
	want, _ := recordOf(running().Annotations())
	if want.MainProcess != "" || want.LogLevel != "" || want.Generation == "" {
		t.Errorf("record %+v", want)
	}
	o := of(boxes, box)
	if o.shape == 0 {
		t.Error("the Sandbox has no shape")
	}
	if o.shape = 0; o != (object{
		kind: boxes, uid: "uid-1", namespace: ns, name: "box-1", version: "1", generation: 1, managed: true, gateway: gateway, id: id(1), pair: id(1),
		record: want, readable: true,
	}) {
		t.Errorf("Sandbox %+v", o)
	}
	if o := of(pods, supervisorMeta(1, box)); o.owner != "uid-1" || o.ownerName != "box-1" || o.role != workspace.RoleSupervisor || !o.supervises(gateway) || o.supervises("red") {
		t.Errorf("supervisor %+v", o)
	}
	if o := of(pods, workloadMeta(1, box)); o.owner != "uid-1" || o.pair != id(1) || o.role != workspace.RoleWorkload || o.supervises(gateway) {
		t.Errorf("workload %+v", o)
	}
	if o := of(services, serviceMeta(1, box)); o.owner != "uid-1" || o.pair != id(1) || o.supervises(gateway) {
		t.Errorf("Service %+v", o)
	}
	if o := of(policies, fenceMeta()); o.owner != "" || o.pair != "" || o.name != workspace.WorkloadFence {
		t.Errorf("policy %+v", o)
	}
	for name, edit := range map[string]func(m *metav1.PartialObjectMetadata){
		"a phase of nobody": func(m *metav1.PartialObjectMetadata) { m.Annotations[workspace.AnnotationBootstrapPhase] = "another" },
		"half a fence":      func(m *metav1.PartialObjectMetadata) { delete(m.Annotations, workspace.AnnotationFenceUID) },
	} {
		if o := of(boxes, next(box, edit)); o.readable {
			t.Errorf("%s: %+v", name, o.record)
		}
	}
}
