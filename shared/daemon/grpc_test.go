package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// driver is a real service of the contract whose methods each test sets.
type driver struct {
	computev1.UnimplementedComputeDriverServer
	authenticate func(context.Context, *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error)
	watch        func(grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error
}

func (d *driver) AuthenticateSandbox(ctx context.Context, r *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
	return d.authenticate(ctx, r)
}

func (d *driver) WatchSandboxes(_ *computev1.WatchSandboxesRequest, s grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	return d.watch(s)
}

// servedGRPC is a running gRPC server with everything that a daemon adds.
type servedGRPC struct {
	t       *testing.T
	log     *logBuffer
	checks  *Checks
	conn    *grpc.ClientConn
	compute computev1.ComputeDriverClient
	health  grpc_health_v1.HealthClient
	server  *grpc.Server
	cancel  context.CancelCauseFunc
	result  <-chan error
}

func serveGRPC(t *testing.T, d *driver, level zerolog.Level, drain time.Duration, more ...grpc.ServerOption) *servedGRPC {
	t.Helper()
	noLeaks(t)
	s := &servedGRPC{t: t, log: &logBuffer{}, checks: newChecks(t, Probing{Timeout: patience, Interval: time.Millisecond})}
	log := s.log.logger(level)
	s.server = grpc.NewServer(append(ServerOptions(log, s.checks), more...)...)
	computev1.RegisterComputeDriverServer(s.server, d)
	RegisterHealth(s.server, s.checks)
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	s.cancel, s.result = start(func(ctx context.Context) error { return ServeGRPC(ctx, s.server, listener, drain, log) })
	s.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	s.compute, s.health = computev1.NewComputeDriverClient(s.conn), grpc_health_v1.NewHealthClient(s.conn)
	return s
}

// stop ends the server in the way a group does.
func (s *servedGRPC) stop() {
	s.t.Helper()
	s.checks.Drain(StopRequest{Signal: 15})
	s.cancel(nil)
	must(s.t, receive(s.t, "ServeGRPC", s.result))
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func authenticated(context.Context, *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
	return &computev1.AuthenticateSandboxResponse{SandboxId: "sb-1"}, nil
}

func TestCallsInProgressFinish(t *testing.T) {
	entered, proceed := make(chan struct{}), make(chan struct{})
	s := serveGRPC(t, &driver{authenticate: func(ctx context.Context, r *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
		close(entered)
		<-proceed
		return authenticated(ctx, r)
	}}, zerolog.Disabled, patience)
	answer := make(chan error, 1)
	go func() {
		_, err := s.compute.AuthenticateSandbox(bounded(t), &computev1.AuthenticateSandboxRequest{})
		answer <- err
	}()
	receive(t, "call", entered)
	s.cancel(nil)
	// New calls are refused from now on, which shows that the stop has begun.
	eventually(t, "new calls are refused", func() bool {
		other, err := grpc.NewClient(s.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		defer func() { _ = other.Close() }()
		_, err = grpc_health_v1.NewHealthClient(other).Check(bounded(t), &grpc_health_v1.HealthCheckRequest{})
		return status.Code(err) == codes.Unavailable
	})
	close(proceed)
	must(t, receive(t, "answer", answer))
	must(t, receive(t, "ServeGRPC", s.result))
}

func TestCallsAreCutOffAfterTheDrain(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan struct{})
	s := serveGRPC(t, &driver{authenticate: func(ctx context.Context, _ *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
		close(entered)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}}, zerolog.InfoLevel, 20*time.Millisecond)
	answer := make(chan error, 1)
	go func() {
		_, err := s.compute.AuthenticateSandbox(bounded(t), &computev1.AuthenticateSandboxRequest{})
		answer <- err
	}()
	receive(t, "call", entered)
	s.stop()
	select {
	case <-ended:
	default:
		t.Error("ServeGRPC returned before the handler")
	}
	if err := receive(t, "answer", answer); status.Code(err) != codes.Unavailable {
		t.Errorf("the call that was cut off got %v", err)
	}
	if n := len(s.log.lines(t, "gRPC calls in progress did not finish in time; cutting them off")); n != 1 {
		t.Errorf("the cut is logged %d times: %s", n, s.log)
	}
}

// TestServeGRPCWaitsForHandlers: also for one that ignores the end of its context.
func TestServeGRPCWaitsForHandlers(t *testing.T) {
	entered, cut, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := serveGRPC(t, &driver{authenticate: func(ctx context.Context, _ *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
		close(entered)
		<-ctx.Done()
		close(cut)
		<-release
		return nil, errBoom
	}}, zerolog.Disabled, time.Millisecond)
	go func() { _, _ = s.compute.AuthenticateSandbox(bounded(t), &computev1.AuthenticateSandboxRequest{}) }()
	receive(t, "call", entered)
	s.cancel(nil)
	receive(t, "cut", cut)
	select {
	case err := <-s.result:
		t.Fatalf("ServeGRPC returned %v although a handler runs", err)
	case <-time.After(100 * time.Millisecond): // a wrong return would come at once
	}
	close(release)
	must(t, receive(t, "ServeGRPC", s.result))
}

// TestStreamsEndWithTheStop: a watch that never ends by itself does not use up the
// drain time (which is longer here than the test waits).
func TestStreamsEndWithTheStop(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(context.Context) error
		want codes.Code
	}{
		"context error":      {func(ctx context.Context) error { return ctx.Err() }, codes.Unavailable},
		"cause":              {context.Cause, codes.Unavailable},
		"status":             {func(context.Context) error { return status.Error(codes.Canceled, "gone") }, codes.Unavailable},
		"error of its own":   {func(context.Context) error { return status.Error(codes.NotFound, "no") }, codes.NotFound},
		"nothing went wrong": {func(context.Context) error { return nil }, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan struct{})
			s := serveGRPC(t, &driver{watch: func(stream grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
				close(entered)
				<-stream.Context().Done()
				return c.end(stream.Context())
			}}, zerolog.Disabled, 10*patience)
			stream, err := s.compute.WatchSandboxes(bounded(t), &computev1.WatchSandboxesRequest{})
			must(t, err)
			receive(t, "watch", entered)
			watch, err := s.health.Watch(bounded(t), &grpc_health_v1.HealthCheckRequest{})
			must(t, err)
			_, err = watch.Recv()
			must(t, err)
			s.stop()
			_, err = stream.Recv()
			if code := status.Code(err); errors.Is(err, io.EOF) != (c.want == codes.OK) || !errors.Is(err, io.EOF) && code != c.want {
				t.Errorf("the watch ended with %v, want %s", err, c.want)
			}
		})
	}
}

// TestStreamThatItsCallerEnds leaves nothing behind and is no server's failure.
func TestStreamThatItsCallerEnds(t *testing.T) {
	ended := make(chan error, 1)
	s := serveGRPC(t, &driver{watch: func(stream grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
		if err := stream.Send(&computev1.WatchSandboxesEvent{}); err != nil {
			return err
		}
		<-stream.Context().Done()
		ended <- stream.Context().Err()
		return stream.Context().Err()
	}}, zerolog.InfoLevel, patience)
	ctx, cancel := context.WithCancel(bounded(t))
	stream, err := s.compute.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	must(t, err)
	_, err = stream.Recv()
	must(t, err)
	cancel()
	if err := receive(t, "end", ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.stop()
	if lines := s.log.lines(t, "gRPC call"); len(lines) != 1 || lines[0]["grpc_code"] != "Canceled" || lines[0]["level"] != "info" {
		t.Errorf("log: %v", lines)
	}
}

func TestHealthFollowsReadiness(t *testing.T) {
	s := serveGRPC(t, &driver{}, zerolog.Disabled, patience)
	service := computev1.ComputeDriver_ServiceDesc.ServiceName
	ask := func(name string) grpc_health_v1.HealthCheckResponse_ServingStatus {
		t.Helper()
		answer, err := s.health.Check(bounded(t), &grpc_health_v1.HealthCheckRequest{Service: name})
		must(t, err)
		return answer.GetStatus()
	}
	const yes, no = grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	for _, name := range []string{"", service} {
		if got := ask(name); got != no {
			t.Errorf("%q is %s before the first round", name, got)
		}
	}
	if _, err := s.health.Check(bounded(t), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service gives %v", err)
	}
	var mu sync.Mutex
	var broken error
	set := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		broken = err
	}
	must(t, s.checks.AddReadiness("nats", func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return broken
	}))
	endPolls, polls := start(s.checks.Run)
	watch, err := s.health.Watch(bounded(t), &grpc_health_v1.HealthCheckRequest{Service: service})
	must(t, err)
	expect := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for { // the state before the first round may or may not be seen
			answer, err := watch.Recv()
			must(t, err)
			if answer.GetStatus() == want {
				break
			}
		}
		if got := ask(""); got != want {
			t.Errorf("the empty name is %s, want %s", got, want)
		}
	}
	expect(yes)
	set(errBoom)
	expect(no)
	set(nil)
	expect(yes)
	s.checks.Drain(StopRequest{Signal: 15})
	if got := ask(service); got != no { // at once, not with the next round
		t.Errorf("%s after the stop began", got)
	}
	s.stop()
	endPolls(nil)
	must(t, receive(t, "polls", polls))
}

func TestServeGRPCErrors(t *testing.T) {
	noLeaks(t)
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	if err := ServeGRPC(t.Context(), grpc.NewServer(), listener, 0, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "drain time 0s is not positive") {
		t.Errorf("no drain time: %v", err)
	}
	// The listener is closed now, which is a failure of Accept.
	if err := ServeGRPC(t.Context(), grpc.NewServer(), listener, time.Second, zerolog.Nop()); err == nil || !strings.HasPrefix(err.Error(), "serve gRPC on 127.0.0.1:") {
		t.Errorf("closed listener: %v", err)
	}
	s := serveGRPC(t, &driver{}, zerolog.Disabled, time.Second)
	eventually(t, "it serves", func() bool {
		_, err := s.health.Check(bounded(t), &grpc_health_v1.HealthCheckRequest{})
		return err == nil
	})
	s.server.Stop()
	if err := receive(t, "ServeGRPC", s.result); err == nil || !strings.Contains(err.Error(), "somebody else stopped the server") {
		t.Errorf("stopped from outside: %v", err)
	}
}

// TestEndedContextClosesTheListener: serving and stopping start at the same time here,
// so that either may come first.
func TestEndedContextClosesTheListener(t *testing.T) {
	noLeaks(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for what, serve := range map[string]func(net.Listener) error{
		"gRPC": func(l net.Listener) error {
			return ServeGRPC(ended, grpc.NewServer(), l, patience, zerolog.Nop())
		},
		"admin": func(l net.Listener) error {
			admin, err := NewAdmin(DefaultConfig(), l, newChecks(t, slow), prometheus.NewRegistry(), zerolog.Nop())
			must(t, err)
			return admin.Run(ended)
		},
	} {
		for range 200 {
			listener, err := Listen(t.Context(), "127.0.0.1:0")
			must(t, err)
			if err := serve(listener); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Fatalf("%s: the listener is open: %v", what, err)
			}
		}
	}
}
