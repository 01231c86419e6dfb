package daemon

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// errInternal is all that a caller learns of a panic.
var errInternal = status.Error(codes.Internal, "internal error")

// RecoverUnary turns a panic of the handler into INTERNAL without details. Value and
// stack go to the log.
func RecoverUnary(log zerolog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (response any, err error) {
		defer func() {
			if value := recover(); value != nil {
				logPanic(log, info.FullMethod, value)
				response, err = nil, errInternal
			}
		}()
		return next(ctx, request)
	}
}

// RecoverStream does for streams what RecoverUnary does for calls.
func RecoverStream(log zerolog.Logger) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if value := recover(); value != nil {
				logPanic(log, info.FullMethod, value)
				err = errInternal
			}
		}()
		return next(server, stream)
	}
}

func logPanic(log zerolog.Logger, method string, value any) {
	log.Error().Str(telemetry.KeyGRPCMethod, method).Str(telemetry.KeyPanic, panicText(value)).
		Bytes(telemetry.KeyStack, debug.Stack()).Msg("gRPC handler panicked")
}

// errDraining is the cause of contexts that DrainStream ends. UNAVAILABLE makes
// clients come back, to another process or to the next one.
var errDraining = status.Error(codes.Unavailable, "the server is stopping")

// DrainStream ends the context of every stream when draining is closed, and answers
// UNAVAILABLE if the handler then ends because of it. Without it a watch that never
// ends by itself would use up the whole drain time of ServeGRPC. It cannot interrupt
// a handler that waits for messages of its caller; no stream of ours does.
//
// finishing, if not nil, names the methods that end by themselves and are left to: a relay sees
// every call as a stream.
func DrainStream(draining <-chan struct{}, finishing func(fullMethod string) bool) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if finishing != nil && finishing(info.FullMethod) {
			return next(server, stream)
		}
		ctx, cancel := context.WithCancelCause(stream.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			select {
			case <-draining:
				cancel(errDraining)
			case <-ctx.Done():
			}
		}()
		defer func() {
			cancel(nil)
			<-watched
		}()
		err := next(server, &drainable{ServerStream: stream, ctx: ctx})
		if errors.Is(context.Cause(ctx), errDraining) && statusOf(err).Code() == codes.Canceled {
			return errDraining
		}
		return err
	}
}

// drainable is a stream with a context of ours.
type drainable struct {
	grpc.ServerStream
	ctx context.Context
}

// Context ends with the stream, and when the daemon begins to stop.
func (d *drainable) Context() context.Context { return d.ctx }
