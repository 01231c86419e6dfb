package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// callLog writes one line per call: method, code, duration, peer and, when there are
// any, the trace id and the text of the error. The first message of the caller is added
// only when log writes debug lines, with its secrets redacted.
//
// It listens to gRPC's own events, because interceptors see neither a unary call whose
// message is too large or cannot be decoded, nor a method that does not exist. With
// serveUnknown, calls of the latter have a line each. What gRPC turns away below calls
// has none: other HTTP requests, streams over the limit, headers that are too large or
// malformed, deadlines that have passed on arrival.
//
// Lines are info for what callers cause, warn for what did not answer, error for
// what we did wrong, debug for health probes and for calls that went well. A handler
// that writes a line about its calls says so with Accounted or AccountedAs; what callers
// cause is then debug too, and with the latter everything that ends as was told.
type callLog struct{ log zerolog.Logger }

var _ stats.Handler = callLog{}

// callKey is the key of a *call in the contexts of its events.
type callKey struct{}

// call is what is known of a call before it ends.
type call struct {
	method string

	mu        sync.Mutex // a handler may receive in a goroutine that it does not wait for
	request   any        // nil unless log writes debug lines
	accounted bool
	told      *codes.Code // what the handler's line says that the call ends with
}

// Accounted says, with the context of a call, that its handler writes a line about it
// at info level or above, so that one of gRPC's would be noise. Without ServerOptions it
// does nothing.
func Accounted(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accounted = true
	}
}

// AccountedAs says, with the context of a call, that its handler has written a line about
// it at info level or above, with the code that it is going to end with. When it does,
// one of gRPC's would be noise, whatever the code. When it ends with another one after
// all, as after a panic or with an answer that is too large, the line is as after
// Accounted. Without ServerOptions it does nothing.
func AccountedAs(ctx context.Context, code codes.Code) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accounted, c.told = true, &code
	}
}

// levelOf is the level of the call's line when it ends with code.
func (c *call) levelOf(code codes.Code) zerolog.Level {
	c.mu.Lock()
	defer c.mu.Unlock()
	level := levelOf(c.method, code)
	if c.told != nil && *c.told == code || c.accounted && level == zerolog.InfoLevel {
		return zerolog.DebugLevel
	}
	return level
}

// TagRPC begins a call.
func (callLog) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, callKey{}, &call{method: info.FullMethodName})
}

// HandleRPC writes the line at the end of the call, after the answer was sent.
func (l callLog) HandleRPC(ctx context.Context, event stats.RPCStats) {
	c, begun := ctx.Value(callKey{}).(*call)
	switch event := event.(type) {
	case *stats.InPayload:
		if begun && l.log.GetLevel() <= zerolog.DebugLevel {
			c.keep(event.Payload)
		}
	case *stats.End:
		if begun {
			l.write(ctx, c, event.EndTime.Sub(event.BeginTime), event.Error)
		}
	case *stats.OutTrailer:
		// gRPC answers a malformed path itself, and the answer is the only event of it.
		if !begun {
			l.write(ctx, &call{method: malformedMethod}, 0, errMalformed)
		}
	}
}

// TagConn does nothing: connections have no line.
func (callLog) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (callLog) HandleConn(context.Context, stats.ConnStats) {}

// malformedMethod stands for a method whose name gRPC does not report.
const malformedMethod = "(malformed)"

var errMalformed = status.Error(codes.Unimplemented, "the method is not of the form /service/method")

// serveUnknown answers calls of methods that nobody registered. gRPC would do so by
// itself, but without events for callLog.
func serveUnknown(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	return status.Errorf(codes.Unimplemented, "method %s does not exist", method)
}

func (c *call) keep(message any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.request == nil {
		c.request = message
	}
}

func (c *call) firstMessage() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.request
}

func (l callLog) write(ctx context.Context, c *call, took time.Duration, err error) {
	ended := statusOf(err)
	line := l.log.WithLevel(c.levelOf(ended.Code()))
	if line == nil {
		return
	}
	line.Str(telemetry.KeyGRPCMethod, oneLine(c.method)).Str(telemetry.KeyGRPCCode, ended.Code().String()).
		Float64(telemetry.KeyDurationMS, telemetry.DurationMS(took))
	if from := peerOf(ctx); from != "" {
		line.Str(telemetry.KeyPeer, from)
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		line.Str(telemetry.KeyTraceID, span.TraceID().String())
	}
	if m, ok := c.firstMessage().(proto.Message); ok {
		line.Object(telemetry.KeyRequest, secret.Redacted(m))
	}
	if err != nil {
		line.Str(telemetry.KeyError, oneLine(ended.Message()))
	}
	line.Msg("gRPC call")
}

// peerOf says who called: in the words of the transport's authentication if it has
// any, since a Unix socket has no address, else by address.
func peerOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if who, ok := p.AuthInfo.(fmt.Stringer); ok {
		return oneLine(who.String())
	}
	if p.Addr == nil {
		return ""
	}
	return p.Addr.String()
}

// statusOf returns the status that the caller of a handler gets for err, as gRPC
// derives it.
func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.FromContextError(err)
}

// levelOf says who has to look at a call that ended with code.
func levelOf(method string, code codes.Code) zerolog.Level {
	if strings.HasPrefix(method, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/") {
		return zerolog.DebugLevel
	}
	switch code {
	case codes.OK:
		return zerolog.DebugLevel
	case codes.Unknown, codes.Internal, codes.DataLoss:
		return zerolog.ErrorLevel
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return zerolog.WarnLevel
	default:
		return zerolog.InfoLevel
	}
}
