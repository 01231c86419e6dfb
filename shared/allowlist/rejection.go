package allowlist

import (
	"errors"
	"fmt"
)

// Cause says why a record does not count (rule R1). The zero value is no cause.
type Cause uint8

// The causes, in the order in which they are looked for.
const (
	// Oversize: the record or what it unpacks to is larger than any that is written.
	Oversize Cause = iota + 1
	// Malformed: it is not an envelope, or the signed payload is not canonical.
	Malformed
	// UnknownKey: it names a signing key that is not configured.
	UnknownKey
	// BadSignature: the signature does not verify.
	BadSignature
	// ForeignGateway: it is signed and well formed, and for another gateway.
	ForeignGateway
)

// String is the cause as a metric label.
func (c Cause) String() string {
	switch c {
	case Oversize:
		return "oversize"
	case Malformed:
		return "malformed"
	case UnknownKey:
		return "unknown_key"
	case BadSignature:
		return "bad_signature"
	case ForeignGateway:
		return "foreign_gateway"
	default:
		return "none"
	}
}

// ErrTooLarge marks the error of a list that fits into no record. It is withdrawn, never cut.
var ErrTooLarge = errors.New("the list is too large for a record")

// Rejection is the error of a record that does not count.
type Rejection struct {
	Cause Cause
	err   error
}

// Error says what is wrong with the record.
func (r *Rejection) Error() string { return r.err.Error() }

// Unwrap returns the error behind the Cause.
func (r *Rejection) Unwrap() error { return r.err }

// CauseOf returns the cause of an error of OpenSnapshot or OpenHeartbeat; zero for any other.
func CauseOf(err error) Cause {
	var r *Rejection
	if errors.As(err, &r) {
		return r.Cause
	}
	return 0
}

func reject(cause Cause, format string, args ...any) error {
	return &Rejection{Cause: cause, err: fmt.Errorf(format, args...)}
}
