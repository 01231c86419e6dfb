package template_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// TestReplayL06TheLongestNames make an object all of whose label values are such.
func TestReplayL06TheLongestNames(t *testing.T) {
	w := base(t)
	w.settings.WorkspaceMode, w.settings.OperatorNamespaceLabel = driverconf.ModeOperator, new("sandboxes=allowed")
	w.sandbox.Name, w.sandbox.Workspace = strings.Repeat("n", 63), strings.Repeat("w", 63)
	object, err := w.renderer(t).Sandbox(w.request(t), w.run)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range object.GetLabels() {
		if len(value) > 63 {
			t.Errorf("label %s has %d characters", key, len(value))
		}
	}
	if object.GetName() != w.sandbox.GetName() {
		t.Errorf("it is called %s", object.GetName())
	}
}

// TestReplayP01ItIsMadeSuspended, in either version of the resource, so that its controller makes no Pod before supervisorctl lets it; and the
// Pod that it then makes waits behind a gate.
func TestReplayP01ItIsMadeSuspended(t *testing.T) {
	for _, version := range sandboxapi.Versions() {
		w := base(t)
		w.run.Version = version
		object, err := w.renderer(t).Sandbox(w.request(t), w.run)
		if err != nil {
			t.Fatal(err)
		}
		spec := object.Object["spec"].(map[string]any)
		suspended, err := sandboxapi.Suspended.Spec(version)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range suspended {
			if spec[key] != want {
				t.Errorf("%s: %s is %v", version, key, spec[key])
			}
		}
		pod := spec["podTemplate"].(map[string]any)["spec"].(map[string]any)
		if gates, _ := pod["schedulingGates"].([]any); len(gates) != 1 {
			t.Errorf("%s: the Pod has the gates %v", version, pod["schedulingGates"])
		}
	}
}
