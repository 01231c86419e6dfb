//go:build linux

package udsock

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// whoami answers a health check with what the handler knows about the caller.
type whoami struct {
	grpc_health_v1.UnimplementedHealthServer
	peer      Peer
	known     bool
	authority []string
}

func (w *whoami) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	w.peer, w.known = PeerFromContext(ctx)
	md, _ := metadata.FromIncomingContext(ctx)
	w.authority = md.Get(":authority")
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func serve(t *testing.T, l net.Listener) *whoami {
	t.Helper()
	who := &whoami{}
	server := grpc.NewServer(grpc.Creds(Credentials()))
	grpc_health_v1.RegisterHealthServer(server, who)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return who
}

func check(t *testing.T, path string) error {
	t.Helper()
	return checkAs(t, path, uint32(os.Geteuid()))
}

// checkAs accepts a server of uid.
func checkAs(t *testing.T, path string, uid uint32) error {
	t.Helper()
	conn, err := newClient(path, uid)
	must(t, err)
	defer conn.Close()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	return err
}

func TestGRPCSeesThePeer(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	who := serve(t, mustListen(t, path, Options{}))
	must(t, check(t, path))
	if !who.known || who.peer.UID() != uint32(os.Geteuid()) || int(who.peer.PID()) != os.Getpid() {
		t.Errorf("the handler saw %s", who.peer)
	}
	if len(who.authority) != 1 || who.authority[0] != "[::]:50051" {
		t.Errorf("the handler saw authority %q", who.authority)
	}
}

func TestGRPCClientRefusesAnotherUsersServer(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	serve(t, mustListen(t, path, Options{}))
	err := checkAs(t, path, uint32(os.Geteuid())+1)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "is accepted: start both as the same user") {
		t.Errorf("the call says %v", err)
	}
}

// A server that was put on an ordinary listener by mistake serves nobody.
func TestGRPCRefusesAnUncheckedListener(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	l, err := net.Listen("unix", path)
	must(t, err)
	who := serve(t, l)
	if err := check(t, path); status.Code(err) != codes.Unavailable {
		t.Errorf("the call says %v", err)
	}
	if who.authority != nil {
		t.Error("the handler was reached")
	}
}

func TestNewClientChecksThePath(t *testing.T) {
	if _, err := NewClient("relative.sock"); err == nil || !strings.Contains(err.Error(), "relative") {
		t.Errorf("NewClient says %v", err)
	}
}

func TestPeerFromContextOfNobody(t *testing.T) {
	if p, ok := PeerFromContext(context.Background()); ok || p.UID() != NoUID || p.GID() != NoUID {
		t.Errorf("nobody is %s, %t", p, ok)
	}
	if got := fmt.Sprint(AuthInfo{}); got != "unknown peer" {
		t.Errorf("the zero peer prints %q", got)
	}
	// The zero peer's uid field is root's.
	if (Peer{}).runsAs(0) || (Peer{}).runsAs(NoUID) {
		t.Error("nobody runs as somebody")
	}
}
