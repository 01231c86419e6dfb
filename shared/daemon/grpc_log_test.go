package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"

	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

func TestPanicsBecomeInternal(t *testing.T) {
	const token = "hunter2-token"
	s := serveGRPC(t, &driver{
		authenticate: func(context.Context, *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
			panic("index of " + strings.Repeat("x", 10_000))
		},
		watch: func(grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error { panic("ouch") },
	}, zerolog.DebugLevel, patience)
	_, err := s.compute.AuthenticateSandbox(bounded(t), &computev1.AuthenticateSandboxRequest{Credential: token})
	stream, openErr := s.compute.WatchSandboxes(bounded(t), &computev1.WatchSandboxesRequest{})
	must(t, openErr)
	_, streamErr := stream.Recv()
	for _, err := range []error{err, streamErr} {
		if s, _ := status.FromError(err); s.Code() != codes.Internal || s.Message() != "internal error" || len(s.Details()) != 0 {
			t.Errorf("the caller got %v", err)
		}
	}
	s.stop()
	panics := s.log.lines(t, "gRPC handler panicked")
	if len(panics) != 2 || panics[1]["panic"] != "ouch" || !strings.Contains(fmt.Sprint(panics[1]["stack"]), "grpc_test.go") {
		t.Errorf("panics in the log: %v", panics)
	}
	calls := s.log.lines(t, "gRPC call")
	if len(calls) != 2 {
		t.Errorf("%d calls in the log, want 2", len(calls))
	}
	for _, line := range calls {
		if line["grpc_code"] != "Internal" || line["level"] != "error" {
			t.Errorf("call in the log: %v", line)
		}
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log holds the credential")
	}
}

// dropVolatile removes what differs from run to run, after checking that it is
// there.
func dropVolatile(t *testing.T, line map[string]any) map[string]any {
	t.Helper()
	if d, ok := line["duration_ms"].(float64); !ok || d < 0 {
		t.Errorf("duration is %v", line["duration_ms"])
	}
	if p, ok := line["peer"].(string); !ok || !strings.HasPrefix(p, "127.0.0.1:") {
		t.Errorf("peer is %v", line["peer"])
	}
	for _, key := range []string{"duration_ms", "peer", "time"} {
		delete(line, key)
	}
	return line
}

func TestCallsAreLogged(t *testing.T) {
	const token = "hunter2-token"
	refused := func(context.Context, *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "namespace is not listed\nat all")
	}
	base := func(code, level string) map[string]any {
		return map[string]any{
			"daemon": "test", "message": "gRPC call", "level": level, "grpc_code": code,
			"grpc_method": "/openshell.compute.v1.ComputeDriver/AuthenticateSandbox",
		}
	}
	with := func(line map[string]any, key string, value any) map[string]any {
		line[key] = value
		return line
	}
	request := map[string]any{
		"type":   "openshell.compute.v1.AuthenticateSandboxRequest",
		"fields": map[string]any{"credential": "[redacted]"},
	}
	for _, c := range []struct {
		name  string
		level zerolog.Level
		call  func(context.Context, *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error)
		want  map[string]any // nil for no line
	}{
		{"a call that went well", zerolog.InfoLevel, authenticated, nil},
		{"debug adds the request", zerolog.DebugLevel, authenticated, with(base("OK", "debug"), "request", request)},
		{"accounted for", zerolog.InfoLevel, accounted(codes.PermissionDenied), nil},
		{"accounted for at debug", zerolog.DebugLevel, accounted(codes.PermissionDenied), with(with(base("PermissionDenied", "debug"), "request", request), "error", "no")},
		{"accounted for and not answered", zerolog.InfoLevel, accounted(codes.Unavailable), with(base("Unavailable", "warn"), "error", "no")},
		{"accounted for as it ends", zerolog.InfoLevel, accountedAs(codes.Unavailable, codes.Unavailable), nil},
		{"accounted for as our fault", zerolog.InfoLevel, accountedAs(codes.Internal, codes.Internal), nil},
		{"accounted for as it ends, at debug", zerolog.DebugLevel, accountedAs(codes.Internal, codes.Internal), with(with(base("Internal", "debug"), "request", request), "error", "no")},
		{"accounted for as another", zerolog.InfoLevel, accountedAs(codes.Unavailable, codes.Internal), with(base("Internal", "error"), "error", "no")},
		{"accounted for as another, by the caller", zerolog.InfoLevel, accountedAs(codes.Unavailable, codes.NotFound), nil},
		{"refusal", zerolog.InfoLevel, refused, with(base("PermissionDenied", "info"), "error", "namespace is not listed; at all")},
		{"below the level", zerolog.WarnLevel, refused, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serveGRPC(t, &driver{authenticate: c.call}, c.level, patience)
			_, _ = s.compute.AuthenticateSandbox(bounded(t), &computev1.AuthenticateSandboxRequest{Credential: token})
			s.stop() // waits for the line too
			lines := s.log.lines(t, "gRPC call")
			switch {
			case c.want == nil && len(lines) == 0:
			case c.want == nil || len(lines) != 1:
				t.Errorf("got the lines %v, want %v", lines, c.want)
			default:
				if diff := cmp.Diff(c.want, dropVolatile(t, lines[0])); diff != "" {
					t.Errorf("line (-want +got):\n%s", diff)
				}
			}
			if strings.Contains(s.log.String(), token) {
				t.Error("the log holds the credential")
			}
		})
	}
}

// accounted is a handler that writes lines of its own.
func accounted(code codes.Code) func(context.Context, *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
	return func(ctx context.Context, _ *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
		Accounted(ctx)
		return nil, status.Error(code, "no")
	}
}

// accountedAs is a handler that has written one, with a code, and ends with another or the same.
func accountedAs(told, ends codes.Code) func(context.Context, *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
	return func(ctx context.Context, _ *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
		AccountedAs(ctx, told)
		return nil, status.Error(ends, "no")
	}
}

// TestAccountedOutsideOfACall does nothing.
func TestAccountedOutsideOfACall(t *testing.T) {
	Accounted(t.Context())
	AccountedAs(t.Context(), codes.Internal)
}

func TestStreamsAreLoggedWithTheirRequest(t *testing.T) {
	s := serveGRPC(t, &driver{watch: func(grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error { return errBoom }},
		zerolog.DebugLevel, patience)
	stream, err := s.compute.WatchSandboxes(bounded(t), &computev1.WatchSandboxesRequest{})
	must(t, err)
	if _, err := stream.Recv(); status.Code(err) != codes.Unknown {
		t.Errorf("the watch ended with %v", err)
	}
	s.stop()
	want := map[string]any{
		"daemon": "test", "message": "gRPC call", "level": "error", "grpc_code": "Unknown", "error": "boom",
		"grpc_method": "/openshell.compute.v1.ComputeDriver/WatchSandboxes",
		"request":     map[string]any{"type": "openshell.compute.v1.WatchSandboxesRequest", "fields": map[string]any{}},
	}
	lines := s.log.lines(t, "gRPC call")
	if len(lines) != 1 {
		t.Fatalf("log: %v", lines)
	}
	if diff := cmp.Diff(want, dropVolatile(t, lines[0])); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestTraceIDIsLogged(t *testing.T) {
	var log logBuffer
	id := trace.TraceID{0: 0xab, 15: 0xcd}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id}))
	callLog{log.logger(zerolog.DebugLevel)}.write(ctx, &call{method: "/a.B/C"}, time.Millisecond, nil)
	if lines := log.lines(t, "gRPC call"); len(lines) != 1 || lines[0]["trace_id"] != id.String() {
		t.Errorf("log: %v", lines)
	}
}

// asIs sends bytes as they are, whatever the method expects.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (asIs) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// TestEveryCallHasOneLine: also those that no handler gets to see.
func TestEveryCallHasOneLine(t *testing.T) {
	const (
		unary     = "/openshell.compute.v1.ComputeDriver/AuthenticateSandbox"
		streaming = "/openshell.compute.v1.ComputeDriver/WatchSandboxes"
		limit     = 8 << 20
	)
	garbage, oversized := []byte("\xff\xff"), make([]byte, limit+1<<20)
	for _, c := range []struct {
		name, method string
		messages     [][]byte
		code         codes.Code
		logged       string // the method in the log, if not the one called
		says         string
		request      bool
	}{
		{name: "valid", method: unary, messages: [][]byte{nil}, request: true},
		{name: "valid stream", method: streaming, messages: [][]byte{nil}, request: true},
		{name: "garbage", method: unary, messages: [][]byte{garbage}, code: codes.Internal, says: "unmarshal"},
		{name: "garbage to a stream", method: streaming, messages: [][]byte{garbage}, code: codes.Internal, says: "unmarshal"},
		{name: "oversized", method: unary, messages: [][]byte{oversized}, code: codes.ResourceExhausted, says: "larger than max"},
		{name: "oversized to a stream", method: streaming, messages: [][]byte{oversized}, code: codes.ResourceExhausted, says: "larger than max"},
		{name: "no message", method: unary, code: codes.Internal, says: "no request message"},
		{name: "unknown method", method: unary + "s", messages: [][]byte{garbage}, code: codes.Unimplemented, says: "does not exist"},
		{name: "unknown service", method: "/a.B/C", messages: [][]byte{nil}, code: codes.Unimplemented, says: "method /a.B/C does not exist"},
		{
			name: "endless method", method: "/a.B/" + strings.Repeat("x", 5000), messages: [][]byte{nil}, code: codes.Unimplemented,
			logged: "/a.B/" + strings.Repeat("x", maxReason-len("/a.B/")) + "...", says: "method /a.B/x",
		},
		{name: "no service", method: "nonsense", messages: [][]byte{nil}, code: codes.Unimplemented, logged: "(malformed)", says: "/service/method"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serveGRPC(t, &driver{
				authenticate: authenticated,
				watch:        func(grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error { return nil },
			}, zerolog.DebugLevel, patience, grpc.MaxRecvMsgSize(limit))
			if err := s.send(c.method, c.messages); status.Code(err) != c.code {
				t.Errorf("the caller got %v, want %s", err, c.code)
			}
			s.stop()
			if c.logged == "" {
				c.logged = c.method
			}
			lines := s.log.lines(t, "gRPC call")
			if len(lines) != 1 {
				t.Fatalf("%d lines: %v", len(lines), lines)
			}
			line := dropVolatile(t, lines[0])
			text, _ := line["error"].(string)
			if line["grpc_method"] != c.logged || line["grpc_code"] != c.code.String() || !strings.Contains(text, c.says) || (text == "") != (c.code == codes.OK) {
				t.Errorf("line: %v", line)
			}
			if _, has := line["request"]; has != c.request {
				t.Errorf("the line has a request: %v", has)
			}
		})
	}
}

// send makes a call of any method with messages as they are, and returns how it ended.
func (s *servedGRPC) send(method string, messages [][]byte) error {
	s.t.Helper()
	stream, err := s.conn.NewStream(bounded(s.t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodec(asIs{}))
	must(s.t, err)
	for _, m := range messages {
		// The server may have ended the call before all was sent; Recv says how.
		if err := stream.SendMsg(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	must(s.t, stream.CloseSend())
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestPeersAreNamedByTheirTransport: a caller on a Unix socket has no address.
func TestPeersAreNamedByTheirTransport(t *testing.T) {
	noLeaks(t)
	dir, err := os.MkdirTemp("", "uds")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "driver", "driver.sock")
	listener, err := udsock.Listen(t.Context(), path, udsock.Options{})
	must(t, err)
	var log logBuffer
	server := grpc.NewServer(append(ServerOptions(log.logger(zerolog.DebugLevel), newChecks(t, slow)), grpc.Creds(udsock.Credentials()))...)
	computev1.RegisterComputeDriverServer(server, &driver{authenticate: authenticated})
	cancel, result := start(func(ctx context.Context) error { return ServeGRPC(ctx, server, listener, patience, zerolog.Nop()) })
	conn, err := udsock.NewClient(path)
	must(t, err)
	_, err = computev1.NewComputeDriverClient(conn).AuthenticateSandbox(bounded(t), &computev1.AuthenticateSandboxRequest{})
	must(t, err)
	must(t, conn.Close())
	cancel(nil)
	must(t, receive(t, "ServeGRPC", result))
	want := fmt.Sprintf("uid %d pid %d", os.Geteuid(), os.Getpid())
	if lines := log.lines(t, "gRPC call"); len(lines) != 1 || lines[0]["peer"] != want {
		t.Errorf("the peer is not %q: %v", want, lines)
	}
}

func TestLevelOf(t *testing.T) {
	want := map[codes.Code]zerolog.Level{
		codes.OK:      zerolog.DebugLevel,
		codes.Unknown: zerolog.ErrorLevel, codes.Internal: zerolog.ErrorLevel, codes.DataLoss: zerolog.ErrorLevel,
		codes.Unavailable: zerolog.WarnLevel, codes.DeadlineExceeded: zerolog.WarnLevel, codes.ResourceExhausted: zerolog.WarnLevel,
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		level, special := want[code]
		if !special {
			level = zerolog.InfoLevel
		}
		if got := levelOf("/a.B/C", code); got != level {
			t.Errorf("%s is logged as %s, want %s", code, got, level)
		}
		if got := levelOf("/grpc.health.v1.Health/Check", code); got != zerolog.DebugLevel {
			t.Errorf("a health probe with %s is logged as %s", code, got)
		}
	}
}
