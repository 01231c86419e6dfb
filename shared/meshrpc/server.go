package meshrpc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// maxHeaderBytes bounds the metadata of a call. gRPC's own default is 16 MiB.
const maxHeaderBytes = 64 << 10

// NewServer returns a gRPC server that serves members of the mesh as policy says. It
// serves nothing yet. register adds the services; they and the policy must match:
// a method without an entry and an entry without a method are errors, also for health
// and reflection. It refuses malformed requests, see RefuseMalformed. Serve it on a listener of Listen.
//
// extra comes first in the order of options: interceptors there run outside the
// authorization, for logging and panic recovery. What this package sets, extra cannot
// override.
//
// Every unary call ends at the latest after MaxCallDuration, and a stream that long
// after MaxConnectionAge; see EndlessStreams. A refused caller gets the
// verdict in the details of the error, see package verdict.
func (m *Mesh) NewServer(policy Policy, register func(Registrar), extra ...grpc.ServerOption) (*grpc.Server, error) {
	server, err := m.newServer(policy, register, extra)
	if err != nil {
		return nil, fmt.Errorf("make the mesh server of %s: %w", m.deps.Daemon, err)
	}
	return server, nil
}

func (m *Mesh) newServer(policy Policy, register func(Registrar), extra []grpc.ServerOption) (*grpc.Server, error) {
	if err := policy.validate(); err != nil {
		return nil, err
	}
	policy = policy.clone()
	endless := slices.ContainsFunc(extra, isEndless)
	creds, err := m.serverCredentials(endless)
	if err != nil {
		return nil, err
	}
	gate := &gate{policy: policy, limit: m.cfg.MaxCallDuration.Std(), log: m.log, metrics: m.metrics}
	age := m.cfg.MaxConnectionAge.Std()
	if endless {
		age = 0 // to grpc: none
	}
	counting := &serverStats{metrics: m.metrics, methods: map[string]bool{}, callers: policy.names()}
	options := append(append([]grpc.ServerOption{}, extra...),
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(m.cfg.MaxMessageBytes),
		grpc.MaxConcurrentStreams(uint32(m.cfg.MaxConcurrentStreams)),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(m.cfg.HandshakeTimeout.Std()),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: m.cfg.KeepaliveTime.Std(), Timeout: m.cfg.KeepaliveTimeout.Std(),
			MaxConnectionAge: age, MaxConnectionAgeGrace: m.cfg.MaxCallDuration.Std(),
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: m.cfg.KeepaliveTime.Std() / 2, PermitWithoutStream: true,
		}),
		KeepMalformed(),
		Tracing(m.deps.TracerProvider),
		grpc.StatsHandler(counting),
		grpc.ChainUnaryInterceptor(gate.unary),
		grpc.ChainStreamInterceptor(gate.stream),
		// A method that nobody registered passes the gate too, so that an unauthorised
		// caller cannot tell it from one that exists.
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			return status.Errorf(codes.Unimplemented, "method %s does not exist", method)
		}),
	)
	server := grpc.NewServer(options...)
	register(RefuseMalformed(server, verdict.Decision.Err))
	offered := server.GetServiceInfo()
	if err := policy.matches(offered); err != nil {
		return nil, err
	}
	for service, info := range offered {
		for _, method := range info.Methods {
			counting.methods["/"+service+"/"+method.Name] = true
		}
	}
	return server, nil
}

func (m *Mesh) serverCredentials(expiring bool) (credentials.TransportCredentials, error) {
	if m.certs == nil {
		return &loopbackPlaintext{log: m.log, metrics: m.metrics}, nil
	}
	return m.serverTLS(expiring)
}

// EndlessStreams lets a server's streams run for as long as both ends want: its connections
// have no MaxConnectionAge, so that a client's streams and its other calls stay together on
// one. Unary calls end after MaxCallDuration as ever.
//
// Certificates are replaced all the same: a connection ends, with whatever is under way on
// it, when the certificate that the caller has shown expires, or one of those by which it
// was trusted; the next one shows the replaced ones. A certificate, or an authority, that is to
// go out of use before its end does so when either process is started anew.
//
// It is an option of NewServer, and means nothing elsewhere. Use it where a stream that
// is cut off loses something.
func EndlessStreams() grpc.ServerOption { return endlessStreams{} }

type endlessStreams struct{ grpc.EmptyServerOption }

func isEndless(o grpc.ServerOption) bool {
	_, ok := o.(endlessStreams)
	return ok
}

// Tracing gives each call a span in its caller's trace, so that what the handler calls is
// in that trace too. Mesh servers have it; it is for servers beside them. A provider that
// records nothing passes the caller's context on as it is.
func Tracing(provider trace.TracerProvider) grpc.ServerOption {
	return grpc.StatsHandler(tracing(provider, otelgrpc.NewServerHandler))
}

// tracing leaves OpenTelemetry's globals alone and carries no baggage, which any
// caller could fill.
func tracing(provider trace.TracerProvider, handler func(...otelgrpc.Option) stats.Handler) stats.Handler {
	return handler(
		otelgrpc.WithTracerProvider(provider),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
	)
}

// gate stands before every handler.
type gate struct {
	policy  Policy
	limit   time.Duration
	log     zerolog.Logger
	metrics *metrics
}

func (g *gate) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	// A nearer deadline of the caller stays.
	ctx, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	return next(ctx, request)
}

func (g *gate) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.admit(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(server, stream)
}

// admit returns nil only when the policy permits the authenticated caller.
func (g *gate) admit(ctx context.Context, method string) error {
	info := authInfoFrom(ctx)
	no := info.no
	if no == nil {
		no = g.policy.decide(info.caller, method)
	}
	if no == nil {
		return nil
	}
	g.metrics.refuse(endServer, no.cause)
	line := g.log.Warn().Str(telemetry.KeyGRPCMethod, method).Stringer(keyCaller, info.caller).
		Str(telemetry.KeyCause, string(no.cause)).Str(telemetry.KeyError, no.Error())
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		line.Str(telemetry.KeyPeer, p.Addr.String())
	}
	line.Msg("mesh call refused")
	return no.err()
}
