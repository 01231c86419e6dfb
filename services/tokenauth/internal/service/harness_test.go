package service_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events are what was recorded.
type events struct {
	mu   sync.Mutex
	list []audit.Event
}

func (e *events) Record(event audit.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

func (e *events) all() []audit.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]audit.Event(nil), e.list...)
}

// inquirer decides as a test says.
type inquirer func(context.Context, inquiry.Request) authenticate.Result

func (f inquirer) Decide(ctx context.Context, r inquiry.Request) authenticate.Result {
	return f(ctx, r)
}

// fixture is a service behind a real mesh.
type fixture struct {
	t       *testing.T
	ca      *meshtest.CA
	address string
	events  events
	log     commandtest.Transcript
	reg     *prometheus.Registry
	stop    func()
}

// serve runs a service until the test ends. recorder nil records in the fixture.
func serve(t *testing.T, settings service.Settings, decide service.Inquirer, recorder service.Recorder) *fixture {
	t.Helper()
	f := &fixture{t: t, ca: meshtest.NewCA(t), reg: prometheus.NewRegistry()}
	if recorder == nil {
		recorder = &f.events
	}
	hasher, err := audit.NewHasher("")
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(&f.log)
	s, err := service.New(settings, decide, recorder, hasher, log, f.reg)
	if err != nil {
		t.Fatal(err)
	}
	mesh := f.mesh("tokenauth", f.reg)
	checks, err := daemon.NewChecks(daemon.DefaultProbing(), log, f.reg)
	if err != nil {
		t.Fatal(err)
	}
	policy := meshrpc.Policy{tokenauthv1.TokenAuthService_ServiceDesc.ServiceName: {"lifecycle", "supervisorctl"}}
	server, err := mesh.NewServer(policy, func(g meshrpc.Registrar) { tokenauthv1.RegisterTokenAuthServiceServer(g, s) }, daemon.ServerOptions(log, checks)...)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := mesh.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = listener.Addr().String()
	f.run(s, server, listener, log)
	return f
}

// run serves until stop, in the order in which the daemon stops: calls first.
func (f *fixture) run(s *service.Service, server *grpc.Server, listener net.Listener, log zerolog.Logger) {
	serving, end := context.WithCancel(context.Background())
	working, endWork := context.WithCancel(context.Background())
	var served, worked sync.WaitGroup
	served.Go(func() { _ = daemon.ServeGRPC(serving, server, listener, 100*time.Millisecond, log) })
	worked.Go(func() { _ = s.Run(working) })
	f.stop = sync.OnceFunc(func() {
		end()
		served.Wait()
		endWork()
		worked.Wait()
	})
	f.t.Cleanup(f.stop)
}

func (f *fixture) mesh(name string, reg prometheus.Registerer) *meshrpc.Mesh {
	f.t.Helper()
	files := meshtest.NewFiles(f.t, f.ca, name)
	cfg := meshrpc.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: name, Log: zerolog.New(&f.log), Registerer: reg})
	if err != nil {
		f.t.Fatal(err)
	}
	return mesh
}

// client is a daemon that calls.
func (f *fixture) client(name string) tokenauthv1.TokenAuthServiceClient {
	f.t.Helper()
	conn, err := f.mesh(name, prometheus.NewRegistry()).NewClient(meshrpc.Target{Daemon: "tokenauth", Address: f.address})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return tokenauthv1.NewTokenAuthServiceClient(conn)
}

// answer is what one call got.
type answer struct {
	*tokenauthv1.AuthenticateResponse
	err error
}

// call makes a call of its own and says where its answer will be.
func call(ctx context.Context, c tokenauthv1.TokenAuthServiceClient, credential string) <-chan answer {
	return callFor(ctx, c, "a", credential)
}

// callFor is call for another gateway.
func callFor(ctx context.Context, c tokenauthv1.TokenAuthServiceClient, gateway, credential string) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		resp, err := c.Authenticate(ctx, &tokenauthv1.AuthenticateRequest{Credential: credential, GatewayId: gateway, RequestId: "r-1"})
		out <- answer{resp, err}
	}()
	return out
}

func get[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(commandtest.Patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// gauge reads a metric without labels.
func (f *fixture) gauge(name string) float64 {
	f.t.Helper()
	return f.metric(name, nil)
}

// metric reads a counter or a gauge by its labels.
func (f *fixture) metric(name string, labels map[string]string) float64 {
	f.t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			matches := len(m.GetLabel()) == len(labels)
			for _, l := range m.GetLabel() {
				matches = matches && labels[l.GetName()] == l.GetValue()
			}
			if matches {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	f.t.Fatalf("there is no %s with %v", name, labels)
	return 0
}
