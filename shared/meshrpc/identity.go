package meshrpc

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc/peer"
)

// TrustDomain is the only trust domain whose identities the mesh accepts.
const TrustDomain = "portcullis"

// PlaintextCaller is the name under which a [Policy] permits callers without a
// certificate, which exist only with allow_plaintext_loopback. No certificate can
// name it: "@" is not allowed in an identity.
const PlaintextCaller = "plaintext@loopback"

// Caller is the authenticated other end of a connection. The zero value is nobody.
type Caller struct{ name string }

// Daemon is the daemon that the caller's certificate names, such as "lifecycle";
// false for nobody and for a plaintext caller.
func (c Caller) Daemon() (string, bool) {
	return c.name, c.name != "" && c.name != PlaintextCaller
}

// String is the daemon's name, PlaintextCaller or "nobody".
func (c Caller) String() string {
	if c.name == "" {
		return "nobody"
	}
	return c.name
}

// CallerFromContext says who makes the current call. It is nobody outside a server
// of this package. That a caller is known does not mean that it may call; the
// server's policy has decided that before the handler runs.
func CallerFromContext(ctx context.Context) Caller {
	return authInfoFrom(ctx).caller
}

// authInfoFrom is the zero authInfo, whose caller is nobody, for a context that does
// not come from a connection of the mesh.
func authInfoFrom(ctx context.Context) authInfo {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return authInfo{}
	}
	info, _ := p.AuthInfo.(authInfo)
	return info
}

// identify reads the daemon's name from a certificate that a trusted authority has
// issued. Exactly one URI name is allowed, because a certificate with two would be
// two callers at once. Other kinds of names are ignored.
func identify(leaf *x509.Certificate) (Caller, *refusal) {
	if leaf.IsCA {
		// An authority's key must not double as a daemon's: it could name any daemon.
		return Caller{}, refuse(CauseAuthority, "the certificate is one of an authority, not of a daemon")
	}
	switch len(leaf.URIs) {
	case 0:
		return Caller{}, refuse(CauseIdentityMissing, "the certificate has no URI name; it needs spiffe://%s/<daemon>", TrustDomain)
	case 1:
		return parseIdentity(leaf.URIs[0].String())
	default:
		return Caller{}, refuse(CauseIdentityAmbiguous, "the certificate has %d URI names; it may have one only", len(leaf.URIs))
	}
}

// parseIdentity reads spiffe://portcullis/<daemon>, nothing more and nothing less.
func parseIdentity(uri string) (Caller, *refusal) {
	id, err := spiffeid.FromString(uri)
	if err != nil {
		return Caller{}, refuse(CauseIdentityMalformed, "the certificate's URI name %q is no SPIFFE id: %v", uri, err)
	}
	if got := id.TrustDomain().Name(); got != TrustDomain {
		return Caller{}, refuse(CauseTrustDomain, "the certificate is of trust domain %q, not %q", got, TrustDomain)
	}
	daemon := strings.TrimPrefix(id.Path(), "/")
	if err := checkDaemonName(daemon); err != nil {
		return Caller{}, refuse(CauseIdentityMalformed, "the certificate's URI name %q names no daemon: %v", uri, err)
	}
	return Caller{name: daemon}, nil
}

// checkDaemonName accepts one non-empty path segment of a SPIFFE id.
func checkDaemonName(name string) error {
	if name == "" {
		return errors.New("the daemon's name is empty")
	}
	if err := spiffeid.ValidatePathSegment(name); err != nil {
		return fmt.Errorf("%q is no name for a daemon: %w", name, err)
	}
	return nil
}
