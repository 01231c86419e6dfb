package meshrpc

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Cause is the stable code of the check that refused a connection or a call. It is
// the label "cause" of portcullis_mesh_refused_total, the key "cause" of the log
// line and, with "mesh." in front, the step of the verdict that the caller gets.
type Cause string

// Causes found while a connection is set up. The other end learns only that the
// handshake failed: it has not proven to belong to the mesh.
const (
	// CauseNoCertificate: the client presented no certificate.
	CauseNoCertificate Cause = "no_certificate"
	// CauseUntrusted: no authority of ca_file vouches for the certificate, or it is not
	// meant for this end of a connection.
	CauseUntrusted Cause = "certificate_untrusted"
	// CauseExpired: the certificate has ended or not begun.
	CauseExpired Cause = "certificate_expired"
	// CauseResumed: the connection continues an earlier TLS session, whose certificate
	// was not verified now.
	CauseResumed Cause = "session_resumed"
	// CauseHandshake: no TLS 1.3 handshake came about for another reason.
	CauseHandshake Cause = "handshake_failed"
	// CauseAborted: the other end went away during the handshake, as port probes do.
	CauseAborted Cause = "handshake_aborted"
	// CausePeerOther: the server is a daemon, but not the one that was called.
	CausePeerOther Cause = "peer_other"
	// CauseNotLoopback: a plaintext connection does not stay on this machine.
	CauseNotLoopback Cause = "not_loopback"
)

// Causes found in the certificate of a peer that a trusted authority vouches for. A
// server tells them to the caller.
const (
	// CauseAuthority: the certificate belongs to an authority.
	CauseAuthority Cause = "certificate_of_authority"
	// CauseIdentityMissing: the certificate has no URI name.
	CauseIdentityMissing Cause = "identity_missing"
	// CauseIdentityAmbiguous: the certificate has more than one URI name.
	CauseIdentityAmbiguous Cause = "identity_ambiguous"
	// CauseIdentityMalformed: the URI name is not spiffe://portcullis/<daemon>.
	CauseIdentityMalformed Cause = "identity_malformed"
	// CauseTrustDomain: the URI name is of another trust domain.
	CauseTrustDomain Cause = "trust_domain_other"
	// CauseUnauthenticated: the connection carries no result of a handshake.
	CauseUnauthenticated Cause = "unauthenticated"
)

// Causes found in the policy, for a caller that is known.
const (
	// CauseMethodUnlisted: the policy names nobody for the method.
	CauseMethodUnlisted Cause = "method_unlisted"
	// CausePlaintext: the method is not for callers without a certificate.
	CausePlaintext Cause = "plaintext_not_permitted"
	// CauseNotPermitted: the policy does not name this caller for the method.
	CauseNotPermitted Cause = "caller_not_permitted"
)

// refusal is a "no" with its cause. It holds no secret.
type refusal struct {
	cause Cause
	text  string
}

func refuse(cause Cause, format string, args ...any) *refusal {
	return &refusal{cause: cause, text: fmt.Sprintf(format, args...)}
}

// Error is the explanation.
func (r *refusal) Error() string { return r.text }

// err is the answer to the caller, with the verdict in its details.
func (r *refusal) err() error {
	reason := verdict.CallerUnidentified
	if r.cause == CauseMethodUnlisted || r.cause == CausePlaintext || r.cause == CauseNotPermitted {
		reason = verdict.CallerNotAuthorized
	}
	return verdict.Refuse(reason, "mesh."+string(r.cause), r.text).Err()
}
