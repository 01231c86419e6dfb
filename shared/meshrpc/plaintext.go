package meshrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/credentials"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// resolve finds the addresses of a host name or IP literal.
type resolve func(ctx context.Context, host string) ([]netip.Addr, error)

func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// loopbackOnly resolves a host:port and returns its addresses only if every one is a
// loopback address: which one is used must not be left to chance.
func (r resolve) loopbackOnly(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return nil, refuse(CauseNotLoopback, "%q means every address of the machine, and allow_plaintext_loopback permits loopback addresses only: write 127.0.0.1 or [::1]", address)
	}
	found, err := r(ctx, host)
	if err != nil {
		return nil, err
	}
	var usable []string
	for _, ip := range found {
		if !ip.IsLoopback() {
			return nil, refuse(CauseNotLoopback, "%q is at %s, and allow_plaintext_loopback permits loopback addresses only: use certificates, or 127.0.0.1", address, ip)
		}
		usable = append(usable, net.JoinHostPort(ip.String(), port))
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("%q has no address", host)
	}
	return usable, nil
}

// Listen binds the TCP address of a mesh server, host:port. Without certificates the
// address must be a loopback address. The listener belongs to whatever serves it.
func (m *Mesh) Listen(ctx context.Context, address string) (net.Listener, error) {
	target := address
	if m.certs == nil {
		usable, err := m.resolve.loopbackOnly(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("listen for the mesh on %q: %w", address, err)
		}
		target = usable[0]
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", target)
	if err != nil {
		return nil, fmt.Errorf("listen for the mesh on %q: %w: choose a free address of this host", address, err)
	}
	return listener, nil
}

// dialLoopback connects to an address that is loopback at this very moment.
func (m *Mesh) dialLoopback(ctx context.Context, address string) (net.Conn, error) {
	usable, err := m.resolve.loopbackOnly(ctx, address)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	var errs []error
	for _, target := range usable {
		conn, err := dialer.DialContext(ctx, "tcp", target)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, joinLine(errs)
}

// loopbackPlaintext is the absence of TLS. It still looks at both ends of every
// connection, so that a server on a wrong listener serves nobody.
type loopbackPlaintext struct {
	log     zerolog.Logger
	metrics *metrics
}

// ServerHandshake accepts a connection that stays on this machine, as
// PlaintextCaller.
func (p *loopbackPlaintext) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return p.handshake(endServer, raw)
}

// ClientHandshake makes a connection that stays on this machine.
func (p *loopbackPlaintext) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return p.handshake(endClient, raw)
}

func (p *loopbackPlaintext) handshake(end string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if !isLoopback(raw.LocalAddr()) || !isLoopback(raw.RemoteAddr()) {
		no := refuse(CauseNotLoopback, "a plaintext connection between %s and %s does not stay on this machine", raw.LocalAddr(), raw.RemoteAddr())
		p.metrics.refuse(end, no.cause)
		p.log.Warn().Stringer(telemetry.KeyPeer, raw.RemoteAddr()).Str(telemetry.KeyCause, string(no.cause)).
			Str(telemetry.KeyError, no.Error()).Msg("mesh connection refused by the " + end + " end")
		_ = raw.Close()
		return nil, nil, no
	}
	return raw, authInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity},
		caller:         Caller{name: PlaintextCaller},
	}, nil
}

// isLoopback is false for anything but a TCP address on loopback.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.AddrPort().Addr().IsLoopback()
}

// Info describes the protocol.
func (p *loopbackPlaintext) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "loopback-plaintext"}
}

// Clone returns the same: there is no state.
func (p *loopbackPlaintext) Clone() credentials.TransportCredentials { return p }

// OverrideServerName is refused: there is no server name.
func (p *loopbackPlaintext) OverrideServerName(string) error {
	return errors.New("a plaintext connection has no server name")
}
