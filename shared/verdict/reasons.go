package verdict

import (
	"slices"

	"google.golang.org/grpc/codes"
)

// Reason is the stable code of a refusal: 1 to 64 of a-z, 0-9 and "_". A code keeps its meaning for
// ever; metrics, alerts and other daemons branch on it. Values that are not in Reasons come from a
// newer peer and are kept as they are.
type Reason string

// The reasons of the mesh and of the allowlist; reasons_bearer.go has those of authentication. Each has its entry in a
// table.
const (
	// Unexplained stands in for a refusal that carries no reason, such as the zero Decision.
	Unexplained Reason = "unexplained"

	// CallerUnidentified: the peer of a mesh connection has no usable certificate identity.
	CallerUnidentified Reason = "mesh_caller_unidentified"
	// CallerNotAuthorized: the peer is known and may not call this method.
	CallerNotAuthorized Reason = "mesh_caller_not_authorized"
	// TooManyCalls: the daemon works on as many calls as it takes at once, or as it takes from this caller.
	TooManyCalls Reason = "too_many_calls"
	// CallEnded: the call was cancelled, or its deadline passed, before there was an answer.
	CallEnded Reason = "call_ended"

	// NotListed: a fresh allowlist does not hold the namespace.
	NotListed Reason = "not_listed"
	// Unsynced: the reader has not yet seen a complete, proven allowlist.
	Unsynced Reason = "unsynced"
	// Stale: the newest proof of the allowlist is too old.
	Stale Reason = "stale"
	// Withdrawn: the writer has withdrawn the allowlist, or somebody took a key of it away.
	Withdrawn Reason = "withdrawn"
	// Invalid: the current record of the allowlist cannot be accepted.
	Invalid Reason = "invalid"
	// Forked: two different allowlists claim the same revision.
	Forked Reason = "forked"
	// Behind: the writer vouches for a revision that the reader does not hold.
	Behind Reason = "behind"
)

// Spec is what is fixed about a reason.
type Spec struct {
	// Reason is the code.
	Reason Reason
	// Doc is one sentence for the operator's list of codes.
	Doc string
	// Outcome is Denied or Unknown.
	Outcome Outcome
	// Code is the default gRPC code; its class is that of Outcome.
	Code codes.Code
	// Message is the default text for the caller; it discloses nothing about the installation.
	Message string
	// Retryable means that the same call may succeed later without anyone changing it.
	Retryable bool
}

// specs is every reason, in the order of the operator's list. It is never written to.
var specs = slices.Concat(meshSpecs[:], bearerSpecs[:], runSpecs[:], probeSpecs[:], workspaceSpecs[:], createSpecs[:], driverSpecs[:])

// meshSpecs is never written to. The codes of the allowlist reasons follow the allowlist protocol, rule
// R8: one "no" and six kinds of "could not find out". Contract 5.3 wants NotListed as
// FAILED_PRECONDITION on create; lifecycle says so with WithCode.
var meshSpecs = [...]Spec{
	{
		Reason: Unexplained, Outcome: Unknown, Code: codes.Internal,
		Doc:     "A refusal without a reason: a defect in the daemon that refused.",
		Message: "the request was refused",
	},
	{
		Reason: CallerUnidentified, Outcome: Denied, Code: codes.Unauthenticated,
		Doc:     "The caller presented no certificate with exactly one identity of the mesh's trust domain.",
		Message: "the caller is not identified",
	},
	{
		Reason: CallerNotAuthorized, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The caller's certificate identity is not on the list of those that may call this method.",
		Message: "the caller may not use this method",
	},
	{
		Reason: TooManyCalls, Outcome: Unknown, Code: codes.ResourceExhausted, Retryable: true,
		Doc:     "The daemon works on as many calls as max_concurrent, max_concurrent_per_caller or max_concurrent_per_bearer allows; nothing was looked at.",
		Message: "too many calls are in progress",
	},
	{
		Reason: CallEnded, Outcome: Unknown, Code: codes.DeadlineExceeded, Retryable: true,
		Doc:     "The caller's deadline, or call_timeout, passed before there was an answer, or the caller went away.",
		Message: "the call ended before there was an answer",
	},
	{
		Reason: NotListed, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The namespace is not in the operator's allowlist, and the list is proven current.",
		Message: "workspace is not in the operator namespace allowlist",
	},
	{
		Reason: Unsynced, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The allowlist has not been received completely since the daemon started or lost it.",
		Message: "the operator namespace allowlist is not available",
	},
	{
		Reason: Stale, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The newest proof of the allowlist is older than max_staleness.",
		Message: "the operator namespace allowlist is not available",
	},
	{
		Reason: Withdrawn, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The writer no longer vouches for an allowlist, or its record was deleted.",
		Message: "the operator namespace allowlist is not available",
	},
	{
		Reason: Invalid, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The current record of the allowlist does not parse, is for another gateway, or its signature does not verify.",
		Message: "the operator namespace allowlist is not available",
	},
	{
		Reason: Forked, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "Two different allowlists carry the same epoch and revision; only a higher epoch ends this.",
		Message: "the operator namespace allowlist is not available",
	},
	{
		Reason: Behind, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The newest heartbeat names a revision whose snapshot has not arrived.",
		Message: "the operator namespace allowlist is not available",
	},
}

// Reasons lists every registered reason, in the order of the operator's list. The slice is the
// caller's own.
func Reasons() []Spec {
	return slices.Clone(specs)
}

// Spec returns what is fixed about r; false for a reason that is not registered.
func (r Reason) Spec() (Spec, bool) {
	for i := range specs {
		if specs[i].Reason == r {
			return specs[i], true
		}
	}
	return Spec{}, false
}

// wellFormed reports whether r may travel.
func (r Reason) wellFormed() bool {
	if len(r) == 0 || len(r) > maxReason {
		return false
	}
	for i := range len(r) {
		c := r[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
