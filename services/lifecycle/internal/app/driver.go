package app

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// driver holds the place of the compute driver. Its calls answer UNIMPLEMENTED, except the two where
// the gateway takes that for success (contract 2.6): nothing may be believed to be done.
type driver struct {
	computev1.UnimplementedComputeDriverServer
}

var errNotServed = status.Error(codes.Unavailable, "this release of the driver does not manage workspaces yet")

// EnsureWorkspace refuses.
func (driver) EnsureWorkspace(context.Context, *computev1.EnsureWorkspaceRequest) (*computev1.EnsureWorkspaceResponse, error) {
	return nil, errNotServed
}

// DeleteWorkspace refuses.
func (driver) DeleteWorkspace(context.Context, *computev1.DeleteWorkspaceRequest) (*computev1.DeleteWorkspaceResponse, error) {
	return nil, errNotServed
}
