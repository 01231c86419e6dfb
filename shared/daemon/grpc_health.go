package daemon

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// RegisterHealth adds the gRPC health service (grpc.health.v1) to server. It answers
// for the empty name and for every service that was registered before: SERVING when
// readiness is a yes, else NOT_SERVING, and from the first moment of a stop
// NOT_SERVING for good.
//
// The state is that of the last round of checks.Run; before the first it is
// NOT_SERVING. Watch streams end with the stop if server has ServerOptions.
func RegisterHealth(server interface {
	grpc.ServiceRegistrar
	GetServiceInfo() map[string]grpc.ServiceInfo
}, checks *Checks,
) {
	state := health.NewServer() // says SERVING until onReady below
	names := []string{""}
	for name := range server.GetServiceInfo() {
		names = append(names, name)
	}
	checks.onReady(func(ready bool) {
		status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
		if ready {
			status = grpc_health_v1.HealthCheckResponse_SERVING
		}
		for _, name := range names {
			state.SetServingStatus(name, status)
		}
	})
	grpc_health_v1.RegisterHealthServer(server, state)
}
