package service_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
)

// TestARefusedCallIsOneLine, whatever its code, and none of gRPC's beside it.
func TestARefusedCallIsOneLine(t *testing.T) {
	s := newSite(t)
	log := zerolog.New(s.log).Level(zerolog.InfoLevel)
	checks, err := daemon.NewChecks(daemon.Probing{Timeout: time.Second, Interval: time.Second}, log, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(daemon.ServerOptions(log, checks)...)
	supervisorv1.RegisterSupervisorServiceServer(server, s.Service)
	pipe := bufconn.Listen(1 << 20)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- daemon.ServeGRPC(ctx, server, pipe, time.Second, log) }()
	conn, err := grpc.NewClient("passthrough:///pipe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := supervisorv1.NewSupervisorServiceClient(conn).Release(t.Context(), &supervisorv1.ReleaseRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if lines := strings.Split(strings.TrimSpace(s.log.String()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "request_invalid") {
		t.Errorf("%d lines:\n%s", len(lines), s.log)
	}
}
