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
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
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
	client := supervisorv1.NewSupervisorServiceClient(conn)
	if _, err := client.Release(t.Context(), &supervisorv1.ReleaseRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	for reason, code := range map[verdict.Reason]codes.Code{plan.ObjectUnreadable: codes.Unavailable, verdict.Unexplained: codes.Internal} {
		s.conductor.do = func(context.Context, conduct.Goal) (conduct.Outcome, error) {
			return conduct.Outcome{Step: plan.Step{Reason: reason}}, nil
		}
		if _, err := client.Release(t.Context(), &supervisorv1.ReleaseRequest{Sandbox: ref(), Run: run()}); status.Code(err) != code {
			t.Error(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if log := s.log.String(); strings.Count(log, "\n") != 3 || strings.Count(log, `"message":"call"`) != 3 || strings.Count(log, `"level":"error"`) != 1 {
		t.Errorf("three refused calls are\n%s", log)
	}
}
