package telemetry

import (
	"bytes"
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// patience bounds waits for things that should come at once.
const patience = 30 * time.Second

// fakeCollector is a gRPC server that takes any call as an export. The request is read
// into an empty message, whose unknown fields are then the bytes on the wire.
type fakeCollector struct {
	address  string
	requests chan []byte
	answer   func(context.Context) error
}

func startCollector(t *testing.T, answer func(context.Context) error, options ...grpc.ServerOption) *fakeCollector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCollector{address: listener.Addr().String(), requests: make(chan []byte, 100), answer: answer}
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(c.serve))...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return c
}

func (c *fakeCollector) serve(_ any, stream grpc.ServerStream) error {
	request := &emptypb.Empty{}
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	c.requests <- request.ProtoReflect().GetUnknown()
	if err := c.answer(stream.Context()); err != nil {
		return err
	}
	return stream.SendMsg(&emptypb.Empty{})
}

func accept(context.Context) error { return nil }

// run starts Run and returns the function that stops it and waits.
func run(t *testing.T, tracing *Tracing) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- tracing.Run(ctx) }()
	if tracing.sdk != nil {
		<-tracing.attached
	}
	return func() {
		t.Helper()
		cancel()
		select {
		case err := <-result:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not return")
		}
	}
}

// noLeaks must be called before anything registers a cleanup.
func noLeaks(t *testing.T) {
	t.Helper()
	known := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, known) })
}

func spans(tracing *Tracing, n int, name string) {
	for range n {
		_, s := tracing.Provider().Tracer("test").Start(context.Background(), name)
		s.End()
	}
}

func newTracing(t *testing.T, cfg Config, log zerolog.Logger) *Tracing {
	t.Helper()
	tracing, err := NewTracing(cfg, "nswatch", Build{Version: "v1.2.3"}, log)
	if err != nil {
		t.Fatal(err)
	}
	return tracing
}

func TestTracesReachTheCollector(t *testing.T) {
	noLeaks(t)
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	tlsOption := grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0]))
	for _, c := range []struct {
		name, scheme, ca string
		options          []grpc.ServerOption
	}{
		{"plaintext", "http://", "", nil},
		{"tls", "https://", caFile, []grpc.ServerOption{tlsOption}},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := startCollector(t, accept, c.options...)
			cfg := DefaultConfig()
			cfg.OTLPEndpoint, cfg.OTLPCAFile = c.scheme+to.address, c.ca
			tracing := newTracing(t, cfg, zerolog.Nop())
			stop := run(t, tracing)
			spans(tracing, 1, "list-namespaces")
			stop()
			select {
			case request := <-to.requests:
				for _, want := range []string{"list-namespaces", "portcullis-nswatch", "v1.2.3"} {
					if !bytes.Contains(request, []byte(want)) {
						t.Errorf("the export does not mention %q", want)
					}
				}
			default:
				t.Error("Run returned without exporting what was left")
			}
		})
	}
}

// TestCollectorTrouble: whatever the collector does, a stop is bounded, not an
// error, and said once in the log.
func TestCollectorTrouble(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		address func(t *testing.T) string
	}{
		{"absent", func(*testing.T) string { return nobody }},
		{"hangs", func(t *testing.T) string { return startCollector(t, hang).address }},
		{"refuses", func(t *testing.T) string {
			return startCollector(t, func(context.Context) error {
				return status.Error(codes.PermissionDenied, "not you")
			}).address
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			var out lockedBuffer
			cfg := DefaultConfig()
			cfg.OTLPEndpoint = "http://" + c.address(t)
			// One export may take longer than the test waits: only the deadline of the
			// shutdown can end it.
			cfg.OTLPTimeout = driverconf.Duration(maxOTLPTimeout)
			cfg.OTLPShutdownTimeout = driverconf.Duration(minOTLPTimeout)
			tracing := newTracing(t, cfg, NewLogger(&out, zerolog.InfoLevel, "nswatch"))
			stop := run(t, tracing)
			spans(tracing, 3000, "x") // more than one batch and more than the queue
			stop()
			if n := strings.Count(out.String(), "traces cannot be exported"); n != 1 {
				t.Errorf("the trouble is logged %d times: %s", n, out.String())
			}
		})
	}
}

func TestExportRecoveryIsLogged(t *testing.T) {
	noLeaks(t)
	fail := make(chan error, 1)
	to := startCollector(t, func(context.Context) error {
		select {
		case err := <-fail:
			return err
		default:
			return nil
		}
	})
	fail <- status.Error(codes.PermissionDenied, "not yet")
	var out lockedBuffer
	cfg := DefaultConfig()
	cfg.OTLPEndpoint = "http://" + to.address
	tracing := newTracing(t, cfg, NewLogger(&out, zerolog.InfoLevel, "nswatch"))
	stop := run(t, tracing)
	spans(tracing, 1, "first")
	if err := tracing.sdk.ForceFlush(context.Background()); err != nil {
		t.Errorf("the SDK sees the error of an export: %v", err)
	}
	spans(tracing, 1, "second")
	stop()
	for _, want := range []string{"traces cannot be exported", "not yet", "exported again", `"count":1`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log lacks %q: %s", want, out.String())
		}
	}
}

// TestNoExportPassesContextOn: without an endpoint nothing is recorded, but the
// caller's trace reaches the next daemon.
func TestNoExportPassesContextOn(t *testing.T) {
	noLeaks(t)
	tracing := newTracing(t, DefaultConfig(), zerolog.Nop())
	stop := run(t, tracing)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	in := propagation.MapCarrier{"traceparent": parent, "baggage": "user=alice"}
	ctx := tracing.Propagator().Extract(context.Background(), in)
	ctx, s := tracing.Provider().Tracer("test").Start(ctx, "hop")
	s.End()
	if s.IsRecording() || trace.SpanContextFromContext(ctx).TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("span context is %+v", s.SpanContext())
	}
	out := propagation.MapCarrier{}
	tracing.Propagator().Inject(ctx, out)
	if out["traceparent"] != parent || out["baggage"] != "" {
		t.Errorf("passed on %v", out)
	}
	stop()
}

func TestNewTracingErrors(t *testing.T) {
	dir := t.TempDir()
	pipe, huge, half := filepath.Join(dir, "pipe"), filepath.Join(dir, "huge"), filepath.Join(dir, "half")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, make([]byte, pemfile.Max+1), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := append(certtest.New(t, "collector").PEM(), "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"...)
	if err := os.WriteFile(half, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		breaks func(*Config)
		want   string
	}{
		{"endpoint", func(c *Config) { c.OTLPEndpoint = "collector" }, "otlp_endpoint must begin with https://"},
		{"ca missing", func(c *Config) { c.OTLPCAFile = empty + ".gone" }, `portcullis.telemetry.otlp_ca_file "` + empty + `.gone": no such file`},
		{"ca without end", func(c *Config) { c.OTLPCAFile = "/dev/zero" }, `portcullis.telemetry.otlp_ca_file "/dev/zero" is not a regular file`},
		{"ca in a pipe", func(c *Config) { c.OTLPCAFile = pipe }, `portcullis.telemetry.otlp_ca_file "` + pipe + `" is not a regular file`},
		{"ca is a directory", func(c *Config) { c.OTLPCAFile = filepath.Dir(pipe) }, `portcullis.telemetry.otlp_ca_file "` + filepath.Dir(pipe) + `" is not a regular file`},
		{"ca too large", func(c *Config) { c.OTLPCAFile = huge }, `portcullis.telemetry.otlp_ca_file "` + huge + `" is larger than`},
		{"ca half sound", func(c *Config) { c.OTLPCAFile = half }, `portcullis.telemetry.otlp_ca_file "` + half + `": certificate 2 does not parse`},
		{"ca empty", func(c *Config) { c.OTLPCAFile = empty }, `portcullis.telemetry.otlp_ca_file "` + empty + `": it holds no PEM certificate`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := validConfig()
			c.breaks(&cfg)
			_, err := NewTracing(cfg, "nswatch", Build{}, zerolog.Nop())
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
