package request_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestReplayL05NamesThatAreTooLong are refused by their field, with the limit, before anything could be made of them.
func TestReplayL05NamesThatAreTooLong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		field  string
	}{
		"together in shared mode": {func(w *world) { w.sandbox.Name = strings.Repeat("n", 63-len("team-a--")+1) }, "sandbox.name: "},
		"a name": {func(w *world) {
			w.settings.WorkspaceMode, w.sandbox.Name = driverconf.ModeOperator, strings.Repeat("n", 64)
		}, "sandbox.name: "},
		"a workspace of managed mode": {func(w *world) {
			w.settings.WorkspaceMode, w.sandbox.Workspace = driverconf.ModeManaged, strings.Repeat("w", 63-len("openshell-openshell-")+1)
		}, "sandbox.workspace: "},
		"an id": {func(w *world) { w.sandbox.Id = strings.Repeat("a", 37) }, "sandbox.id: "},
	} {
		w := base(t)
		c.change(w)
		_, d := w.create(t)
		limit := strings.Contains(d.Message(), "63") || strings.Contains(d.Message(), "36")
		if d.Granted() || !strings.Contains(d.Message(), c.field) || !limit {
			t.Errorf("%s: %q", name, d.Message())
		}
	}
}

// TestReplayL06TheLongestNames are taken as they are: no companion has the user's name in its own, and all of theirs are names.
func TestReplayL06TheLongestNames(t *testing.T) {
	w := base(t)
	w.settings.WorkspaceMode, w.sandbox.Name, w.sandbox.Workspace = driverconf.ModeOperator, strings.Repeat("n", 63), strings.Repeat("w", 63)
	sandbox, d := w.create(t)
	if !d.Granted() {
		t.Fatal(d.Explain())
	}
	spec := sandbox.Spec()
	generation := strings.Repeat("f", 64)
	for _, name := range []string{
		spec.ObjectName, spec.Namespace, workspace.SupervisorPod(spec.ID), workspace.BoundaryService(spec.ID),
		workspace.SandboxSecret(spec.ID, generation), workspace.SupervisorSecret(spec.ID, generation),
	} {
		if len(name) > 63 || name == "" {
			t.Errorf("%q has %d characters", name, len(name))
		}
	}
	if spec.Name != w.sandbox.Name {
		t.Errorf("the name is %q", spec.Name)
	}
}
