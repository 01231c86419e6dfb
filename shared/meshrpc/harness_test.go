package meshrpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

const (
	testService = "grpc.testing.TestService"
	emptyCall   = "/" + testService + "/EmptyCall"
	unaryCall   = "/" + testService + "/UnaryCall"

	// patience is far longer than any condition needs; nothing is timed by it.
	patience = time.Minute
)

// safeBuffer collects log lines of several goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// grpcOutput is everything that grpc logs in the tests of this package, through the
// logger that daemons use.
var grpcOutput safeBuffer

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(GRPCLog(zerolog.New(&grpcOutput).Level(zerolog.TraceLevel)))
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition without timing anything.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// configFor is the valid base: the defaults with these files, looked at often.
func configFor(files *meshtest.Files) Config {
	cfg := DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	cfg.RefreshInterval = driverconf.Duration(100 * time.Millisecond)
	return cfg
}

func plaintextConfig() Config {
	cfg := DefaultConfig()
	cfg.AllowPlaintextLoopback = true
	return cfg
}

// member is a Mesh with what a test looks at.
type member struct {
	*Mesh
	registry *prometheus.Registry
	log      *safeBuffer
}

func join(t *testing.T, cfg Config, daemon string, change ...func(*Deps)) *member {
	t.Helper()
	m := &member{registry: prometheus.NewRegistry(), log: &safeBuffer{}}
	deps := Deps{Daemon: daemon, Registerer: m.registry, Log: zerolog.New(m.log)}
	for _, f := range change {
		f(&deps)
	}
	mesh, err := New(cfg, deps)
	must(t, err)
	m.Mesh = mesh
	return m
}

// running runs the mesh until the test ends.
func (m *member) running(t *testing.T) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return m
}

func (m *member) refusals(end string, cause Cause) float64 {
	return testutil.ToFloat64(m.metrics.refused.WithLabelValues(end, string(cause)))
}

// service answers the calls of the test service and counts them.
type service struct {
	grpc_testing.UnimplementedTestServiceServer
	calls  atomic.Int64
	empty  func(context.Context) error
	output func(grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error
}

func (s *service) EmptyCall(ctx context.Context, in *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	s.calls.Add(1)
	if s.empty != nil {
		return in, s.empty(ctx)
	}
	return in, nil
}

func (s *service) UnaryCall(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	s.calls.Add(1)
	return &grpc_testing.SimpleResponse{}, nil
}

func (s *service) StreamingOutputCall(_ *grpc_testing.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	s.calls.Add(1)
	if s.output != nil {
		return s.output(stream)
	}
	return stream.Send(&grpc_testing.StreamingOutputCallResponse{})
}

// onlyLifecycle is the valid base of policies.
func onlyLifecycle() Policy { return Policy{testService: {"lifecycle"}} }

// serve serves s until the test ends and returns the address.
func (m *member) serve(t *testing.T, policy Policy, s *service, extra ...grpc.ServerOption) string {
	t.Helper()
	listener, err := m.Listen(context.Background(), "127.0.0.1:0")
	must(t, err)
	server, err := m.NewServer(policy, func(r Registrar) { grpc_testing.RegisterTestServiceServer(r, s) }, extra...)
	must(t, err)
	return serveOn(t, server, listener)
}

func serveOn(t *testing.T, server *grpc.Server, listener net.Listener) string {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// client is one of this package.
func (m *member) client(t *testing.T, to Target, extra ...grpc.DialOption) grpc_testing.TestServiceClient {
	t.Helper()
	conn, err := m.NewClient(to, extra...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_testing.NewTestServiceClient(conn)
}

// stranger is a client of plain grpc, with whatever credentials.
func stranger(t *testing.T, address string, creds credentials.TransportCredentials, extra ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(extra, grpc.WithTransportCredentials(creds))...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func callEmpty(t *testing.T, conn grpc.ClientConnInterface) error {
	t.Helper()
	_, err := grpc_testing.NewTestServiceClient(conn).EmptyCall(testContext(t), &grpc_testing.Empty{})
	return err
}

// insecureTLS presents certificates, trusts everybody and lets one setting be changed.
func insecureTLS(change func(*tls.Config), certs ...tls.Certificate) *tls.Config {
	cfg := &tls.Config{InsecureSkipVerify: true, Certificates: certs, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	if change != nil {
		change(cfg)
	}
	return cfg
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("the error is not one line: %q", err)
	}
}
