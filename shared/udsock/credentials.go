//go:build linux

package udsock

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// AuthInfo carries the checked peer of a connection to gRPC handlers; see
// [PeerFromContext].
type AuthInfo struct {
	credentials.CommonAuthInfo
	// Peer is the other end, already admitted.
	Peer Peer
}

// String is that of the peer: log lines name the caller by it, since the caller's end of
// a Unix socket has no address.
func (i AuthInfo) String() string { return i.Peer.String() }

// AuthType is "unix-peer".
func (AuthInfo) AuthType() string { return "unix-peer" }

// PeerFromContext returns the process that made the current gRPC call, and false
// when the call did not come through a [Listener] with [Credentials].
func PeerFromContext(ctx context.Context) (Peer, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Peer{}, false
	}
	info, ok := p.AuthInfo.(AuthInfo)
	return info.Peer, ok && info.Peer.known
}

// Credentials are gRPC transport credentials for both ends of the socket. They
// change no byte on the wire: the kernel already keeps the stream between two known
// processes, so the level is privacy and integrity. They accept only a [*Conn],
// whose peer [Listener.Accept] or [Dial] has checked, and refuse any other
// connection, so a server cannot be put on an unchecked listener by mistake.
func Credentials() credentials.TransportCredentials { return peerCredentials{} }

type peerCredentials struct{}

func (peerCredentials) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return handshake(raw)
}

func (peerCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return handshake(raw)
}

func handshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*Conn)
	if !ok || !conn.peer.known {
		_ = raw.Close()
		return nil, nil, fmt.Errorf("a connection of type %T has no checked peer: it did not come from udsock", raw)
	}
	return conn, AuthInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		Peer:           conn.peer,
	}, nil
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix-peer"}
}

func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

func (peerCredentials) OverrideServerName(string) error {
	return errors.New("a socket has no server name to override")
}
