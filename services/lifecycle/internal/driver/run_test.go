package driver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// created makes a sandbox by a create, so that what stands is what we render.
func created(t *testing.T, w *world, in *computev1.DriverSandbox) *driver.Driver {
	t.Helper()
	d := w.driver(t)
	if _, err := d.CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: in}); err != nil {
		t.Fatal(err)
	}
	w.done = nil
	return d
}

func start() *computev1.StartSandboxRequest {
	return &computev1.StartSandboxRequest{
		SandboxId: id, GenerationId: "g0000000000000001", LaunchAuthentication: []byte(hidden), ExpectedRuntimeIdentity: identity,
	}
}

func TestStart(t *testing.T) {
	w := base(t)
	w.looks[attached] = claim("claim-1")
	d := created(t, w, attaching(t))
	for key := range w.objects[0].Annotations { // as a stop does
		if strings.HasPrefix(key, "openshell.ai/sandbox-runtime-") {
			delete(w.objects[0].Annotations, key)
		}
	}
	w.identity.SupervisorUid = "uid-8"
	got, err := d.StartSandbox(t.Context(), start())
	if err != nil || got.GetRuntimeIdentity() != "kubernetes://team/uid-1/uid-8" {
		t.Fatalf("identity %q, error %v", got.GetRuntimeIdentity(), err)
	}
	if want := []string{"find", "enter", "look " + attached, "still", "restart g0000000000000001", "still", "look " + attached, "get"}; !slices.Equal(w.steps(), want) {
		t.Errorf("steps %q\nwant  %q", w.steps(), want)
	}
}

// Each case breaks one thing about a start that succeeds. Only a start that is in order reaches supervisorctl.
func TestStartThatFails(t *testing.T) {
	fault := func(step string, err error) func(*world, *computev1.StartSandboxRequest) {
		return func(w *world, _ *computev1.StartSandboxRequest) { w.faults[step] = err }
	}
	object := func(change func(*sandboxapi.Object)) func(*world, *computev1.StartSandboxRequest) {
		return func(w *world, _ *computev1.StartSandboxRequest) { change(&w.objects[0]) }
	}
	cases := map[string]struct {
		change    func(*world, *computev1.StartSandboxRequest)
		code      codes.Code
		restarted bool
	}{
		"no id":                       {func(_ *world, in *computev1.StartSandboxRequest) { in.SandboxId = "" }, codes.InvalidArgument, false},
		"a hostile id":                {func(_ *world, in *computev1.StartSandboxRequest) { in.SandboxId = "a,b=c" }, codes.InvalidArgument, false},
		"the empty bundle of a sweep": {func(_ *world, in *computev1.StartSandboxRequest) { in.LaunchAuthentication = nil }, codes.FailedPrecondition, false},
		"no generation":               {func(_ *world, in *computev1.StartSandboxRequest) { in.GenerationId = "" }, codes.InvalidArgument, false},
		"no expected identity":        {func(_ *world, in *computev1.StartSandboxRequest) { in.ExpectedRuntimeIdentity = "" }, codes.FailedPrecondition, false},
		"another driver's identity":   {func(_ *world, in *computev1.StartSandboxRequest) { in.ExpectedRuntimeIdentity = "kyma://a/b" }, codes.FailedPrecondition, false},
		"another Sandbox's identity": {func(_ *world, in *computev1.StartSandboxRequest) {
			in.ExpectedRuntimeIdentity = "kubernetes://team/uid-7/uid-2"
		}, codes.FailedPrecondition, false},
		"another namespace's identity": {func(_ *world, in *computev1.StartSandboxRequest) {
			in.ExpectedRuntimeIdentity = "kubernetes://other/uid-1/uid-2"
		}, codes.FailedPrecondition, false},
		"it is gone": {func(w *world, _ *computev1.StartSandboxRequest) { w.objects = nil }, codes.NotFound, false},
		"there are two, and neither is it": {func(w *world, in *computev1.StartSandboxRequest) {
			w.objects = append(w.objects, other("elsewhere", "box", "uid-5"))
			in.ExpectedRuntimeIdentity = "kubernetes://team/uid-7/uid-2"
		}, codes.FailedPrecondition, false},
		"it cannot be understood":   {object(func(o *sandboxapi.Object) { o.Mode = 0 }), codes.Internal, false},
		"it cannot be looked for":   {fault("find", errAPI), codes.Unavailable, false},
		"not on the list any more":  {fault("enter", refusal(verdict.NotListed)), codes.FailedPrecondition, false},
		"nobody can prove the list": {fault("enter", refusal(verdict.Unsynced)), codes.Unavailable, false},
		"leaves the list meanwhile": {fault("still", refusal(verdict.NotListed)), codes.FailedPrecondition, false},
		"the claim was replaced":    {func(w *world, _ *computev1.StartSandboxRequest) { w.looks[attached] = claim("claim-2") }, codes.FailedPrecondition, false},
		"the claim cannot be read":  {fault("look "+attached, errAPI), codes.Unavailable, false},
		"its record was edited": {object(func(o *sandboxapi.Object) {
			o.Annotations["openshell.ai/resource-admission-identities"] = "{"
		}), codes.FailedPrecondition, false},
		"its record is gone": {object(func(o *sandboxapi.Object) {
			delete(o.Annotations, "openshell.ai/resource-admission-identities")
		}), codes.FailedPrecondition, false},
		"a Secret was added to its Pod": {object(func(o *sandboxapi.Object) {
			o.Template.Spec.Volumes[2].Secret.SecretName = "somebody-elses"
		}), codes.FailedPrecondition, false},
		"the create is not finished":   {fault("restart g0000000000000001", verdict.Refuse(verdict.RunIsAnother, "x", "y").Err()), codes.FailedPrecondition, true},
		"supervisorctl is away":        {fault("restart g0000000000000001", status.Error(codes.Unavailable, "refused")), codes.Unavailable, true},
		"it answers for another":       {func(w *world, _ *computev1.StartSandboxRequest) { w.identity.Namespace = "other" }, codes.Internal, true},
		"it answers without a Pod":     {func(w *world, _ *computev1.StartSandboxRequest) { w.identity.SupervisorUid = "" }, codes.Internal, true},
		"the bundle is no such bundle": {fault("restart g0000000000000001", verdict.Refuse(verdict.LaunchInvalid, "x", "y").Err()), codes.FailedPrecondition, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := base(t)
			w.looks[attached] = claim("claim-1")
			d := created(t, w, attaching(t))
			in := start()
			c.change(w, in)
			got, err := d.StartSandbox(t.Context(), in)
			if status.Code(err) != c.code || got != nil {
				t.Errorf("answer %v, error %v, want %s", got, err, c.code)
			}
			if reached := slices.Contains(w.steps(), "restart g0000000000000001"); reached != c.restarted {
				t.Errorf("steps %q", w.steps())
			}
		})
	}
}

func TestStop(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		code   codes.Code
	}{
		"base":                      {func(*world) {}, codes.OK},
		"it is gone":                {func(w *world) { w.objects = nil }, codes.NotFound},
		"it cannot be looked for":   {func(w *world) { w.faults["find"] = errAPI }, codes.Unavailable},
		"there are two":             {func(w *world) { w.objects = append(w.objects, other("elsewhere", "box", "uid-5")) }, codes.FailedPrecondition},
		"it cannot be understood":   {func(w *world) { w.objects[0].Mode = 0 }, codes.OK},
		"the Pod is foreign":        {func(w *world) { w.faults["release "+uid] = verdict.Refuse(verdict.CompanionCollision, "x", "y").Err() }, codes.FailedPrecondition},
		"it is not over in time":    {func(w *world) { w.faults["release "+uid] = verdict.Refuse(verdict.RunStopOverdue, "x", "y").Err() }, codes.Unavailable},
		"supervisorctl is away":     {func(w *world) { w.faults["release "+uid] = status.Error(codes.Unavailable, "refused") }, codes.Unavailable},
		"lifecycle is not let in":   {func(w *world) { w.faults["release "+uid] = verdict.Refuse(verdict.CallerNotAuthorized, "x", "y").Err() }, codes.FailedPrecondition},
		"the list does not matter":  {func(w *world) { w.faults["enter"], w.faults["still"], w.faults["ensure"] = errAPI, errAPI, errAPI }, codes.OK},
		"an error without a status": {func(w *world) { w.faults["release "+uid] = errAPI }, codes.Unavailable},
		"nobody can be told of it":  {func(w *world) { w.faults["get"] = errAPI }, codes.OK},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := base(t)
			d := created(t, w, wish())
			c.change(w)
			_, err := d.StopSandbox(t.Context(), &computev1.StopSandboxRequest{SandboxId: id})
			if status.Code(err) != c.code {
				t.Errorf("error %v, want %s", err, c.code)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	removed := "remove " + namespace + "/box " + uid
	cases := map[string]struct {
		change  func(*world)
		deleted bool
		code    codes.Code
		steps   []string
	}{
		"base": {func(*world) {}, true, codes.OK, []string{"find", removed, "delete " + uid, "pod gone"}},
		"supervisorctl is away": {
			func(w *world) { w.faults[removed] = status.Error(codes.Unavailable, "refused") }, true, codes.OK,
			[]string{"find", removed, "delete " + uid, "pod gone"},
		},
		"the Pod stays for long":    {func(w *world) { w.faults["pod gone"] = errAPI }, true, codes.OK, []string{"find", removed, "delete " + uid, "pod gone"}},
		"it goes meanwhile":         {func(w *world) { w.before[removed] = func() { w.objects = nil } }, false, codes.OK, []string{"find", removed, "delete " + uid}},
		"it cannot be deleted":      {func(w *world) { w.faults["delete "+uid] = errAPI }, false, codes.Internal, []string{"find", removed, "delete " + uid}},
		"it cannot be looked for":   {func(w *world) { w.faults["find"] = errAPI }, false, codes.Internal, []string{"find"}},
		"it is gone":                {func(w *world) { w.objects = nil }, false, codes.OK, []string{"find", "leftovers"}},
		"it cannot be understood":   {func(w *world) { w.objects[0].Mode = 0 }, true, codes.OK, []string{"find", removed, "delete " + uid, "pod gone"}},
		"leftovers cannot be found": {func(w *world) { w.objects, w.faults["leftovers"] = nil, errAPI }, false, codes.Internal, []string{"find", "leftovers"}},
		"it is gone, not its Pods": {func(w *world) {
			w.objects, w.left = nil, []cluster.Leftover{{Namespace: namespace, Sandbox: "box", UID: uid}, {Namespace: "elsewhere", Sandbox: "box", UID: "uid-5"}}
		}, false, codes.OK, []string{"find", "leftovers", removed, "remove elsewhere/box uid-5"}},
		"it is gone, a Pod is refused": {func(w *world) {
			w.objects, w.left = nil, []cluster.Leftover{{Namespace: namespace, Sandbox: "box", UID: uid}, {Namespace: "elsewhere", Sandbox: "box", UID: "uid-5"}}
			w.faults[removed] = verdict.Refuse(verdict.RunSandboxReplaced, "x", "y").Err()
		}, false, codes.OK, []string{"find", "leftovers", removed, "remove elsewhere/box uid-5"}},
		"it is gone, of one Pod nobody can say": {func(w *world) {
			w.objects, w.left, w.faults["leftovers"] = nil, []cluster.Leftover{{Namespace: namespace, Sandbox: "box", UID: uid}}, errAPI
		}, false, codes.Internal, []string{"find", "leftovers", removed}},
		"there are two of one workspace": {
			func(w *world) { w.objects = append(w.objects, other(namespace, "copy", "uid-5")) },
			true, codes.OK,
			[]string{"find", removed, "delete " + uid, "pod gone", "remove " + namespace + "/copy uid-5", "delete uid-5", "pod gone"},
		},
		"there are two of two workspaces": {
			func(w *world) { w.objects = append(w.objects, other("elsewhere", "box", "uid-5")) },
			false, codes.FailedPrecondition,
			[]string{"find"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := base(t)
			d := created(t, w, wish())
			c.change(w)
			got, err := d.DeleteSandbox(t.Context(), &computev1.DeleteSandboxRequest{SandboxId: id})
			if status.Code(err) != c.code || got.GetDeleted() != c.deleted {
				t.Errorf("deleted %t, error %v; want %t, %s", got.GetDeleted(), err, c.deleted, c.code)
			}
			if !slices.Equal(w.steps(), c.steps) {
				t.Errorf("steps %q\nwant  %q", w.steps(), c.steps)
			}
		})
	}
}

// Only create, start and EnsureWorkspace ask the allowlist (contract 5.3): whatever it says, the others work.
func TestWhatDoesNotAskTheList(t *testing.T) {
	w := base(t)
	d := created(t, w, wish())
	for _, step := range []string{"ensure", "enter", "still"} {
		w.faults[step] = refusal(verdict.NotListed)
	}
	ctx := t.Context()
	_, get := d.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
	_, list := d.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	_, stop := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
	_, remove := d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
	for call, err := range map[string]error{"get": get, "list": list, "stop": stop, "delete": remove} {
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	_, ensure := d.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: namespace})
	if status.Code(ensure) != codes.PermissionDenied {
		t.Errorf("EnsureWorkspace: %v", ensure)
	}
}

// Each case is an error of a part and the code that a call makes of it (contract 2.7).
func TestCodes(t *testing.T) {
	calls := map[string]func(*driver.Driver, context.Context) error{
		"get": func(d *driver.Driver, ctx context.Context) error {
			_, err := d.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
			return err
		},
		"list": func(d *driver.Driver, ctx context.Context) error {
			_, err := d.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
			return err
		},
		"watch": func(d *driver.Driver, ctx context.Context) error { return d.WatchSandboxes(nil, stream{ctx: ctx}) },
		"authenticate": func(d *driver.Driver, ctx context.Context) error {
			_, err := d.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: hidden})
			return err
		},
		"ensure": func(d *driver.Driver, ctx context.Context) error {
			_, err := d.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: "team"})
			return err
		},
		"delete workspace": func(d *driver.Driver, ctx context.Context) error {
			_, err := d.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: "team"})
			return err
		},
	}
	cases := []struct {
		call string
		err  error
		want codes.Code
	}{
		{"get", nil, codes.OK},
		{"get", observe.ErrAbsent, codes.NotFound},
		{"get", observe.ErrStale, codes.Unavailable},
		{"get", observe.ErrAmbiguous, codes.FailedPrecondition},
		{"get", observe.ErrNotServed, codes.FailedPrecondition},
		{"get", errAPI, codes.Internal},
		{"list", observe.ErrStale, codes.Unavailable},
		{"list", errAPI, codes.Internal},
		{"watch", observe.ErrBehind, codes.Unavailable},
		{"watch", observe.ErrStopped, codes.Unavailable},
		{"watch", errAPI, codes.Internal},
		{"authenticate", nil, codes.OK},
		{"authenticate", verdict.Refuse(verdict.CredentialNotAccepted, "x", "y").Err(), codes.Unauthenticated},
		{"authenticate", verdict.Refuse(verdict.NamespaceNotAccepted, "x", "y").Err(), codes.PermissionDenied},
		{"authenticate", verdict.Refuse(verdict.ReviewFailed, "x", "y").Err(), codes.Internal},
		{"authenticate", status.Error(codes.Unavailable, "connection refused"), codes.Unavailable},
		{"authenticate", status.Error(codes.PermissionDenied, "somebody between says so"), codes.Unavailable},
		{"ensure", nil, codes.OK},
		{"ensure", refusal(verdict.NotListed), codes.PermissionDenied},
		{"ensure", refusal(verdict.Stale), codes.Unavailable},
		{"ensure", refusal(verdict.WorkspaceForeign), codes.FailedPrecondition},
		{"ensure", refusal(verdict.WorkspaceTerminating), codes.Unavailable},
		{"ensure", refusal(verdict.WorkspaceUnreadable), codes.Internal},
		{"delete workspace", nil, codes.OK},
		{"delete workspace", refusal(verdict.WorkspaceTerminating), codes.Unavailable},
		{"delete workspace", refusal(verdict.WorkspaceUnreadable), codes.Internal},
	}
	for _, c := range cases {
		w := base(t)
		step := c.call
		w.faults[step] = c.err
		err := calls[c.call](w.driver(t), t.Context())
		if status.Code(err) != c.want {
			t.Errorf("%s with %v: %v, want %s", c.call, c.err, err, c.want)
		}
		if strings.Contains(status.Convert(err).Message(), hidden) {
			t.Errorf("%s: the error has the credential", c.call)
		}
	}
}

func TestCredentialThatIsNone(t *testing.T) {
	w := base(t)
	_, err := w.driver(t).AuthenticateSandbox(t.Context(), &computev1.AuthenticateSandboxRequest{Credential: strings.Repeat("x", 16<<10+1)})
	if status.Code(err) != codes.InvalidArgument || len(w.steps()) != 0 {
		t.Errorf("error %v, did %q", err, w.steps())
	}
}

func TestGatewayThatDoesNotFit(t *testing.T) {
	if _, err := base(t).driver(t).GetCapabilities(t.Context(), &computev1.GetCapabilitiesRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("error %v", err)
	}
}

type stream struct {
	grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]
	ctx context.Context
}

func (s stream) Context() context.Context                  { return s.ctx }
func (s stream) Send(*computev1.WatchSandboxesEvent) error { return nil }
