package contract

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// legacyMethod was removed from the service (contract 1.5). Gateways up to early September 2026 call
// it once when they start.
const legacyMethod = "GetGatewayListenerRequirements"

// listenerRequirements is the handler that the generated code no longer has.
func listenerRequirements(answer *computev1.GetGatewayListenerRequirementsResponse, fullMethod string) grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(computev1.GetGatewayListenerRequirementsRequest)
		if err := dec(in); err != nil {
			return nil, err
		}
		handle := func(context.Context, any) (any, error) { return proto.CloneOf(answer), nil }
		if interceptor == nil {
			return handle(ctx, in)
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}, handle)
	}
}

// legacyDriver adds the removed time fields to the answers that have times.
type legacyDriver struct {
	computev1.ComputeDriverServer
}

func (d legacyDriver) GetSandbox(ctx context.Context, req *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
	resp, err := d.ComputeDriverServer.GetSandbox(ctx, req)
	if err != nil {
		return nil, err
	}
	return WithLegacyTimes(resp), nil
}

func (d legacyDriver) ListSandboxes(ctx context.Context, req *computev1.ListSandboxesRequest) (*computev1.ListSandboxesResponse, error) {
	resp, err := d.ComputeDriverServer.ListSandboxes(ctx, req)
	if err != nil {
		return nil, err
	}
	return WithLegacyTimes(resp), nil
}

func (d legacyDriver) WatchSandboxes(req *computev1.WatchSandboxesRequest, stream grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	return d.ComputeDriverServer.WatchSandboxes(req, legacyWatch{stream})
}

// legacyWatch is the stream of a legacyDriver.
type legacyWatch struct {
	grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]
}

func (w legacyWatch) Send(event *computev1.WatchSandboxesEvent) error {
	return w.ServerStreamingServer.Send(WithLegacyTimes(event))
}
