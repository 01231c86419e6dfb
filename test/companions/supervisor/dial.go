package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// strict are the credentials of the boundary: the name is the session's, whatever the authority is,
// and a certificate that was refused is remembered, which gRPC would report as mere unavailability.
type strict struct {
	credentials.TransportCredentials
	serverName string
	refusal    *refusal
}

type refusal struct {
	mu  sync.Mutex
	err error
}

func (r *refusal) get() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *refusal) note(err error) {
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = refused
	}
}

func newStrict(t bootstrap.TransportTLS) strict {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(t.TrustAnchorPEM)) // checked when the descriptor was read
	return strict{
		TransportCredentials: credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}),
		serverName:           t.ServerName, refusal: &refusal{},
	}
}

// ClientHandshake verifies against the session's name.
func (s strict) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := s.TransportCredentials.ClientHandshake(ctx, s.serverName, raw)
	s.refusal.note(err)
	return conn, info, err
}

// Clone keeps what was remembered.
func (s strict) Clone() credentials.TransportCredentials {
	s.TransportCredentials = s.TransportCredentials.Clone()
	return s
}

// bearerToken presents a token on every call, over TLS only.
type bearerToken struct{ token secret.Value }

// GetRequestMetadata is where the token must be exposed: in the header.
func (b bearerToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	exposed := b.token.Expose()
	defer clear(exposed)
	return map[string]string{"authorization": "Bearer " + string(exposed)}, nil
}

// RequireTransportSecurity refuses plain connections.
func (bearerToken) RequireTransportSecurity() bool { return true }

// dialRuntime makes a connection to the first pinned address that answers. It connects when it is used.
func dialRuntime(d bootstrap.Descriptor, token secret.Value) (*grpc.ClientConn, *refusal, error) {
	creds := newStrict(d.TLS)
	cc, err := grpc.NewClient("passthrough:///"+d.Transport.Authority,
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(bearerToken{token}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dialPinned(ctx, d.Transport.Addresses) }),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(boundary.Codec{})),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
	)
	return cc, creds.refusal, err
}

// dialPinned tries the addresses in order.
func dialPinned(ctx context.Context, addresses []string) (net.Conn, error) {
	var (
		dialer   net.Dialer
		problems []error
	)
	for _, address := range addresses {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
	}
	return nil, errors.Join(problems...)
}
