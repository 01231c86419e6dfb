package driver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestReplayL03WhatIsWrittenRestsOnALiveRead: the view may lag, so a start, a stop and a delete go by what the cluster says now.
func TestReplayL03WhatIsWrittenRestsOnALiveRead(t *testing.T) {
	w := base(t)
	d := created(t, w, wish())
	if got, err := d.GetSandbox(t.Context(), &computev1.GetSandboxRequest{SandboxId: id}); err != nil || got.GetSandbox().GetId() != id {
		t.Fatalf("the view has no sandbox, and so proves nothing: %v", err)
	}
	w.objects = nil // somebody has deleted it
	_, begin := d.StartSandbox(t.Context(), start())
	_, stop := d.StopSandbox(t.Context(), &computev1.StopSandboxRequest{SandboxId: id})
	gone, remove := d.DeleteSandbox(t.Context(), &computev1.DeleteSandboxRequest{SandboxId: id})
	if status.Code(begin) != codes.NotFound || status.Code(stop) != codes.NotFound || remove != nil || gone.GetDeleted() {
		t.Errorf("start %v, stop %v, delete %t, %v", begin, stop, gone.GetDeleted(), remove)
	}
	for _, step := range w.steps() {
		if strings.HasPrefix(step, "restart") || strings.HasPrefix(step, "release") || strings.HasPrefix(step, "delete") {
			t.Errorf("did %q", step)
		}
	}
}

// TestReplayL15AnAbandonedCreate leaves nothing for ever: from its first request on the Sandbox bears a mark, which is taken off last, and
// what bears it is deleted by whichever process runs.
func TestReplayL15AnAbandonedCreate(t *testing.T) {
	w := base(t)
	d := w.driver(t)
	w.before["provision"] = func() {
		if mark := w.made.GetLabels()["openshell.ai/sandbox-create"]; mark != "pending" {
			t.Errorf("a process that dies here leaves a Sandbox with the mark %q", mark)
		}
	}
	if _, err := d.CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: wish()}); err != nil {
		t.Fatal(err)
	}
	if steps := w.steps(); steps[len(steps)-1] != "answered" {
		t.Errorf("steps %q", steps)
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	w.before["reap "+uid] = func() { cancel(); close(done) }
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	<-done
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestReplayL17AStopIsNotOverEarly: OK only when supervisorctl says that it is over, and what it could not wait for is no OK.
func TestReplayL17AStopIsNotOverEarly(t *testing.T) {
	w := base(t)
	d := created(t, w, wish())
	begun, over, answered := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.before["release "+uid] = func() { close(begun); <-over }
	go func() {
		_, err := d.StopSandbox(t.Context(), &computev1.StopSandboxRequest{SandboxId: id})
		answered <- err
	}()
	<-begun
	select {
	case err := <-answered:
		t.Errorf("it is answered while the Pod goes: %v", err)
	default:
	}
	close(over)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	delete(w.before, "release "+uid)
	w.faults["release "+uid] = verdict.Refuse(verdict.RunStopOverdue, "x", "a finalizer holds the Pod").Err()
	if _, err := d.StopSandbox(t.Context(), &computev1.StopSandboxRequest{SandboxId: id}); status.Code(err) != codes.Unavailable {
		t.Errorf("a stop that is overdue: %v", err)
	}
}

// TestReplayL19AWayOutOfEveryState: a delete looks at nothing but names and uid, and a stop leaves the state to supervisorctl.
func TestReplayL19AWayOutOfEveryState(t *testing.T) {
	states := map[string]func(o *sandboxapi.Object){
		"as it was created": func(*sandboxapi.Object) {},
		"suspended":         func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended },
		"running":           func(o *sandboxapi.Object) { o.Mode = sandboxapi.Running },
		"of no known mode":  func(o *sandboxapi.Object) { o.Mode = 0 },
		"being deleted":     func(o *sandboxapi.Object) { o.Deleting = true },
		"without a record":  func(o *sandboxapi.Object) { o.Annotations = nil },
		"a broken record": func(o *sandboxapi.Object) {
			o.Annotations = map[string]string{"openshell.ai/sandbox-runtime-bootstrap-phase": "dancing", "openshell.ai/resource-admission-identities": "{"}
		},
		"in error": func(o *sandboxapi.Object) {
			o.Conditions = []sandboxapi.Condition{{Type: "Ready", Status: "False", Reason: "SandboxExpired"}}
		},
		"without a template": func(o *sandboxapi.Object) { o.Template.Spec.Volumes, o.Template.Spec.Containers = nil, nil },
		"misplaced":          func(o *sandboxapi.Object) { o.Labels["openshell.ai/sandbox-workspace"] = "elsewhere" },
	}
	for _, operation := range []runstate.Operation{runstate.Create, runstate.Restart, runstate.Stop} {
		for _, phase := range []runstate.Phase{runstate.Preparing, runstate.Released, runstate.Releasing, runstate.Suspending} {
			states[string(operation)+", "+string(phase)] = func(o *sandboxapi.Object) {
				o.Annotations["openshell.ai/sandbox-runtime-bootstrap-operation"] = string(operation)
				o.Annotations["openshell.ai/sandbox-runtime-bootstrap-phase"] = string(phase)
			}
		}
	}
	for name, state := range states {
		w := base(t)
		d := created(t, w, wish())
		state(&w.objects[0])
		if _, err := d.StopSandbox(t.Context(), &computev1.StopSandboxRequest{SandboxId: id}); err != nil {
			t.Errorf("%s: stop: %v", name, err)
		}
		if got, err := d.DeleteSandbox(t.Context(), &computev1.DeleteSandboxRequest{SandboxId: id}); err != nil || !got.GetDeleted() {
			t.Errorf("%s: delete: %t, %v", name, got.GetDeleted(), err)
		}
	}
}

// TestReplayP01NothingRunsBeforeItsFence: the Sandbox is made suspended, and only supervisorctl, which fences first, lets it run.
func TestReplayP01NothingRunsBeforeItsFence(t *testing.T) {
	w := base(t)
	if _, err := w.driver(t).CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: wish()}); err != nil {
		t.Fatal(err)
	}
	if mode := w.made.Object["spec"].(map[string]any)["operatingMode"]; mode != "Suspended" {
		t.Errorf("it is made with operatingMode %v", mode)
	}
	steps := w.steps()
	if after := steps[slices.Index(steps, "create")+1:]; !slices.Equal(after, []string{"provision", "still", "answered"}) {
		t.Errorf("behind the create: %q", after)
	}
}
