package verdict

import (
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	verdictv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/verdict/v1"
)

// Limits of the texts on the wire inside the mesh, in bytes; longer ones are cut. Together they stay far below the
// 8 KiB that HTTP/2 peers commonly grant to trailers.
const (
	maxReason      = 64
	maxStep        = 128
	maxExplanation = 1024
	maxMessage     = 256
	maxName        = 63
)

// Err returns the answer as a gRPC status error for a caller inside the mesh: code, message and a
// portcullis.verdict.v1.Refusal with the rest. Nil for a grant.
func (d Decision) Err() error {
	if d.Granted() {
		return nil
	}
	st := status.New(d.Code(), clip(d.Message(), maxMessage))
	detailed, err := st.WithDetails(d.refusal())
	if err != nil {
		// The refusal matters more than its explanation.
		return st.Err()
	}
	return detailed.Err()
}

// MaxSafeMessage is how much of a message SafeErr sends, in bytes; longer ones are cut. It has room for what is wrong with a request, of
// which the gateway gets nothing else. Even if every byte is escaped, the message stays below the 16 KiB that gateways grant to trailers.
const MaxSafeMessage = 4096

// SafeErr returns the answer for the gateway: code and message, nothing else. Nil for a grant.
func (d Decision) SafeErr() error {
	if d.Granted() {
		return nil
	}
	return status.Error(d.Code(), clip(d.Message(), MaxSafeMessage))
}

// FromError reads a refusal back from an error that Err made, also when it was wrapped or has
// travelled. False when err is nil or carries no Refusal; the Decision is then the zero one. The
// result never grants, whatever the peer sent: an outcome that is missing, or that contradicts the
// gRPC code or our own table, is Unknown.
func FromError(err error) (Decision, bool) {
	// status.FromError would put the texts of the wrapping errors, which are not for the caller, into
	// the message.
	var carrier interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &carrier) {
		return Decision{}, false
	}
	st := carrier.GRPCStatus()
	if st.Code() == codes.OK {
		return Decision{}, false
	}
	for _, detail := range st.Details() {
		if r, ok := detail.(*verdictv1.Refusal); ok {
			return fromRefusal(st, r), true
		}
	}
	return Decision{}, false
}

func (d Decision) refusal() *verdictv1.Refusal {
	r := &verdictv1.Refusal{
		Reason:      string(d.reason()),
		Outcome:     verdictv1.Outcome_OUTCOME_UNKNOWN,
		Step:        clip(d.Step, maxStep),
		Explanation: clip(d.Explanation, maxExplanation),
		Retryable:   d.retryable,
		Allowlist:   d.Allowlist.Proto(),
	}
	if !Reason(r.GetReason()).wellFormed() {
		r.Reason = string(Unexplained)
	}
	if d.outcome == Denied {
		r.Outcome = verdictv1.Outcome_OUTCOME_DENIED
	}
	return r
}

func fromRefusal(st *status.Status, r *verdictv1.Refusal) Decision {
	d := Decision{
		Reason:      Reason(r.GetReason()),
		Step:        clip(r.GetStep(), maxStep),
		Explanation: clip(r.GetExplanation(), maxExplanation),
		Allowlist:   EvidenceFromProto(r.GetAllowlist()),
		message:     clip(oneLine(st.Message()), maxMessage),
		code:        st.Code(),
		retryable:   r.GetRetryable(),
	}
	if !d.Reason.wellFormed() {
		d.Reason = Unexplained
	}
	class := ClassOf(st.Code())
	spec, known := d.Reason.Spec()
	if r.GetOutcome() == verdictv1.Outcome_OUTCOME_DENIED && class == Denied && (!known || spec.Outcome == Denied) {
		d.outcome = Denied
	}
	if d.outcome == Unknown && (class != Unknown || d.code == codes.Unimplemented) {
		d.code = codes.Internal
	}
	return d
}

// clip returns s as valid UTF-8 of at most limit bytes: proto3 refuses anything else, and a cut
// must not fall inside a character.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
