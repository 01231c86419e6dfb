package daemon

import (
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// LogUnary writes one line per call: method, code, duration, peer and, when there
// are any, the trace id and the text of the error. The request is added only when
// log writes debug lines, with its secrets redacted.
//
// Lines are info for what callers cause, warn for what did not answer, error for
// what we did wrong, debug for health probes.
func LogUnary(log zerolog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		began := time.Now()
		response, err := next(ctx, request)
		logCall(ctx, log, info.FullMethod, began, request, err)
		return response, err
	}
}

// LogStream writes one line when a stream ends, as LogUnary does; the request is the
// first message received.
func LogStream(log zerolog.Logger) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		began := time.Now()
		seen := &firstMessage{ServerStream: stream}
		err := next(server, seen)
		logCall(stream.Context(), log, info.FullMethod, began, seen.message, err)
		return err
	}
}

// firstMessage keeps the first message that was received. RecvMsg is called by one
// goroutine at a time.
type firstMessage struct {
	grpc.ServerStream
	message any
}

// RecvMsg receives as the stream does.
func (f *firstMessage) RecvMsg(m any) error {
	err := f.ServerStream.RecvMsg(m)
	if err == nil && f.message == nil {
		f.message = m
	}
	return err
}

func logCall(ctx context.Context, log zerolog.Logger, method string, began time.Time, request any, err error) {
	ended := statusOf(err)
	line := log.WithLevel(levelOf(method, ended.Code()))
	if line == nil {
		return
	}
	line.Str(telemetry.KeyGRPCMethod, method).Str(telemetry.KeyGRPCCode, ended.Code().String()).
		Float64(telemetry.KeyDurationMS, telemetry.DurationMS(time.Since(began)))
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		line.Str(telemetry.KeyPeer, p.Addr.String())
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		line.Str(telemetry.KeyTraceID, span.TraceID().String())
	}
	if m, ok := request.(proto.Message); ok && log.GetLevel() <= zerolog.DebugLevel {
		line.Object(telemetry.KeyRequest, secret.Redacted(m))
	}
	if err != nil {
		line.Str(telemetry.KeyError, oneLine(ended.Message()))
	}
	line.Msg("gRPC call")
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
	case codes.Unknown, codes.Internal, codes.DataLoss:
		return zerolog.ErrorLevel
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return zerolog.WarnLevel
	default:
		return zerolog.InfoLevel
	}
}
