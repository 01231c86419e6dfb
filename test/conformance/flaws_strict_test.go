package conformance_test

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/conformance"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// strictFlaws are nearly right: each does what a check that looks less closely would let pass.
func strictFlaws() []planted {
	tellOnly := func(what func(event *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent) flaw {
		return flaw{tell: func(_ *exemplar, event, _ *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
			return what(event)
		}}
	}
	twice := func(event *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
		return []*computev1.WatchSandboxesEvent{event, proto.CloneOf(event)}
	}
	again := tellOnly(twice)
	again.silent = true
	return []planted{
		{"capabilities.flags", "supports_sandbox_authentication is false", altered("GetCapabilities", func(_ *exemplar, a *computev1.GetCapabilitiesResponse) {
			a.SupportsSandboxAuthentication = false
		})},
		{"capabilities.flags", "driver_reports_runtime_readiness is true", altered("GetCapabilities", func(_ *exemplar, a *computev1.GetCapabilitiesResponse) {
			a.DriverReportsRuntimeReadiness = true
		})},
		{"authenticate.garbage", "got PermissionDenied", recoded("AuthenticateSandbox", codes.Unauthenticated, codes.PermissionDenied)},
		{"authenticate.former-run", "got Internal", recoded("AuthenticateSandbox", codes.Unauthenticated, codes.Internal)},
		{"create.namesakes", "the platform has", answered("CreateSandbox", func(e *exemplar, r, answer any, err error) (any, error) {
			if status.Code(err) == codes.AlreadyExists {
				e.leak(r.(*computev1.CreateSandboxRequest).GetSandbox().GetId())
			}
			return answer, err
		})},
		{"create.namesakes", "4 of 4 calls succeeded", granted("CreateSandbox", codes.AlreadyExists, &computev1.CreateSandboxResponse{RuntimeIdentity: "x"})},
		{"start.shown", "GetSandbox shows it Stopped", altered("GetSandbox", func(_ *exemplar, a *computev1.GetSandboxResponse) {
			a.Sandbox.Status.Conditions = scripted.Suspended()
		})},
		{"start.shown", "a new watch shows it Stopped", told(func(_ *exemplar, s *computev1.DriverSandbox) {
			s.Status.Conditions = scripted.Suspended()
		})},
		{"start.shown", "ListSandboxes shows it Stopped", altered("ListSandboxes", func(_ *exemplar, a *computev1.ListSandboxesResponse) {
			for _, s := range a.GetSandboxes() {
				s.Status.Conditions = scripted.Suspended()
			}
		})},
		{"start.running", "answered with the identity", flaw{around: staysUp}},
		{"start.generation", "with another generation_id", before("StartSandbox", func(_ context.Context, e *exemplar, r any) error {
			if request := r.(*computev1.StartSandboxRequest); request.GetGenerationId() != "g0000000000000001" {
				e.mu.Lock()
				defer e.mu.Unlock()
				e.boxes[request.GetSandboxId()].bundle = ""
			}
			return nil
		})},
		{"start.after-failure", "after a refused start", before("StartSandbox", func(_ context.Context, e *exemplar, r any) error {
			if request := r.(*computev1.StartSandboxRequest); request.GetExpectedRuntimeIdentity() != e.Identity(request.GetSandboxId()) {
				return status.Error(codes.FailedPrecondition, "by a flaw")
			}
			return nil
		})},
		{"start.huge-generation", "got Internal", recoded("StartSandbox", codes.InvalidArgument, codes.Internal)},
		{"start.huge-bundle", "got Internal", recoded("StartSandbox", codes.FailedPrecondition, codes.Internal)},
		{"start.huge-identity", "got Internal", recoded("StartSandbox", codes.FailedPrecondition, codes.Internal)},
		{"start.fields", "does not name expected_runtime_identity", recoded("StartSandbox", codes.FailedPrecondition, codes.FailedPrecondition)},
		{"start.fields", "does not name generation_id", recoded("StartSandbox", codes.InvalidArgument, codes.InvalidArgument)},
		{"start.concurrent", "got Internal", before("StartSandbox", onlyFirst())},
		{"get.evidence", "resolved_identity is", altered("GetSandbox", func(_ *exemplar, a *computev1.GetSandboxResponse) { a.Sandbox.Status.ResolvedIdentity = nil })},
		{"get.evidence", "fence_evidence is <nil>", altered("GetSandbox", func(_ *exemplar, a *computev1.GetSandboxResponse) { a.Sandbox.Status.FenceEvidence = nil })},
		{"get.evidence", "of the run before", altered("GetSandbox", func(_ *exemplar, a *computev1.GetSandboxResponse) {
			a.Sandbox.Status.FenceEvidence.EvidenceDigest, a.Sandbox.Status.FenceEvidence.ResourceClaims = "same", map[string]string{"run": "same"}
		})},
		{"list.complete", "and GetSandbox name", altered("ListSandboxes", func(_ *exemplar, a *computev1.ListSandboxesResponse) {
			for _, s := range a.GetSandboxes() {
				s.Status = &computev1.DriverSandboxStatus{Deleting: true}
			}
		})},
		{"watch.starting", "never with Bootstrapping=True", told(func(_ *exemplar, s *computev1.DriverSandbox) {
			if is(s, "Bootstrapping") {
				s.Status.Conditions = []*computev1.DriverCondition{scripted.Condition("Suspended", "True", "PodTerminated")}
			}
		})},
		{"watch.starting", "never with Bootstrapping=True", tellOnly(func(event *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
			if is(event.GetSandbox().GetSandbox(), "Bootstrapping") {
				return nil
			}
			return []*computev1.WatchSandboxesEvent{event}
		})},
		{"watch.order", "told twice", tellOnly(func(event *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
			if event.GetDeleted() != nil {
				return twice(event)
			}
			return []*computev1.WatchSandboxesEvent{event}
		})},
		{"watch.order", "of a run that was Ready", flaw{tell: comesUpAgain()}},
		{"watch.slow", "did not begin with what there is", tellOnly(func(event *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
			if event.GetDeleted() == nil {
				return nil
			}
			return []*computev1.WatchSandboxesEvent{event}
		})},
		{"watch.slow", "is deleted", flaw{most: 10}},
		{"watch.republish", "again and unchanged", again},
		{"workspace.hostile.path", "EnsureWorkspace: expected", recoded("EnsureWorkspace", codes.InvalidArgument, codes.Internal)},
		{"workspace.hostile.path", "DeleteWorkspace: expected", before("DeleteWorkspace", oddly)},
		{"workspace.delete", "DeleteWorkspace again", before("DeleteWorkspace", onlyFirst())},
		{"workspace.field", "EnsureWorkspace: \"by a flaw\" does not name", recoded("EnsureWorkspace", codes.InvalidArgument, codes.InvalidArgument)},
		{"secrets.answers", "StartSandbox holds a secret", answered("StartSandbox", func(_ *exemplar, r, answer any, err error) (any, error) {
			if a, ok := answer.(*computev1.StartSandboxResponse); ok && err == nil {
				a.RuntimeIdentity += base64.StdEncoding.EncodeToString(r.(*computev1.StartSandboxRequest).GetLaunchAuthentication())
			}
			return answer, err
		})},
		{"secrets.answers", "GetSandbox holds a secret", altered("GetSandbox", func(e *exemplar, a *computev1.GetSandboxResponse) {
			a.Sandbox.Status.InstanceId = base64.URLEncoding.EncodeToString([]byte("a" + e.box(a.GetSandbox().GetId()).bundle))
		})},
		{"cancel.create", "is there, as of the last one", flaw{deafFrom: 2}},
		{"crash.stop", "the run is still there", flaw{reborn: func(e *exemplar) { e.goesOn() }}},
	}
}

// comesUpAgain tells of every sandbox that is Ready how it came up.
func comesUpAgain() func(*exemplar, *computev1.WatchSandboxesEvent, *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
	var mu sync.Mutex
	former := map[string]*computev1.WatchSandboxesEvent{}
	return func(_ *exemplar, event, _ *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
		mu.Lock()
		defer mu.Unlock()
		s := event.GetSandbox().GetSandbox()
		if is(s, "Bootstrapping") {
			former[s.GetId()] = event
		}
		if is(s, "Ready") && former[s.GetId()] != nil {
			return []*computev1.WatchSandboxesEvent{event, former[s.GetId()]}
		}
		return []*computev1.WatchSandboxesEvent{event}
	}
}

// staysUp answers the start of a sandbox that runs with what runs.
func staysUp(ctx context.Context, e *exemplar, method string, request any, next grpc.UnaryHandler) (any, error) {
	if r, ok := request.(*computev1.StartSandboxRequest); ok && e.Has(r.GetSandboxId()) && is(e.Seen(r.GetSandboxId()), "Ready") {
		return &computev1.StartSandboxResponse{RuntimeIdentity: e.Identity(r.GetSandboxId())}, nil
	}
	return next(ctx, request)
}

// onlyFirst fails over every call but the first.
func onlyFirst() func(context.Context, *exemplar, any) error {
	var calls atomic.Int64
	return func(context.Context, *exemplar, any) error {
		if calls.Add(1) > 1 {
			return status.Error(codes.Internal, "by a flaw")
		}
		return nil
	}
}

// oddly fails over what looks like a path.
func oddly(_ context.Context, _ *exemplar, r any) error {
	for _, text := range []string{idOf(r), workspaceOf(r)} {
		if strings.Contains(text, "..") {
			return status.Error(codes.Internal, "by a flaw")
		}
	}
	return nil
}

func idOf(r any) string {
	if named, ok := r.(interface{ GetSandboxId() string }); ok {
		return named.GetSandboxId()
	}
	return ""
}

func workspaceOf(r any) string {
	if named, ok := r.(interface{ GetWorkspace() string }); ok {
		return named.GetWorkspace()
	}
	return ""
}

// byIDFlaws fail over hostile ids, take them for others, and do not say what is wrong with them.
func byIDFlaws() []planted {
	all := []planted{
		{"delete.hostile", "GetSandbox", before("DeleteSandbox", func(_ context.Context, _ *exemplar, r any) error {
			request := r.(*computev1.DeleteSandboxRequest)
			request.SandboxId = strings.TrimSpace(request.GetSandboxId())
			return nil
		})},
		{"stop.hostile", "the first sandbox is", before("StopSandbox", func(_ context.Context, _ *exemplar, r any) error {
			request := r.(*computev1.StopSandboxRequest)
			request.SandboxId, _, _ = strings.Cut(request.GetSandboxId(), ",")
			return nil
		})},
	}
	for check, f := range map[string]flaw{
		"capabilities.bytes": granted("GetCapabilities", codes.FailedPrecondition, scripted.Capabilities()),
		"authenticate.bytes": granted("AuthenticateSandbox", codes.Unauthenticated, &computev1.AuthenticateSandboxResponse{}),
		"workspace.bytes":    granted("EnsureWorkspace", codes.InvalidArgument, &computev1.EnsureWorkspaceResponse{}),
		"start.bytes":        granted("StartSandbox", codes.InvalidArgument, &computev1.StartSandboxResponse{RuntimeIdentity: "x"}),
	} {
		f.reads = true
		all = append(all, planted{check, "got OK", f})
	}
	for check, method := range map[string]string{"get": "GetSandbox", "start": "StartSandbox", "stop": "StopSandbox", "delete": "DeleteSandbox"} {
		all = append(all,
			planted{check + ".hostile", "got Internal", before(method, oddly)},
			planted{check + ".field", "does not name sandbox_id", recoded(method, codes.InvalidArgument, codes.InvalidArgument)},
		)
	}
	return all
}

// TestRequired: what no platform can carry out has to be refused, and what a driver may pass over only should be.
func TestRequired(t *testing.T) {
	required := map[string]bool{}
	for _, c := range conformance.Checks() {
		required[c.ID] = c.Required
	}
	for id, want := range map[string]bool{
		"hostile.env-equals": true, "hostile.env-nul": true, "hostile.label-empty-key": true, "hostile.label-long-value": true, "hostile.memory-word": true,
		"hostile.memory-negative": true, "hostile.annotation-number": true, "hostile.cpu-request-over-limit": true,
		"hostile.env-openshell": false, "hostile.label-role": false, "hostile.label-id": false, "hostile.annotation-id": false, "hostile.memory-overflow": false,
	} {
		if got, there := required[id]; got != want || !there {
			t.Errorf("%s: required %t, there %t", id, got, there)
		}
	}
}
