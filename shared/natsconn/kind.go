package natsconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/nats-io/nats.go"
)

// kind classes errors for the metric, the log limit and tests. The set is closed.
type kind string

const (
	kindFiles      kind = "files"         // a certificate, credentials or seed file could not be used
	kindDial       kind = "dial"          // no TCP connection
	kindTLS        kind = "tls"           // no TLS connection, or a certificate was refused
	kindAuth       kind = "auth"          // the server refused the identity, or ended it
	kindTimeout    kind = "timeout"       // the server did not answer the handshake in time
	kindStale      kind = "stale"         // the server stopped answering pings
	kindLost       kind = "lost"          // the connection ended
	kindPermission kind = "permission"    // a subject is not permitted; callers see only a timeout (NATS reference 3.4)
	kindSlow       kind = "slow_consumer" // messages were dropped because a consumer did not keep up
	kindDrain      kind = "drain"         // the drain at stop was cut short
	kindOther      kind = "other"
)

// kinds is every kind, so that each series of the error counter exists from the start.
var kinds = []kind{
	kindFiles, kindDial, kindTLS, kindAuth, kindTimeout, kindStale, kindLost, kindPermission, kindSlow, kindDrain, kindOther,
}

// errFiles marks an error that came from the identity or TLS files.
var errFiles = errors.New("identity or TLS files")

// classify tells the kinds apart. Authorization comes before connection loss because the server closes the
// connection after refusing it.
func classify(err error) kind {
	var (
		dial    *net.OpError
		alert   tls.AlertError
		record  tls.RecordHeaderError
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, errFiles):
		return kindFiles
	case authRefused(err):
		return kindAuth
	case errors.Is(err, nats.ErrPermissionViolation):
		return kindPermission
	case errors.Is(err, nats.ErrSlowConsumer):
		return kindSlow
	case errors.Is(err, nats.ErrDrainTimeout):
		return kindDrain
	case errors.Is(err, nats.ErrStaleConnection):
		return kindStale
	case errors.As(err, &alert), errors.As(err, &record), errors.As(err, &verify), errors.As(err, &unknown),
		errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrTLS), strings.Contains(err.Error(), "tls:"):
		return kindTLS
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, nats.ErrNoServers):
		return kindDial
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), timedOut(err):
		return kindTimeout
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.As(err, &dial), errors.Is(err, nats.ErrConnectionClosed):
		return kindLost
	default:
		return kindOther
	}
}

func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

func authRefused(err error) bool {
	for _, refusal := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrNkeysNotSupported,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
