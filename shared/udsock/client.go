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

// Dial connects to the socket at path and returns the connection only if the
// process that listens there runs as the effective uid of this one: who serves this
// socket can assert any sandbox identity (contract 2.2).
func Dial(ctx context.Context, path string) (*Conn, error) {
	return dial(ctx, path, uint32(os.Geteuid()))
}

// dial accepts a server that runs as uid.
func dial(ctx context.Context, path string, uid uint32) (*Conn, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	conn := raw.(*net.UnixConn)
	peer, err := peerOf(conn)
	if err == nil && !peer.runsAs(uid) {
		err = fmt.Errorf("the server on %q runs as %s, but only one of uid %d is accepted: start both as the same user", path, peer, uid)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Conn{UnixConn: conn, peer: peer}, nil
}

// NewClient returns a gRPC client for the socket at path, with the gateway's dummy
// authority; it accepts the servers that [Dial] does. Like grpc.NewClient it connects
// at the first call. extra is applied last; it must not replace the transport
// credentials or the dialer.
func NewClient(path string, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	return newClient(path, uint32(os.Geteuid()), extra...)
}

func newClient(path string, uid uint32, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(Credentials()),
		grpc.WithAuthority(Authority),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, path, uid) }),
	}, extra...)
	conn, err := grpc.NewClient("passthrough:///"+Authority, options...)
	if err != nil {
		return nil, fmt.Errorf("make gRPC client for socket %q: %w", path, err)
	}
	return conn, nil
}
