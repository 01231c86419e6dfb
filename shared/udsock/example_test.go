//go:build linux

package udsock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

func Example() {
	dir, err := os.MkdirTemp("", "uds")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "driver", "driver.sock")

	listener, err := udsock.Listen(context.Background(), path, udsock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.Creds(udsock.Credentials()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	// A second driver does not take the path away from the first.
	_, err = udsock.Listen(context.Background(), path, udsock.Options{})
	fmt.Println("second driver refused:", err != nil)

	conn, err := udsock.NewClient(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println("answer:", answer.GetStatus(), err)
	_ = conn.Close()

	server.GracefulStop() // closes the listener, which removes the socket
	fmt.Println("served:", <-served)
	_, err = os.Lstat(path)
	fmt.Println("socket gone:", os.IsNotExist(err))
	// Output:
	// second driver refused: true
	// answer: SERVING <nil>
	// served: <nil>
	// socket gone: true
}
