package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestReplayL22WhatAStockDriverMade is found and kept after an upgrade: the watches select by nothing that the objects of contract 4.3
// do not have. The labels and annotations are written out here as that driver writes them.
func TestReplayL22WhatAStockDriverMade(t *testing.T) {
	const old = "00000000-0000-4000-8000-000000000001"
	box := meta(sandboxapi.Kind, "team-a--demo", "uid-1", map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": old, "openshell.ai/sandbox-name": "demo",
		"openshell.ai/sandbox-workspace": "team-a", "openshell.ai/gateway-id": gateway,
	}, nil)
	box.Annotations = map[string]string{
		"openshell.ai/sandbox-id": old, "openshell.ai/sandbox-runtime-generation": "g1", "openshell.ai/sandbox-runtime-readiness": "ready",
		"openshell.ai/sandbox-runtime-workload-uid": "w", "openshell.ai/sandbox-runtime-supervisor-uid": "s",
		"openshell.ai/sandbox-runtime-network-policy-uid": "f", "openshell.ai/sandbox-runtime-network-policy-generation": "1",
	}
	supervisor := meta("Pod", "os-supervisor-"+old, "s", map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": old, "openshell.ai/gateway-id": gateway,
		"openshell.ai/component": "supervisor", "openshell.ai/boundary-pair": old, "openshell.ai/boundary-role": "supervisor",
	}, box)
	workload := meta("Pod", box.Name, "w", map[string]string{"openshell.ai/boundary-pair": old, "openshell.ai/boundary-role": "workload"}, box)
	service := meta("Service", "os-boundary-"+old, "v", map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": old, "openshell.ai/component": "boundary-service",
	}, box)
	fence := meta("NetworkPolicy", "openshell-sandbox-workloads", "f", map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/component": "sandbox-workload-fence",
	}, nil)
	all := map[kind][]*metav1.PartialObjectMetadata{boxes: {box}, pods: {supervisor, workload}, services: {service}, policies: {fence}}
	for _, mode := range []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator} {
		chosen, err := selectors(workspace.Scheme{Mode: mode, GatewayID: gateway, Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		for k, objects := range all {
			selector, err := labels.Parse(chosen[k])
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range objects {
				if !selector.Matches(labels.Set(m.Labels)) {
					t.Errorf("%s mode: %s %s is not found by %q", mode, k, m.Name, chosen[k])
				}
			}
		}
	}
	if look := newBench(t, all).wants(); look.ref.UID != "uid-1" || look.ref.SandboxID != old || look.ref.Name != box.Name {
		t.Errorf("%+v", look.ref)
	}
	if o := of(boxes, box); !o.readable || o.record.Generation != "g1" {
		t.Errorf("its record is not read: %+v", o)
	}
}
