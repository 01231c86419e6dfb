package contract

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// Option changes how a driver is served.
type Option func(*settings)

type settings struct {
	prefixes []Prefix
	legacy   *computev1.GetGatewayListenerRequirementsResponse
}

// WithPrefixes serves the driver under each of the prefixes instead of OpenShell alone.
func WithPrefixes(prefixes ...Prefix) Option {
	return func(s *settings) { s.prefixes = prefixes }
}

// WithLegacyGateways speaks to gateways from v0.0.105 on as well: the removed method answers with the
// requirements, normally none, and answers carry times in the removed encoding beside the present
// one (see WithLegacyTimes). An exact bind address cannot be told to gateways up to v0.0.97, which
// read a string there (contract 1.5).
func WithLegacyGateways(requirements ...*computev1.GatewayListenerRequirement) Option {
	return func(s *settings) {
		s.legacy = &computev1.GetGatewayListenerRequirementsResponse{Requirements: requirements}
	}
}

// Register serves srv on s, under OpenShell unless WithPrefixes says otherwise. It must be called
// before s starts. On error nothing was registered.
//
// Interceptors see the path that the caller used; see Canonical. Server reflection knows the
// messages of the service under OpenShell only.
func Register(s grpc.ServiceRegistrar, srv computev1.ComputeDriverServer, opts ...Option) error {
	if srv == nil {
		return errors.New("registering the compute driver: there is no driver")
	}
	set := settings{prefixes: []Prefix{OpenShell}}
	for _, opt := range opts {
		opt(&set)
	}
	if err := set.validate(s); err != nil {
		return fmt.Errorf("registering the compute driver: %w", err)
	}
	if set.legacy != nil {
		srv = legacyDriver{ComputeDriverServer: srv}
	}
	for _, p := range set.prefixes {
		s.RegisterService(set.describe(p), srv)
	}
	return nil
}

// validate finds out beforehand what would make grpc end the process.
func (set settings) validate(s grpc.ServiceRegistrar) error {
	if len(set.prefixes) == 0 {
		return errors.New("no service prefix is given")
	}
	taken := map[string]bool{}
	if known, ok := s.(interface {
		GetServiceInfo() map[string]grpc.ServiceInfo
	}); ok {
		for name := range known.GetServiceInfo() {
			taken[name] = true
		}
	}
	for _, p := range set.prefixes {
		if _, err := ParsePrefix(string(p)); err != nil {
			return err
		}
		if taken[p.ServiceName()] {
			return fmt.Errorf("service %s is registered already", p.ServiceName())
		}
		taken[p.ServiceName()] = true
	}
	return nil
}

// describe returns the generated description under another name.
func (set settings) describe(p Prefix) *grpc.ServiceDesc {
	desc := computev1.ComputeDriver_ServiceDesc
	desc.ServiceName = p.ServiceName()
	desc.Methods = nil
	for _, m := range computev1.ComputeDriver_ServiceDesc.Methods {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{
			MethodName: m.MethodName,
			Handler:    asCalled(m.Handler, p.FullMethod(m.MethodName)),
		})
	}
	if set.legacy != nil {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{
			MethodName: legacyMethod,
			Handler:    listenerRequirements(set.legacy, p.FullMethod(legacyMethod)),
		})
	}
	return &desc
}

// asCalled tells interceptors the path that was called. The generated handler names its own constant,
// whereas grpc names the called path to the interceptors of streams.
func asCalled(handler grpc.MethodHandler, fullMethod string) grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		if interceptor == nil {
			return handler(srv, ctx, dec, nil)
		}
		return handler(srv, ctx, dec, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return interceptor(ctx, req, &grpc.UnaryServerInfo{Server: info.Server, FullMethod: fullMethod}, next)
		})
	}
}
