package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// ServerOptions returns the options that every gRPC server of a daemon has: one log
// line per call, panic recovery, and the end of streams when the stop begins. A panic
// is logged as the INTERNAL that the caller gets. Interceptors of options that follow
// run inside these; an UnknownServiceHandler that follows replaces the one here, and
// its calls have their line too.
//
// The lines hold method, code, duration and peer, with the error's text, the trace id
// and, at debug level, the redacted request where there are any. They are written when
// the answer has been sent, and before ServeGRPC returns.
func ServerOptions(log zerolog.Logger, checks *Checks) []grpc.ServerOption {
	return RelayOptions(log, checks, nil)
}

// RelayOptions are ServerOptions for a server that passes calls on and therefore sees each as a stream: at a stop, calls of the
// finishing methods are left to finish as unary calls are, and the others end.
func RelayOptions(log zerolog.Logger, checks *Checks, finishing func(fullMethod string) bool) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StatsHandler(callLog{log: log}),
		grpc.UnknownServiceHandler(serveUnknown),
		grpc.ChainUnaryInterceptor(RecoverUnary(log)),
		grpc.ChainStreamInterceptor(RecoverStream(log), DrainStream(checks.Draining(), finishing)),
	}
}

// ServeGRPC serves server on listener until ctx ends. Then it takes no new calls and
// lets those in progress finish for at most drain, cuts the rest off by ending their
// contexts, and waits for all handlers. drain must be positive and well below the
// shutdown grace of the group.
//
// It returns nil after a stop by ctx, also when calls had to be cut off: the contract
// and the mesh repeat calls, so that is a log line and no failure. An error means
// that serving ended by itself. The listener is closed in any case.
func ServeGRPC(ctx context.Context, server *grpc.Server, listener net.Listener, drain time.Duration, log zerolog.Logger) error {
	address := listener.Addr().String()
	if drain <= 0 {
		return errors.Join(fmt.Errorf("serve gRPC on %s: drain time %s is not positive", address, drain), listener.Close())
	}
	log.Debug().Str(telemetry.KeyAddress, address).Msg("gRPC listener serves")
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	select {
	case err := <-served:
		server.Stop()
		if err == nil {
			err = errors.New("somebody else stopped the server")
		}
		return fmt.Errorf("serve gRPC on %s: %w", address, err)
	case <-ctx.Done():
	}

	drained := make(chan struct{})
	go func() {
		defer close(drained)
		server.GracefulStop() // returns when all handlers have
	}()
	limit := time.NewTimer(drain)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
		log.Warn().Str(telemetry.KeyAddress, address).Float64(telemetry.KeyDurationMS, telemetry.DurationMS(drain)).
			Msg("gRPC calls in progress did not finish in time; cutting them off")
		server.Stop()
		<-drained
	}
	<-served //nolint:errcheck // nil after a stop
	return nil
}
