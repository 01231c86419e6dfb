package driver_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// other is a Sandbox with the id of the one that the tests make, in the place of a workspace with the namespace's name.
func other(namespace, name, uid string) sandboxapi.Object {
	return sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: namespace, Name: name, UID: uid,
			Labels: map[string]string{
				"openshell.ai/managed-by": "openshell", "openshell.ai/gateway-id": "openshell", "openshell.ai/sandbox-id": id,
				"openshell.ai/sandbox-workspace": namespace,
			},
		},
		Version: sandboxapi.V1beta1, Mode: sandboxapi.Running,
	}
}

// copied is one whose labels still say where it was copied from.
func copied() sandboxapi.Object {
	o := other("restored", "box", "uid-9")
	o.Labels["openshell.ai/sandbox-workspace"] = namespace
	return o
}

// What bears the labels of a sandbox in a place where the gateway has none is not touched by any call, and is in the way of none.
func TestForeignCopy(t *testing.T) {
	ctx := t.Context()
	w := base(t)
	w.objects = []sandboxapi.Object{copied()}
	d := w.driver(t)
	_, stop := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
	_, begin := d.StartSandbox(ctx, start())
	gone, remove := d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
	if status.Code(stop) != codes.NotFound || status.Code(begin) != codes.NotFound || remove != nil || gone.GetDeleted() {
		t.Errorf("the copy alone: stop %v, start %v, delete %t, %v", stop, begin, gone.GetDeleted(), remove)
	}
	if _, err := d.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish()}); err != nil {
		t.Fatalf("create beside the copy: %v", err)
	}
	_, stop = d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
	_, begin = d.StartSandbox(ctx, start())
	gone, remove = d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
	if stop != nil || begin != nil || remove != nil || !gone.GetDeleted() {
		t.Errorf("beside the copy: stop %v, start %v, delete %t, %v", stop, begin, gone.GetDeleted(), remove)
	}
	for _, step := range []string{"release uid-9", "remove restored/box uid-9", "delete uid-9"} {
		if slices.Contains(w.steps(), step) {
			t.Errorf("did %q", step)
		}
	}
	if len(w.objects) != 1 || w.objects[0].UID != "uid-9" {
		t.Errorf("left: %+v", w.objects)
	}
}

// Of two that are both in their places, a start takes the one whose identity the gateway keeps. Nothing tells the other calls which it is.
func TestTwoInTheirPlaces(t *testing.T) {
	ctx := t.Context()
	w := base(t)
	d := created(t, w, wish())
	w.objects = append([]sandboxapi.Object{other("elsewhere", "box", "uid-5")}, w.objects...)
	if got, err := d.StartSandbox(ctx, start()); err != nil || got.GetRuntimeIdentity() != identity {
		t.Errorf("start: %v, %v", got, err)
	}
	_, stop := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
	_, remove := d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
	_, create := d.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish()})
	if status.Code(stop) != codes.FailedPrecondition || status.Code(remove) != codes.FailedPrecondition || status.Code(create) != codes.AlreadyExists {
		t.Errorf("stop %v, delete %v, create %v", stop, remove, create)
	}
	if len(w.objects) != 2 {
		t.Errorf("%d are left", len(w.objects))
	}
}

// TestCapitalLetters: two ids that differ in case alone have the same companions.
func TestCapitalLetters(t *testing.T) {
	w := base(t)
	d, in := w.driver(t), wish()
	in.Id = "4B67C0D0-1111-2222-3333-444444444444"
	_, create := d.CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: in})
	_, validate := d.ValidateSandboxCreate(t.Context(), &computev1.ValidateSandboxCreateRequest{Sandbox: in})
	for call, err := range map[string]error{"create": create, "validate": validate} {
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || s.Message() != "sandbox.id: must be in lower case: its companions are named so" {
			t.Errorf("%s: %v", call, err)
		}
	}
	if steps := w.steps(); len(steps) != 0 {
		t.Errorf("did %q", steps)
	}
}
