package relay_test

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/relay"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far longer than anything here takes; nothing is timed by it.
const patience = time.Minute

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-bounded(t).Done():
		t.Fatal("it never came")
		panic("unreachable")
	}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func deleted(i int) *computev1.WatchSandboxesEvent {
	return &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Deleted{
		Deleted: &computev1.WatchSandboxesDeletedEvent{SandboxId: strconv.Itoa(i)},
	}}
}

// driver is lifecycle's end, scripted by the test.
type driver struct {
	computev1.UnimplementedComputeDriverServer
	get   func(context.Context, *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error)
	watch func(grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error
	calls atomic.Int64
	ended chan error
}

func (d *driver) GetSandbox(ctx context.Context, r *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
	d.calls.Add(1)
	if d.get == nil {
		return nil, status.Error(codes.Internal, "not expected")
	}
	return d.get(ctx, r)
}

func (d *driver) WatchSandboxes(_ *computev1.WatchSandboxesRequest, s grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	d.calls.Add(1)
	err := d.watch(s)
	d.ended <- err
	return err
}

// site is a gateway's end, the relay on a real socket, and a driver that it reaches over mutual TLS.
type site struct {
	driver  *driver
	conn    *grpc.ClientConn
	target  string
	mesh    *meshrpc.Mesh
	running *grpc.Server
	// health, where it is not nil, says whether the driver is ready; asked counts who asked once.
	health *health.Server
	asked  atomic.Int64
}

func raise(t *testing.T, d *driver) *site {
	t.Helper()
	return raiseTraced(t, d, nil)
}

// raiseTraced is raise with the spans of the relay and of lifecycle at one provider.
func raiseTraced(t *testing.T, d *driver, tracing trace.TracerProvider) *site {
	t.Helper()
	d.ended = make(chan error, 1)
	ca := meshtest.NewCA(t)
	s := &site{driver: d, target: "127.0.0.1:0", mesh: member(t, ca, "lifecycle", tracing)}
	s.startDriver(t)
	t.Cleanup(func() { s.stopDriver() })
	up := must[*grpc.ClientConn](t)(member(t, ca, "relay", tracing).NewClient(meshrpc.Target{Daemon: "lifecycle", Address: s.target}))
	t.Cleanup(func() { _ = up.Close() })
	s.serveRelay(t, must[*relay.Relay](t)(relay.New(up, s.target, tracing)))
	return s
}

func member(t *testing.T, ca *meshtest.CA, daemon string, tracing trace.TracerProvider) *meshrpc.Mesh {
	t.Helper()
	files := meshtest.NewFiles(t, ca, daemon)
	cfg := meshrpc.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	return must[*meshrpc.Mesh](t)(meshrpc.New(cfg, meshrpc.Deps{Daemon: daemon, Log: zerolog.Nop(), Registerer: prometheus.NewRegistry(), TracerProvider: tracing}))
}

func (s *site) startDriver(t *testing.T) {
	t.Helper()
	policy := meshrpc.Policy{}
	for _, p := range contract.Prefixes() {
		policy[p.ServiceName()] = []string{"relay"}
	}
	options := []grpc.ServerOption{meshrpc.EndlessStreams()}
	if s.health != nil {
		policy[meshrpc.HealthService] = []string{meshrpc.AnyDaemon}
		options = append(options, grpc.UnaryInterceptor(func(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if _, ok := info.Server.(*health.Server); ok {
				s.asked.Add(1)
			}
			return next(ctx, in)
		}))
	}
	s.running = must[*grpc.Server](t)(s.mesh.NewServer(policy, func(server meshrpc.Registrar) {
		if s.health != nil {
			grpc_health_v1.RegisterHealthServer(server, s.health)
		}
		if err := contract.Register(server, s.driver, contract.WithPrefixes(contract.Prefixes()...)); err != nil {
			t.Error(err)
		}
	}, options...))
	listener := must[net.Listener](t)(s.mesh.Listen(t.Context(), s.target))
	s.target = listener.Addr().String()
	served := make(chan struct{})
	server := s.running
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
}

func (s *site) stopDriver() { s.running.Stop() }

func (s *site) serveRelay(t *testing.T, r *relay.Relay) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway", "driver.sock")
	listener := must[*udsock.Listener](t)(udsock.Listen(t.Context(), path, udsock.Options{Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()}))
	server := grpc.NewServer(append(r.ServerOptions(), grpc.Creds(udsock.Credentials()))...)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
	s.conn = must[*grpc.ClientConn](t)(udsock.NewClient(path))
	t.Cleanup(func() { _ = s.conn.Close() })
}

func (s *site) client(t *testing.T, prefix contract.Prefix) computev1.ComputeDriverClient {
	t.Helper()
	return computev1.NewComputeDriverClient(must[grpc.ClientConnInterface](t)(contract.NewConn(s.conn, prefix)))
}

// wire is a codec that sends bytes as they are.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}
