package meshrpc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Target says which daemon a client calls, and how.
type Target struct {
	// Daemon is the name that the server's certificate must carry.
	Daemon string
	// Address is host:port. The addresses of a host name are replicas of one server, and so
	// are several host:port with commas between, of which each is one replica.
	Address string
	// Sticky, where it is not nil, keeps all calls with one replica for as long as it can be
	// reached. Without it calls take turns over all replicas.
	Sticky *Sticky
	// Idempotent lists the full methods, "/package.Service/Method", that may be sent
	// again when it is not known whether the first attempt took effect. All others are
	// sent once.
	Idempotent []string
}

// NewClient returns a client for one daemon. Like grpc.NewClient it connects at the
// first call.
//
// A unary call without a deadline gets CallTimeout. An idempotent one that ends with
// UNAVAILABLE and carries no verdict is repeated with exponential backoff and full
// jitter, at most MaxAttempts times in all and never beyond the call's deadline. Errors
// come through with their details. Calls do not wait for a server that cannot be
// reached. Proxy variables of the environment and service configuration from DNS are
// ignored.
//
// extra comes first in the order of options; what this package sets, it cannot
// override.
func (m *Mesh) NewClient(to Target, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := m.newClient(to, extra)
	if err != nil {
		return nil, fmt.Errorf("make the mesh client for %s at %q: %w", to.Daemon, to.Address, err)
	}
	return conn, nil
}

func (m *Mesh) newClient(to Target, extra []grpc.DialOption) (*grpc.ClientConn, error) {
	if err := to.validate(); err != nil {
		return nil, err
	}
	creds, err := m.clientCredentials(to)
	if err != nil {
		return nil, err
	}
	again := newRetry(to, m.cfg.MaxAttempts, m.deps.Now, m.metrics)
	options := append(append([]grpc.DialOption{}, extra...),
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent("portcullis-"+m.deps.Daemon),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(to.balancing()),
		grpc.WithResolvers(to.resolver(m.certs == nil)),
		grpc.WithDisableRetry(),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(m.cfg.MaxMessageBytes), grpc.MaxCallSendMsgSize(m.cfg.MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: m.cfg.KeepaliveTime.Std(), Timeout: m.cfg.KeepaliveTimeout.Std(), PermitWithoutStream: true,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A restarted neighbour is found again within seconds.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: m.cfg.HandshakeTimeout.Std(),
		}),
		grpc.WithStatsHandler(tracing(m.deps.TracerProvider, otelgrpc.NewClientHandler)),
		grpc.WithChainUnaryInterceptor(m.outermost(to.Daemon), again.unary),
		grpc.WithChainStreamInterceptor(failFast),
	)
	if m.certs == nil {
		options = append(options, grpc.WithContextDialer(m.dialLoopback))
	}
	return grpc.NewClient(to.target(m.certs == nil), options...)
}

func (m *Mesh) clientCredentials(to Target) (credentials.TransportCredentials, error) {
	if m.certs == nil {
		return to.following(&loopbackPlaintext{log: m.log, metrics: m.metrics}), nil
	}
	creds, err := m.clientTLS(to.Daemon, to.Sticky != nil)
	return to.following(creds), err
}

// following are the credentials, with the connections noted where calls are to stay with one.
func (t Target) following(creds credentials.TransportCredentials) credentials.TransportCredentials {
	if t.Sticky == nil {
		return creds
	}
	return stickyCredentials{TransportCredentials: creds, sticky: t.Sticky}
}

// outermost sets the deadline, and counts a call once however often it is sent.
func (m *Mesh) outermost(server string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, m.cfg.CallTimeout.Std())
			defer cancel()
		}
		err := next(ctx, method, request, reply, cc, append(opts, grpc.WaitForReady(false))...)
		m.metrics.called.WithLabelValues(method, status.Code(err).String(), server).Inc()
		return err
	}
}

func failFast(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return next(ctx, desc, cc, method, append(opts, grpc.WaitForReady(false))...)
}

func (t Target) validate() error {
	if err := checkDaemonName(t.Daemon); err != nil {
		return err
	}
	if err := CheckAddress(t.Address); err != nil {
		return err
	}
	for _, method := range t.Idempotent {
		if !strings.HasPrefix(method, "/") || !wellFormedKey(method) {
			return fmt.Errorf("idempotent method %q is not /package.Service/Method", method)
		}
	}
	return nil
}
