package boundary

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is why something was refused (contract 13.5).
type Kind string

// The kinds of refusals. The zero Kind is none of them.
const (
	Invalid     Kind = "invalid"     // the request is wrong, now and later
	Denied      Kind = "denied"      // the caller may not
	Unavailable Kind = "unavailable" // could not be found out or done now; later it may
	Terminated  Kind = "terminated"  // what is asked about has ended
	Process     Kind = "process"     // a program could not be run
)

// Failure is a refusal. It travels in replies, so its message holds nothing secret.
type Failure struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

// Failed makes a Failure.
func Failed(kind Kind, format string, args ...any) *Failure {
	return &Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Error returns the kind and the message.
func (f *Failure) Error() string { return string(f.Kind) + ": " + f.Message }

// Status returns the failure as a gRPC status, for refusals before a request could be read.
func (f *Failure) Status() error {
	code := codes.Unavailable
	switch f.Kind {
	case Invalid, Process:
		code = codes.InvalidArgument
	case Denied:
		code = codes.PermissionDenied
	case Terminated:
		code = codes.FailedPrecondition
	case Unavailable:
	}
	return status.Error(code, f.Message)
}

// AsFailure returns the Failure in err, or one made of its gRPC status. Whatever says nothing of
// itself is Unavailable: could not find out.
func AsFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	kind := Unavailable
	switch status.Code(err) {
	case codes.InvalidArgument, codes.ResourceExhausted, codes.Unimplemented:
		kind = Invalid
	case codes.PermissionDenied, codes.Unauthenticated:
		kind = Denied
	case codes.FailedPrecondition:
		kind = Terminated
	default:
	}
	if s, ok := status.FromError(err); ok {
		return &Failure{Kind: kind, Message: s.Message()}
	}
	return &Failure{Kind: kind, Message: err.Error()}
}
