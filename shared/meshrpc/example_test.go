package meshrpc_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
)

// Two members on one machine without certificates. The policy must permit the
// plaintext caller by name.
func Example() {
	ctx := context.Background()
	for _, permitted := range []string{meshrpc.PlaintextCaller, meshrpc.AnyDaemon} {
		cfg := meshrpc.DefaultConfig()
		cfg.AllowPlaintextLoopback = true
		mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: "tokenauth", Registerer: prometheus.NewRegistry()})
		if err != nil {
			fmt.Println(err)
			return
		}
		listener, err := mesh.Listen(ctx, "localhost:0")
		if err != nil {
			fmt.Println(err)
			return
		}
		server, err := mesh.NewServer(
			meshrpc.Policy{meshrpc.HealthService: {permitted}},
			func(s meshrpc.Registrar) { grpc_health_v1.RegisterHealthServer(s, health.NewServer()) })
		if err != nil {
			fmt.Println(err)
			return
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()

		conn, err := mesh.NewClient(meshrpc.Target{
			Daemon: "tokenauth", Address: listener.Addr().String(),
			Idempotent: []string{grpc_health_v1.Health_Check_FullMethodName},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		fmt.Printf("permitted %s: %s\n", permitted, status.Code(err))

		_ = conn.Close()
		server.GracefulStop()
		if err := <-served; err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// permitted plaintext@loopback: OK
	// permitted *: PermissionDenied
}
