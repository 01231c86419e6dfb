package conformance_test

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// work takes a while, and ends early for a caller that is gone.
func work(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

func named(id string) error {
	if id == "" || len(id) > 64 {
		return status.Error(codes.InvalidArgument, "sandbox_id: is refused")
	}
	return nil
}

var errAbsent = status.Error(codes.NotFound, "sandbox not found")

func launchable(bundle []byte) error {
	if !strings.Contains(string(bundle), `"gateway_token":"ey`) {
		return status.Error(codes.FailedPrecondition, "launch_authentication: is refused")
	}
	return nil
}

func (e *exemplar) GetCapabilities(ctx context.Context, r *computev1.GetCapabilitiesRequest) (*computev1.GetCapabilitiesResponse, error) {
	if r.GetGateway() == nil || driver.Compatible(r.GetGateway(), scripted.Capabilities().GetExtension()) != nil {
		return nil, status.Error(codes.FailedPrecondition, "gateway: is refused")
	}
	return e.Driver.GetCapabilities(ctx, r)
}

func (e *exemplar) AuthenticateSandbox(_ context.Context, r *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
	if r.GetCredential() == "" {
		return nil, status.Error(codes.InvalidArgument, "credential: is refused")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, b := range e.boxes {
		if b.credential == r.GetCredential() {
			return &computev1.AuthenticateSandboxResponse{SandboxId: id, RuntimeIdentity: b.identity}, nil
		}
	}
	return nil, status.Error(codes.Unauthenticated, "sandbox credential was not accepted")
}

func (e *exemplar) ValidateSandboxCreate(_ context.Context, r *computev1.ValidateSandboxCreateRequest) (*computev1.ValidateSandboxCreateResponse, error) {
	if err := (&rules{config: e.config}).judge(r.GetSandbox()); err != nil {
		return nil, err
	}
	return &computev1.ValidateSandboxCreateResponse{}, nil
}

// forbidden is a workspace that may not be used.
const forbidden = "closed"

func (e *exemplar) CreateSandbox(ctx context.Context, r *computev1.CreateSandboxRequest) (*computev1.CreateSandboxResponse, error) {
	s := r.GetSandbox()
	if err := (&rules{config: e.config}).judge(s); err != nil {
		return nil, err
	}
	if err := launchable(s.GetSpec().GetLaunchAuthentication()); err != nil {
		return nil, err
	}
	if s.GetWorkspace() == forbidden {
		return nil, status.Error(codes.FailedPrecondition, "workspace: is refused")
	}
	defer e.enter(strings.ToLower(s.GetId()))()
	if err := e.claim(s); err != nil {
		return nil, err
	}
	for i := range 20 { // long enough to be cut short
		hears := ctx
		if e.flaw.deafFrom > 0 && i >= e.flaw.deafFrom {
			hears = context.WithoutCancel(ctx)
		}
		if err := work(hears); err != nil {
			e.forget(s.GetId())
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	answer, err := e.Driver.CreateSandbox(ctx, r)
	if err != nil {
		return nil, err
	}
	e.newRun(s.GetId(), answer.GetRuntimeIdentity(), s.GetSpec().GetLaunchAuthentication())
	return answer, nil
}

// claim takes id and name, which no other sandbox may have.
func (e *exemplar) claim(s *computev1.DriverSandbox) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, b := range e.boxes {
		if strings.EqualFold(id, s.GetId()) || b.name == s.GetName() && b.workspace == s.GetWorkspace() {
			return status.Error(codes.AlreadyExists, "sandbox already exists")
		}
	}
	e.boxes[s.GetId()] = &made{name: s.GetName(), workspace: s.GetWorkspace()}
	return nil
}

func (e *exemplar) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.boxes, id)
}

// newRun notes the run that has begun, and lets it be ready. The caller holds mu.
func (e *exemplar) newRun(id, identity string, bundle []byte) {
	b := e.boxes[id]
	b.identity, b.bundle, b.former, b.credential = identity, string(bundle), b.credential, "of-"+identity
	if !e.flaw.silent {
		e.Tell(&computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_PlatformEvent{PlatformEvent: &computev1.WatchSandboxesPlatformEvent{
			SandboxId: id, Event: &computev1.DriverPlatformEvent{Source: "exemplar", Type: "Normal", Reason: "Scheduled", EventTime: timestamppb.Now()},
		}}})
	}
	e.Show(id, scripted.Ready()...)
}

func (e *exemplar) StartSandbox(ctx context.Context, r *computev1.StartSandboxRequest) (*computev1.StartSandboxResponse, error) {
	if err := named(r.GetSandboxId()); err != nil {
		return nil, err
	}
	if err := launchable(r.GetLaunchAuthentication()); err != nil {
		return nil, err
	}
	if !labelRule.MatchString(r.GetGenerationId()) {
		return nil, status.Error(codes.InvalidArgument, "generation_id: is refused")
	}
	defer e.enter(r.GetSandboxId())()
	b := e.box(r.GetSandboxId())
	switch {
	case b == nil:
		return nil, errAbsent
	case !strings.HasPrefix(r.GetExpectedRuntimeIdentity(), "scripted://"+r.GetSandboxId()+"/") || strings.HasSuffix(r.GetExpectedRuntimeIdentity(), "/"):
		return nil, status.Error(codes.FailedPrecondition, "expected_runtime_identity: is refused")
	case b.bundle == string(r.GetLaunchAuthentication()) && !e.flaw.restarts:
		return &computev1.StartSandboxResponse{RuntimeIdentity: b.identity}, nil
	}
	if err := work(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	answer, err := e.Driver.StartSandbox(ctx, r)
	if err == nil {
		e.newRun(r.GetSandboxId(), answer.GetRuntimeIdentity(), r.GetLaunchAuthentication())
	}
	return answer, err
}

func (e *exemplar) StopSandbox(ctx context.Context, r *computev1.StopSandboxRequest) (*computev1.StopSandboxResponse, error) {
	if err := named(r.GetSandboxId()); err != nil {
		return nil, err
	}
	defer e.enter(r.GetSandboxId())()
	if e.box(r.GetSandboxId()) == nil {
		return nil, errAbsent
	}
	if err := work(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Driver.StopSandbox(ctx, r)
}

func (e *exemplar) DeleteSandbox(ctx context.Context, r *computev1.DeleteSandboxRequest) (*computev1.DeleteSandboxResponse, error) {
	if err := named(r.GetSandboxId()); err != nil {
		return nil, err
	}
	defer e.enter(r.GetSandboxId())()
	if e.box(r.GetSandboxId()) == nil {
		return &computev1.DeleteSandboxResponse{}, nil
	}
	if err := work(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.boxes, r.GetSandboxId())
	return e.Driver.DeleteSandbox(ctx, r)
}

func (e *exemplar) GetSandbox(ctx context.Context, r *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
	if err := named(r.GetSandboxId()); err != nil {
		return nil, err
	}
	answer, err := e.Driver.GetSandbox(ctx, r)
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.boxes[r.GetSandboxId()]
	if err != nil || b == nil || answer.GetSandbox().GetStatus() == nil {
		return answer, err
	}
	answer.Sandbox.Status.ResolvedIdentity = &computev1.ResolvedWorkloadIdentity{Uid: 10001, Gid: 10001, Source: "exemplar", ResourceDigest: r.GetSandboxId()}
	answer.Sandbox.Status.FenceEvidence = &computev1.DriverFenceEvidence{
		Generation: "1", EvidenceDigest: "of-" + b.identity, ResourceClaims: map[string]string{"run": b.identity},
	}
	return answer, nil
}

func (e *exemplar) EnsureWorkspace(_ context.Context, r *computev1.EnsureWorkspaceRequest) (*computev1.EnsureWorkspaceResponse, error) {
	switch {
	case !labelRule.MatchString(r.GetWorkspace()):
		return nil, status.Error(codes.InvalidArgument, "workspace: is refused")
	case r.GetWorkspace() == forbidden:
		return nil, status.Error(codes.PermissionDenied, "workspace: is refused")
	}
	return &computev1.EnsureWorkspaceResponse{}, nil
}

func (e *exemplar) DeleteWorkspace(_ context.Context, r *computev1.DeleteWorkspaceRequest) (*computev1.DeleteWorkspaceResponse, error) {
	if r.GetWorkspace() == "" {
		return nil, status.Error(codes.InvalidArgument, "workspace: is refused")
	}
	return &computev1.DeleteWorkspaceResponse{}, nil
}
