package meshrpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/security/advancedtls"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// authInfo is what a handshake found out. A caller whose certificate is trusted but
// names no daemon is let in as nobody with the refusal, so that its calls are answered
// with the cause instead of a bare TLS alert.
type authInfo struct {
	credentials.CommonAuthInfo
	caller Caller
	no     *refusal
}

// AuthType tells grpc what kind of security the connection has.
func (authInfo) AuthType() string { return "portcullis-mesh" }

// meshTLS wraps grpc's TLS credentials: it reads identities, counts refusals and
// refuses connections whose certificate was not verified in this very handshake.
type meshTLS struct {
	inner   credentials.TransportCredentials
	log     zerolog.Logger
	metrics *metrics
	// expiring ends a connection when the other end's certificate does: for those that have no age.
	expiring bool
}

func (m *Mesh) serverTLS(expiring bool) (credentials.TransportCredentials, error) {
	inner, err := advancedtls.NewServerCreds(&advancedtls.Options{
		IdentityOptions:   advancedtls.IdentityCertificateOptions{IdentityProvider: m.certs},
		RootOptions:       advancedtls.RootCertificateOptions{RootProvider: m.certs},
		RequireClientCert: true,
		VerificationType:  advancedtls.CertVerification,
		MinTLSVersion:     tls.VersionTLS13,
		MaxTLSVersion:     tls.VersionTLS13,
	})
	if err != nil {
		return nil, fmt.Errorf("set up TLS for the server: %w", err)
	}
	return &meshTLS{inner: inner, log: m.log, metrics: m.metrics, expiring: expiring}, nil
}

// clientTLS accepts only the server whose certificate names daemon. DNS names are not
// looked at: an address says where a daemon is, not who it is.
func (m *Mesh) clientTLS(daemon string, expiring bool) (credentials.TransportCredentials, error) {
	inner, err := advancedtls.NewClientCreds(&advancedtls.Options{
		IdentityOptions:  advancedtls.IdentityCertificateOptions{IdentityProvider: m.certs},
		RootOptions:      advancedtls.RootCertificateOptions{RootProvider: m.certs},
		VerificationType: advancedtls.CertVerification,
		AdditionalPeerVerification: func(p *advancedtls.HandshakeVerificationInfo) (*advancedtls.PostHandshakeVerificationResults, error) {
			if no := mustBe(daemon, p.Leaf); no != nil {
				return nil, no
			}
			return &advancedtls.PostHandshakeVerificationResults{}, nil
		},
		MinTLSVersion: tls.VersionTLS13,
		MaxTLSVersion: tls.VersionTLS13,
	})
	if err != nil {
		return nil, fmt.Errorf("set up TLS for calls to %s: %w", daemon, err)
	}
	return &meshTLS{inner: inner, log: m.log, metrics: m.metrics, expiring: expiring}, nil
}

func mustBe(daemon string, leaf *x509.Certificate) *refusal {
	if leaf == nil {
		return refuse(CauseUntrusted, "the server's certificate was not verified")
	}
	server, no := identify(leaf)
	if no != nil {
		return no
	}
	if server.name != daemon {
		return refuse(CausePeerOther, "the server is %s, but %s was called: check the address", server, daemon)
	}
	return nil
}

// ServerHandshake accepts a connection.
func (t *meshTLS) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.inner.ServerHandshake(raw)
	if err != nil {
		t.refused(endServer, raw, err)
		return nil, nil, err
	}
	return t.finish(endServer, conn, info)
}

// ClientHandshake makes a connection.
func (t *meshTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	// The authority becomes the TLS server name, which has no port.
	if host, _, err := net.SplitHostPort(authority); err == nil {
		authority = host
	}
	conn, info, err := t.inner.ClientHandshake(ctx, authority, raw)
	if err != nil {
		if ctx.Err() == nil {
			t.refused(endClient, raw, err)
		}
		return nil, nil, err
	}
	return t.finish(endClient, conn, info)
}

// finish trusts the success of the handshake no further than it can see.
func (t *meshTLS) finish(end string, conn net.Conn, info credentials.AuthInfo) (net.Conn, credentials.AuthInfo, error) {
	secured, ok := info.(credentials.TLSInfo)
	if !ok {
		secured = credentials.TLSInfo{}
	}
	if no := freshlyVerified(secured.State); no != nil {
		_ = conn.Close()
		t.refused(end, conn, no)
		return nil, nil, no
	}
	caller, no := identify(secured.State.PeerCertificates[0])
	if t.expiring {
		conn = endAt(conn, verifiedUntil(secured.State.VerifiedChains))
	}
	return conn, authInfo{CommonAuthInfo: secured.CommonAuthInfo, caller: caller, no: no}, nil
}

// freshlyVerified refuses a resumed session: a certificate that has since expired or
// whose authority was removed would live on in it.
func freshlyVerified(state tls.ConnectionState) *refusal {
	switch {
	case state.DidResume:
		return refuse(CauseResumed, "the TLS session was resumed, which skips the check of the certificate")
	case state.Version != tls.VersionTLS13:
		return refuse(CauseHandshake, "the connection is not TLS 1.3")
	case len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0:
		return refuse(CauseUntrusted, "no certificate was verified")
	}
	return nil
}

func (t *meshTLS) refused(end string, conn net.Conn, err error) {
	cause := causeOf(err)
	t.metrics.refuse(end, cause)
	line := t.log.Warn()
	if cause == CauseAborted {
		line = t.log.Debug()
	}
	line.Stringer(telemetry.KeyPeer, conn.RemoteAddr()).Str(telemetry.KeyCause, string(cause)).
		Str(telemetry.KeyError, err.Error()).Msg("mesh connection refused by the " + end + " end")
}

// causeOf classifies what a TLS handshake ended with.
func causeOf(err error) Cause {
	var no *refusal
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &no):
		return no.cause
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return CauseExpired
	case errors.As(err, &invalid), errors.As(err, &unknown):
		return CauseUntrusted
	// crypto/tls has no type for this one; a test holds the text.
	case strings.Contains(err.Error(), "client didn't provide a certificate"):
		return CauseNoCertificate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
		return CauseAborted
	default:
		return CauseHandshake
	}
}

// Info describes the protocol.
func (t *meshTLS) Info() credentials.ProtocolInfo { return t.inner.Info() }

// Clone shares the inner credentials, which nothing changes. It must not clone them:
// the clone of advancedtls forgets the type of verification and would go back to
// comparing host names.
func (t *meshTLS) Clone() credentials.TransportCredentials {
	return &meshTLS{inner: t.inner, log: t.log, metrics: t.metrics, expiring: t.expiring}
}

// OverrideServerName is refused: servers are known by identity.
func (t *meshTLS) OverrideServerName(string) error {
	return errors.New("a mesh server is known by its identity and not by a name")
}
