package verdict

import (
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
)

// Decision is one answer. It is a plain value, comparable with ==, and making one allocates nothing.
// The zero Decision refuses.
type Decision struct {
	// Reason of a refusal; empty in a grant.
	Reason Reason
	// Step is the first check that failed, for example "review.audience".
	Step string
	// Explanation is for the operator.
	Explanation string
	// Allowlist is the list's state, for grants and refusals that asked it.
	Allowlist Evidence

	message   string
	outcome   Outcome
	code      codes.Code
	retryable bool
}

// Grant is the only way to a Decision that grants.
func Grant(allowlist Evidence) Decision {
	return Decision{outcome: Granted, Allowlist: allowlist}
}

// Refuse makes a refusal. Outcome, code and message come from the reason; a reason that is not
// registered gives an Unknown outcome with code INTERNAL. Step and explanation must hold no secret.
func Refuse(reason Reason, step, explanation string) Decision {
	d := Decision{Reason: reason, Step: step, Explanation: explanation}
	if spec, ok := reason.Spec(); ok {
		d.outcome, d.code, d.retryable = spec.Outcome, spec.Code, spec.Retryable
	}
	return d
}

// WithAllowlist returns d with the list's state.
func (d Decision) WithAllowlist(e Evidence) Decision {
	d.Allowlist = e
	return d
}

// WithMessage returns d with another text for the caller; an empty one restores the reason's. The
// text must disclose nothing that the caller may not know.
func (d Decision) WithMessage(message string) Decision {
	d.message = message
	return d
}

// WithCode returns d with another gRPC code, for methods whose contract names one. A code that
// stands for another outcome (see ClassOf) would turn "no" into "could not find out" or the reverse;
// it is not taken and d is returned unchanged. Neither is UNIMPLEMENTED, which can count as success.
func (d Decision) WithCode(code codes.Code) Decision {
	if !d.Granted() && ClassOf(code) == d.Outcome() && code != codes.Unimplemented {
		d.code = code
	}
	return d
}

// Granted reports whether the answer is yes.
func (d Decision) Granted() bool { return d.outcome == Granted }

// Outcome returns the kind of the answer.
func (d Decision) Outcome() Outcome { return d.outcome }

// Retryable reports whether the same call may succeed later without anyone changing it. False for a
// grant.
func (d Decision) Retryable() bool { return d.retryable }

// Code returns the gRPC code of the answer: OK for a grant, never OK for a refusal.
func (d Decision) Code() codes.Code {
	switch {
	case d.Granted():
		return codes.OK
	case d.code == codes.OK:
		return codes.Internal
	default:
		return d.code
	}
}

// Message returns the text for the caller; empty for a grant.
func (d Decision) Message() string {
	if d.Granted() {
		return ""
	}
	if d.message != "" {
		return d.message
	}
	spec, ok := d.reason().Spec()
	if !ok {
		spec, _ = Unexplained.Spec()
	}
	return spec.Message
}

// Explain returns everything there is to say, on one line, for the log and the audit event.
func (d Decision) Explain() string {
	var b strings.Builder
	b.WriteString(d.outcome.String())
	if !d.Granted() {
		fmt.Fprintf(&b, ": %s", d.reason())
		if d.Step != "" {
			fmt.Fprintf(&b, " at %s", d.Step)
		}
		if d.Explanation != "" {
			fmt.Fprintf(&b, ": %s", d.Explanation)
		}
	}
	if e := d.Allowlist; e != (Evidence{}) {
		fmt.Fprintf(&b, " (%s)", e)
	}
	return oneLine(b.String())
}

// oneLine keeps a text that came from elsewhere from forging a second log line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// reason is never empty.
func (d Decision) reason() Reason {
	if d.Reason == "" {
		return Unexplained
	}
	return d.Reason
}
