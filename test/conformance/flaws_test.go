package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

type around = func(ctx context.Context, e *exemplar, method string, request any, next grpc.UnaryHandler) (any, error)

// answered changes what a call answers.
func answered(method string, change func(e *exemplar, request, answer any, err error) (any, error)) flaw {
	return flaw{around: func(ctx context.Context, e *exemplar, called string, request any, next grpc.UnaryHandler) (any, error) {
		answer, err := next(ctx, request)
		if called != method {
			return answer, err
		}
		return change(e, request, answer, err)
	}}
}

// recoded gives another code where a call has one.
func recoded(method string, from, to codes.Code) flaw {
	return answered(method, func(_ *exemplar, _, answer any, err error) (any, error) {
		if status.Code(err) == from {
			return nil, status.Error(to, "by a flaw")
		}
		return answer, err
	})
}

// granted answers OK where a call is refused with a code.
func granted(method string, from codes.Code, answer proto.Message) flaw {
	return answered(method, func(_ *exemplar, _, given any, err error) (any, error) {
		if status.Code(err) == from {
			return proto.Clone(answer), nil
		}
		return given, err
	})
}

// altered changes the good answers of a call.
func altered[Answer proto.Message](method string, change func(e *exemplar, answer Answer)) flaw {
	return answered(method, func(e *exemplar, _, answer any, err error) (any, error) {
		if typed, ok := answer.(Answer); ok && err == nil {
			change(e, typed)
		}
		return answer, err
	})
}

// before does something ahead of a call.
func before(method string, do func(ctx context.Context, e *exemplar, request any) error) flaw {
	return flaw{around: func(ctx context.Context, e *exemplar, called string, request any, next grpc.UnaryHandler) (any, error) {
		if called == method {
			if err := do(ctx, e, request); err != nil {
				return nil, err
			}
		}
		return next(ctx, request)
	}}
}

// told changes the snapshots of watches.
func told(change func(e *exemplar, s *computev1.DriverSandbox)) flaw {
	return flaw{tell: func(e *exemplar, event, _ *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
		event = proto.CloneOf(event)
		if s := event.GetSandbox().GetSandbox(); s != nil {
			change(e, s)
		}
		return []*computev1.WatchSandboxesEvent{event}
	}}
}

// is reports whether a sandbox's report has a condition that is True.
func is(s *computev1.DriverSandbox, kind string) bool {
	return slices.ContainsFunc(s.GetStatus().GetConditions(), func(c *computev1.DriverCondition) bool {
		return c.GetType() == kind && c.GetStatus() == "True"
	})
}

type planted struct {
	check string // that has to find it
	came  string // what the finding has to say
	flaw  flaw
}

var (
	getRefused    = granted("GetSandbox", codes.InvalidArgument, &computev1.GetSandboxResponse{})
	validationOff = flaw{around: lenient}
)

// lenient takes every sandbox for good.
func lenient(ctx context.Context, _ *exemplar, method string, request any, next grpc.UnaryHandler) (any, error) {
	answer, err := next(ctx, request)
	if status.Code(err) != codes.InvalidArgument {
		return answer, err
	}
	switch method {
	case "ValidateSandboxCreate":
		return &computev1.ValidateSandboxCreateResponse{}, nil
	case "CreateSandbox":
		return &computev1.CreateSandboxResponse{RuntimeIdentity: "x"}, nil
	case "EnsureWorkspace":
		return &computev1.EnsureWorkspaceResponse{}, nil
	default:
		return answer, err
	}
}

func flaws() []planted {
	policies := new(atomic.Int64)
	return slices.Concat([]planted{
		// The handshake.
		{"capabilities.extension", "extension is missing", altered("GetCapabilities", func(_ *exemplar, a *computev1.GetCapabilitiesResponse) { a.Extension = nil })},
		{"capabilities.policy", "written by the rules", altered("GetCapabilities", func(_ *exemplar, a *computev1.GetCapabilitiesResponse) {
			a.ResourceAdmissionPolicy = strings.Replace(a.ResourceAdmissionPolicy, `:{`, `: {`, 1)
		})},
		{"capabilities.stable", "first", altered("GetCapabilities", func(_ *exemplar, a *computev1.GetCapabilitiesResponse) {
			a.ResourceAdmissionPolicy += strings.Repeat(" ", int(policies.Add(1)))
		})},
		{"capabilities.flags", "is true", altered("GetCapabilities", func(_ *exemplar, a *computev1.GetCapabilitiesResponse) { a.GatewayManagesLifecycle = true })},
		{"capabilities.prefixes", "under ryno", flaw{prefixes: []contract.Prefix{contract.OpenShell}}},
		{"capabilities.peer.none", "got OK", granted("GetCapabilities", codes.FailedPrecondition, scripted.Capabilities())},
		{"capabilities.peer.too-many", "got OK", granted("GetCapabilities", codes.FailedPrecondition, scripted.Capabilities())},
		{"capabilities.peer.other-major", "got Internal", recoded("GetCapabilities", codes.FailedPrecondition, codes.Internal)},
		{"capabilities.peer.later-minor", "got FailedPrecondition", before("GetCapabilities", func(_ context.Context, _ *exemplar, r any) error {
			if r.(*computev1.GetCapabilitiesRequest).GetGateway().GetProtocolVersion().GetMinor() > 0 {
				return status.Error(codes.FailedPrecondition, "by a flaw")
			}
			return nil
		})},
		{"capabilities.unknown-fields", "by a flaw", before("GetCapabilities", func(_ context.Context, _ *exemplar, r any) error {
			if len(r.(proto.Message).ProtoReflect().GetUnknown()) > 0 {
				return status.Error(codes.InvalidArgument, "by a flaw")
			}
			return nil
		})},
		// AuthenticateSandbox.
		{"authenticate.empty", "got Unauthenticated", recoded("AuthenticateSandbox", codes.InvalidArgument, codes.Unauthenticated)},
		{"authenticate.garbage", "got OK", granted("AuthenticateSandbox", codes.Unauthenticated, &computev1.AuthenticateSandboxResponse{})},
		{"authenticate.huge", "got Internal", recoded("AuthenticateSandbox", codes.Unauthenticated, codes.Internal)},
		{"authenticate.identity", "has identity", altered("AuthenticateSandbox", func(_ *exemplar, a *computev1.AuthenticateSandboxResponse) { a.RuntimeIdentity += "/" })},
		{"authenticate.former-run", "accepted for the new run", flaw{around: remembers}},
		{"authenticate.absent", "got Unauthenticated", altered("GetCapabilities", func(_ *exemplar, a *computev1.GetCapabilitiesResponse) {
			a.SupportsSandboxAuthentication = false
		})},
		// ValidateSandboxCreate and CreateSandbox.
		{"validate.accepts", "the platform has", before("ValidateSandboxCreate", func(_ context.Context, e *exemplar, r any) error {
			e.leak(r.(*computev1.ValidateSandboxCreateRequest).GetSandbox().GetId())
			return nil
		})},
		{"validate.nothing", "got OK", validationOff},
		{"create.nothing", "got OK", validationOff},
		{"create.identity", "is empty", altered("CreateSandbox", func(_ *exemplar, a *computev1.CreateSandboxResponse) { a.RuntimeIdentity = "" })},
		{"create.ready", "is Ready", altered("GetSandbox", func(_ *exemplar, a *computev1.GetSandboxResponse) { a.Sandbox.Status = nil })},
		{"create.again", "got OK", granted("CreateSandbox", codes.AlreadyExists, &computev1.CreateSandboxResponse{RuntimeIdentity: "x"})},
		{"create.namesake", "got Internal", recoded("CreateSandbox", codes.AlreadyExists, codes.Internal)},
		{"create.concurrent", "6 of 6 calls succeeded", granted("CreateSandbox", codes.AlreadyExists, &computev1.CreateSandboxResponse{RuntimeIdentity: "x"})},
		{"create.no-bundle", "got Internal", recoded("CreateSandbox", codes.FailedPrecondition, codes.Internal)},
		{"create.rollback", "the platform has", answered("CreateSandbox", func(e *exemplar, r, answer any, err error) (any, error) {
			if err != nil {
				e.leak(r.(*computev1.CreateSandboxRequest).GetSandbox().GetId())
			}
			return answer, err
		})},
		{"create.forbidden", "got PermissionDenied", recoded("CreateSandbox", codes.FailedPrecondition, codes.PermissionDenied)},
		// StartSandbox.
		{"start.nothing", "got NotFound", recoded("StartSandbox", codes.InvalidArgument, codes.NotFound)},
		{"start.absent", "got Internal", recoded("StartSandbox", codes.NotFound, codes.Internal)},
		{"start.no-bundle", "got OK", granted("StartSandbox", codes.FailedPrecondition, &computev1.StartSandboxResponse{RuntimeIdentity: "x"})},
		{"start.bad-bundle", "the sandbox is Ready", before("StartSandbox", func(_ context.Context, e *exemplar, r any) error {
			e.show(r.(*computev1.StartSandboxRequest).GetSandboxId(), scripted.Ready()...)
			return nil
		})},
		{"start.no-identity", "got Internal", recoded("StartSandbox", codes.FailedPrecondition, codes.Internal)},
		{"start.other-identity", "got OK", granted("StartSandbox", codes.FailedPrecondition, &computev1.StartSandboxResponse{RuntimeIdentity: "x"})},
		{"start.bad-identity", "got Internal", recoded("StartSandbox", codes.FailedPrecondition, codes.Internal)},
		{"start.no-generation", "got OK", granted("StartSandbox", codes.InvalidArgument, &computev1.StartSandboxResponse{RuntimeIdentity: "x"})},
		{"start.bad-generation", "got Internal", recoded("StartSandbox", codes.InvalidArgument, codes.Internal)},
		{"start.long-generation", "got Internal", recoded("StartSandbox", codes.InvalidArgument, codes.Internal)},
		{"start.identity", "answered with the identity", altered("StartSandbox", func(_ *exemplar, a *computev1.StartSandboxResponse) {
			a.RuntimeIdentity = a.RuntimeIdentity[:strings.LastIndex(a.RuntimeIdentity, "/")] + "/1" // that of the create
		})},
		{"start.again", "then", flaw{restarts: true}},
		{"start.concurrent", "different identities", flaw{restarts: true}},
		// StopSandbox.
		{"stop.nothing", "got NotFound", recoded("StopSandbox", codes.InvalidArgument, codes.NotFound)},
		{"stop.absent", "got OK", granted("StopSandbox", codes.NotFound, &computev1.StopSandboxResponse{})},
		{"stop.over", "the run is still there", altered("StopSandbox", func(e *exemplar, _ *computev1.StopSandboxResponse) { e.goesOn() })},
		{"stop.again", "by a flaw", flaw{around: stopsOnce()}},
		{"stop.concurrent", "by a flaw", flaw{around: stopsOnce()}},
		{"stop.early", "by a flaw", before("StopSandbox", func(context.Context, *exemplar, any) error {
			return status.Error(codes.FailedPrecondition, "by a flaw")
		})},
		// DeleteSandbox.
		{"delete.nothing", "got OK", granted("DeleteSandbox", codes.InvalidArgument, &computev1.DeleteSandboxResponse{})},
		{"delete.absent", "deleted is true", altered("DeleteSandbox", func(_ *exemplar, a *computev1.DeleteSandboxResponse) { a.Deleted = true })},
		{"delete.deletes", "deleted is false", altered("DeleteSandbox", func(_ *exemplar, a *computev1.DeleteSandboxResponse) { a.Deleted = false })},
		{"delete.stopped", "the platform has", altered("DeleteSandbox", func(e *exemplar, _ *computev1.DeleteSandboxResponse) { e.leakAll() })},
		{"delete.early", "deleted is false", flaw{around: conflicts}},
		{"delete.conflict", "deleted is false", flaw{around: conflicts}},
		{"delete.concurrent", "in every answer", flaw{around: conflicts}},
		{"delete.during-create", "nothing is left", altered("DeleteSandbox", func(e *exemplar, _ *computev1.DeleteSandboxResponse) { e.leakAll() })},
		// GetSandbox and ListSandboxes.
		{"get.nothing", "got OK", getRefused},
		{"get.absent", "by a flaw", recoded("GetSandbox", codes.NotFound, codes.Internal)},
		{"get.present", "name is", altered("GetSandbox", func(_ *exemplar, a *computev1.GetSandboxResponse) { a.Sandbox.Name = "team--" + a.Sandbox.GetName() })},
		{"get.after-create", "right after the create", flaw{around: lags()}},
		{"list.complete", "0 times", altered("ListSandboxes", func(_ *exemplar, a *computev1.ListSandboxesResponse) { a.Sandboxes = a.Sandboxes[:len(a.Sandboxes)-1] })},
		{"list.changing", "0 times", altered("ListSandboxes", func(e *exemplar, a *computev1.ListSandboxesResponse) {
			if len(e.ids()) > 1 {
				a.Sandboxes = nil
			}
		})},
	}, watchFlaws(), furtherFlaws(), strictFlaws(), byIDFlaws())
}

// remembers accepts what a former run presented as well.
func remembers(ctx context.Context, e *exemplar, method string, request any, next grpc.UnaryHandler) (any, error) {
	answer, err := next(ctx, request)
	if r, ok := request.(*computev1.AuthenticateSandboxRequest); ok && err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		for id, b := range e.boxes {
			if b.former == r.GetCredential() {
				return &computev1.AuthenticateSandboxResponse{SandboxId: id, RuntimeIdentity: b.identity}, nil
			}
		}
	}
	return answer, err
}

// stopsOnce refuses to stop what was stopped.
func stopsOnce() around {
	var stopped atomic.Bool
	return before("StopSandbox", func(context.Context, *exemplar, any) error {
		if stopped.Swap(true) {
			return status.Error(codes.FailedPrecondition, "by a flaw")
		}
		return nil
	}).around
}

// conflicts takes every delete for one of a sandbox that is absent.
func conflicts(ctx context.Context, _ *exemplar, method string, request any, next grpc.UnaryHandler) (any, error) {
	if method == "DeleteSandbox" {
		return &computev1.DeleteSandboxResponse{}, nil
	}
	return next(ctx, request)
}
