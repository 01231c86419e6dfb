package verdict

import "google.golang.org/grpc/codes"

// Outcome is the kind of an answer. The zero value refuses.
type Outcome uint8

const (
	// Unknown means that the facts could not be established. It refuses.
	Unknown Outcome = iota
	// Denied means that the facts were known and the answer is no.
	Denied
	// Granted means yes.
	Granted
)

// String returns "unknown", "denied" or "granted"; any other value is "unknown".
func (o Outcome) String() string {
	switch o {
	case Denied:
		return "denied"
	case Granted:
		return "granted"
	default:
		return "unknown"
	}
}

// ClassOf returns the outcome that a gRPC code stands for: codes that say something about the
// request are Denied, codes that say something about the server or the way to it are Unknown, OK is
// Granted. RESOURCE_EXHAUSTED is Unknown: whoever has no room for a request has not looked at it. A code
// from outside gRPC's list is Unknown, and so is UNIMPLEMENTED, which no refusal of ours may have: the
// gateway takes it for success of EnsureWorkspace and DeleteWorkspace (contract 2.6).
func ClassOf(code codes.Code) Outcome {
	switch code {
	case codes.OK:
		return Granted
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange:
		return Denied
	default:
		return Unknown
	}
}
