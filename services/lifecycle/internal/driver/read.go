package driver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// GetCapabilities is the handshake (contract 2.3, 2.4). It asks nobody and answers the same for ever.
func (d *Driver) GetCapabilities(ctx context.Context, in *computev1.GetCapabilitiesRequest) (*computev1.GetCapabilitiesResponse, error) {
	if err := granted(d.deps.Capabilities.Negotiate(in.GetGateway())); err != nil {
		return nil, d.conclude(ctx, callCapabilities, "", err)
	}
	return d.deps.Capabilities.Answer(), nil
}

// maxCredential is the longest credential, in bytes, that tokenauth judges; a longer one is refused as tokenauth would, and not sent.
const maxCredential = 16 << 10

// AuthenticateSandbox has tokenauth say whose a credential is, and passes its verdict on unchanged.
func (d *Driver) AuthenticateSandbox(ctx context.Context, in *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
	if n := len(in.GetCredential()); n > maxCredential {
		return nil, d.conclude(ctx, callAuthenticate, "", refuse(verdict.CredentialTooLarge, "request.size", "the credential has %d bytes, at most %d are taken", n, maxCredential))
	}
	answered, err := d.deps.Bearers.Authenticate(ctx, &tokenauthv1.AuthenticateRequest{
		Credential: in.GetCredential(), GatewayId: d.kubernetes.GatewayID, RequestId: requestID(ctx),
	})
	if err != nil {
		return nil, d.conclude(ctx, callAuthenticate, "", remote(ctx, err, verdict.TokenauthUnreachable, "bearer"))
	}
	if answered.GetSandboxId() == "" || answered.GetRuntimeIdentity() == "" {
		return nil, d.conclude(ctx, callAuthenticate, "", refuse(verdict.Unexplained, "bearer", "tokenauth granted without saying whom"))
	}
	return &computev1.AuthenticateSandboxResponse{SandboxId: answered.GetSandboxId(), RuntimeIdentity: answered.GetRuntimeIdentity()}, nil
}

// GetSandbox gives one sandbox. NOT_FOUND is a proven absence (contract 2.6).
func (d *Driver) GetSandbox(ctx context.Context, in *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
	if err := named(in.GetSandboxId()); err != nil {
		return nil, d.conclude(ctx, callGet, in.GetSandboxId(), err)
	}
	found, err := d.deps.View.Get(ctx, in.GetSandboxId())
	if err != nil {
		return nil, d.conclude(ctx, callGet, in.GetSandboxId(), err)
	}
	return &computev1.GetSandboxResponse{Sandbox: found}, nil
}

// ListSandboxes gives all sandboxes of the gateway, or an error; never a part of them (contract 2.9).
func (d *Driver) ListSandboxes(ctx context.Context, _ *computev1.ListSandboxesRequest) (*computev1.ListSandboxesResponse, error) {
	all, err := d.deps.View.List()
	if err != nil {
		return nil, d.conclude(ctx, callList, "", err)
	}
	return &computev1.ListSandboxesResponse{Sandboxes: all}, nil
}

// WatchSandboxes tells everything there is, and then every change (contract 2.8).
func (d *Driver) WatchSandboxes(_ *computev1.WatchSandboxesRequest, stream grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	ctx := stream.Context()
	err := d.deps.View.Watch(ctx, stream.Send)
	if ctx.Err() != nil { // the gateway went away, or the daemon stops
		return status.FromContextError(ctx.Err()).Err()
	}
	return d.conclude(ctx, callWatch, "", err)
}

// EnsureWorkspace makes a workspace usable (contract 9.1).
func (d *Driver) EnsureWorkspace(ctx context.Context, in *computev1.EnsureWorkspaceRequest) (*computev1.EnsureWorkspaceResponse, error) {
	ctx, cancel := limit(ctx, d.settings.CreateTimeout.Std())
	defer cancel()
	if in.GetWorkspace() == "" {
		return nil, d.conclude(ctx, callEnsureWorkspace, "", refuseSaying(verdict.RequestInvalid, "workspace", "workspace is missing"))
	}
	if _, err := d.deps.Workspaces.Ensure(ctx, in.GetWorkspace()); err != nil {
		return nil, d.conclude(ctx, callEnsureWorkspace, "", err)
	}
	return &computev1.EnsureWorkspaceResponse{}, nil
}

// DeleteWorkspace undoes EnsureWorkspace (contract 9.2).
func (d *Driver) DeleteWorkspace(ctx context.Context, in *computev1.DeleteWorkspaceRequest) (*computev1.DeleteWorkspaceResponse, error) {
	ctx, cancel := limit(ctx, d.settings.StopTimeout.Std())
	defer cancel()
	if in.GetWorkspace() == "" {
		return nil, d.conclude(ctx, callDeleteWorkspace, "", refuseSaying(verdict.RequestInvalid, "workspace", "workspace is missing"))
	}
	if err := d.deps.Workspaces.Delete(ctx, in.GetWorkspace()); err != nil {
		return nil, d.conclude(ctx, callDeleteWorkspace, "", err)
	}
	return &computev1.DeleteWorkspaceResponse{}, nil
}

// Metadata keys that a gateway may send along; neither decides anything.
const (
	metadataRequestID   = "x-request-id"
	metadataTraceParent = "traceparent"
	longestRequestID    = 64
)

// requestID joins the logs of the daemons; empty when the gateway sent none that is fit for that.
func requestID(ctx context.Context) string {
	id := firstOf(ctx, metadataRequestID)
	if len(id) > longestRequestID {
		return ""
	}
	for _, r := range id {
		if r <= ' ' || r > '~' {
			return ""
		}
	}
	return id
}

func traceParent(ctx context.Context) string { return firstOf(ctx, metadataTraceParent) }

func firstOf(ctx context.Context, key string) string {
	if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
		return values[0]
	}
	return ""
}
