//go:build linux

package udsock

import (
	"context"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
)

// Authority is what the gateway sends as HTTP authority over the socket
// (contract 2.1). It names nothing.
const Authority = "[::]:50051"

// DialOptions are the client's settings. The zero value accepts only a server that
// runs as the effective uid of this process.
type DialOptions struct {
	// ServerUIDs, if not empty, replaces the effective uid as the set of users whose
	// server is accepted.
	ServerUIDs []uint32
}

// Dial connects to the socket at path and returns the connection only if the
// process that listens there runs as an accepted user: who serves this socket can
// assert any sandbox identity (contract 2.2).
func Dial(ctx context.Context, path string, opts DialOptions) (*Conn, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	accepted := newUIDSet(opts.ServerUIDs...)
	if len(opts.ServerUIDs) == 0 {
		accepted = newUIDSet(uint32(os.Geteuid()))
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	conn := raw.(*net.UnixConn)
	peer, err := peerOf(conn)
	if err == nil && !accepted.has(peer) {
		err = fmt.Errorf("the server on %q runs as %s, which is not an accepted user", path, peer)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Conn{UnixConn: conn, peer: peer}, nil
}

// NewClient returns a gRPC client for the socket at path, with the gateway's dummy
// authority. Like grpc.NewClient it connects at the first call. extra is applied
// last; it must not replace the transport credentials or the dialer.
func NewClient(path string, opts DialOptions, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(Credentials()),
		grpc.WithAuthority(Authority),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return Dial(ctx, path, opts) }),
	}, extra...)
	conn, err := grpc.NewClient("passthrough:///"+Authority, options...)
	if err != nil {
		return nil, fmt.Errorf("make gRPC client for socket %q: %w", path, err)
	}
	return conn, nil
}
