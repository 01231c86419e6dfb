package verdict

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	verdictv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/verdict/v1"
)

var evidence = Evidence{
	Namespace: "team-a", Epoch: 7, Revision: 42, Proven: true, Age: 1500 * time.Millisecond, EntryUID: "uid-1",
}

func compare() cmp.Option { return cmp.AllowUnexported(Decision{}) }

func TestZeroDecisionRefuses(t *testing.T) {
	var d Decision
	if d.Granted() || d.Outcome() != Unknown || d.Code() != codes.Internal || d.Message() == "" || d.Retryable() {
		t.Errorf("zero Decision: granted %v, outcome %v, code %v, message %q, retryable %v",
			d.Granted(), d.Outcome(), d.Code(), d.Message(), d.Retryable())
	}
	if got := status.Code(d.Err()); got != codes.Internal {
		t.Errorf("Err has code %v, want Internal", got)
	}
	if got := status.Code(d.SafeErr()); got != codes.Internal {
		t.Errorf("SafeErr has code %v, want Internal", got)
	}
	if got, want := d.Explain(), "unknown: unexplained"; got != want {
		t.Errorf("Explain = %q, want %q", got, want)
	}
}

func TestGrant(t *testing.T) {
	d := Grant(evidence).WithCode(codes.PermissionDenied).WithMessage("no")
	if !d.Granted() || d.Outcome() != Granted || d.Code() != codes.OK || d.Message() != "" {
		t.Errorf("granted %v, outcome %v, code %v, message %q", d.Granted(), d.Outcome(), d.Code(), d.Message())
	}
	if d.Err() != nil || d.SafeErr() != nil {
		t.Errorf("a grant has errors %v, %v", d.Err(), d.SafeErr())
	}
	want := `granted (namespace "team-a", allowlist epoch 7, revision 42, age 1.5s, uid "uid-1")`
	if got := d.Explain(); got != want {
		t.Errorf("Explain = %s\nwant      %s", got, want)
	}
}

func TestEveryReasonSurvivesTheTrip(t *testing.T) {
	for _, spec := range Reasons() {
		t.Run(string(spec.Reason), func(t *testing.T) {
			d := Refuse(spec.Reason, "allowlist", "asked for team-a").WithAllowlist(evidence)
			if d.Granted() || d.Outcome() != spec.Outcome || d.Code() != spec.Code || d.Retryable() != spec.Retryable {
				t.Fatalf("Refuse gave %+v", d)
			}
			got, ok := FromError(d.Err())
			if !ok {
				t.Fatal("FromError found no refusal")
			}
			// The message is explicit after the trip.
			if diff := cmp.Diff(d.WithMessage(spec.Message), got, compare()); diff != "" {
				t.Errorf("changed on the way (-sent +received):\n%s", diff)
			}
		})
	}
}

func TestWithCode(t *testing.T) {
	cases := []struct {
		name   string
		reason Reason
		code   codes.Code
		want   codes.Code
	}{
		{"denied may use another code of denied", NotListed, codes.FailedPrecondition, codes.FailedPrecondition},
		{"denied may not look unknown", NotListed, codes.Unavailable, codes.PermissionDenied},
		{"unknown may use another code of unknown", Stale, codes.Internal, codes.Internal},
		{"unknown may not look denied", Stale, codes.FailedPrecondition, codes.Unavailable},
		{"an answer may not look as if nobody had looked", NotListed, codes.ResourceExhausted, codes.PermissionDenied},
		{"nobody has looked, so it may not look denied", TooManyCalls, codes.PermissionDenied, codes.ResourceExhausted},
		{"a refusal may not look granted", NotListed, codes.OK, codes.PermissionDenied},
		{"unregistered reason is unknown", "brand_new", codes.PermissionDenied, codes.Internal},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := Refuse(c.reason, "s", "e").WithCode(c.code)
			if got := status.Code(d.Err()); got != c.want {
				t.Errorf("code = %v, want %v", got, c.want)
			}
		})
	}
}

func TestCallerSeesNoExplanation(t *testing.T) {
	d := Refuse(NotListed, "allowlist", "secret-project is unlisted").WithAllowlist(evidence).WithMessage("not today")
	err := d.SafeErr()
	st := status.Convert(err)
	if st.Message() != "not today" || st.Code() != codes.PermissionDenied || len(st.Details()) != 0 {
		t.Errorf("SafeErr = %v with details %v", err, st.Details())
	}
	if strings.Contains(d.Err().Error(), "secret-project") {
		t.Errorf("the text of Err shows the explanation: %v", d.Err())
	}
	if got := d.WithMessage("").Message(); got == "not today" || got == "" {
		t.Errorf("an empty message gives %q, want the reason's", got)
	}
	if !strings.Contains(d.Explain(), "secret-project") {
		t.Errorf("Explain hides the explanation: %s", d.Explain())
	}
}

func TestWrappingDoesNotReachTheCaller(t *testing.T) {
	err := fmt.Errorf("asking tokenauth at 10.0.0.7: %w", Refuse(NotListed, "allowlist", "x").Err())
	d, ok := FromError(err)
	if !ok || d.Reason != NotListed {
		t.Fatalf("FromError = %+v, %v", d, ok)
	}
	if strings.Contains(d.SafeErr().Error(), "10.0.0.7") {
		t.Errorf("SafeErr shows the wrapping text: %v", d.SafeErr())
	}
}

func TestFromErrorWithoutRefusal(t *testing.T) {
	for name, err := range map[string]error{
		"nil":             nil,
		"plain":           errors.New("boom"),
		"status":          status.Error(codes.PermissionDenied, "no"),
		"status OK":       okStatus{},
		"another detail":  withDetail(t, codes.PermissionDenied, &verdictv1.AllowlistEvidence{}),
		"garbled details": garbled(t),
	} {
		t.Run(name, func(t *testing.T) {
			if d, ok := FromError(err); ok || d != (Decision{}) {
				t.Errorf("FromError = %+v, %v, want the zero Decision and false", d, ok)
			}
		})
	}
}

func TestHostileRefusals(t *testing.T) {
	valid := func() *verdictv1.Refusal {
		return &verdictv1.Refusal{Reason: "not_listed", Outcome: verdictv1.Outcome_OUTCOME_DENIED, Step: "s", Explanation: "e"}
	}
	cases := []struct {
		name    string
		code    codes.Code
		edit    func(*verdictv1.Refusal)
		reason  Reason
		outcome Outcome
		want    codes.Code
	}{
		{"valid", codes.PermissionDenied, func(*verdictv1.Refusal) {}, NotListed, Denied, codes.PermissionDenied},
		{"outcome missing", codes.PermissionDenied, func(r *verdictv1.Refusal) { r.Outcome = 0 }, NotListed, Unknown, codes.Internal},
		{"outcome of the future", codes.PermissionDenied, func(r *verdictv1.Refusal) { r.Outcome = 77 }, NotListed, Unknown, codes.Internal},
		{"denied with a code of unknown", codes.Unavailable, func(*verdictv1.Refusal) {}, NotListed, Unknown, codes.Unavailable},
		{"unknown with a code of denied", codes.NotFound, func(r *verdictv1.Refusal) { r.Outcome = verdictv1.Outcome_OUTCOME_UNKNOWN }, NotListed, Unknown, codes.Internal},
		{"reason empty", codes.PermissionDenied, func(r *verdictv1.Refusal) { r.Reason = "" }, Unexplained, Unknown, codes.Internal},
		{"reason with spaces", codes.PermissionDenied, func(r *verdictv1.Refusal) { r.Reason = "no way" }, Unexplained, Unknown, codes.Internal},
		{"reason too long", codes.PermissionDenied, func(r *verdictv1.Refusal) { r.Reason = strings.Repeat("a", 65) }, Unexplained, Unknown, codes.Internal},
		{"reason of the future", codes.PermissionDenied, func(r *verdictv1.Refusal) { r.Reason = "moon_phase" }, "moon_phase", Denied, codes.PermissionDenied},
		{"unknown in our table, denied by the peer", codes.PermissionDenied, func(r *verdictv1.Refusal) { r.Reason = "stale" }, Stale, Unknown, codes.Internal},
		{"a code that counts as success", codes.Unimplemented, func(*verdictv1.Refusal) {}, NotListed, Unknown, codes.Internal},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := valid()
			c.edit(r)
			d, ok := FromError(withDetail(t, c.code, r))
			if !ok || d.Granted() {
				t.Fatalf("FromError = %+v, %v", d, ok)
			}
			if d.Reason != c.reason || d.Outcome() != c.outcome || d.Code() != c.want {
				t.Errorf("reason %q, outcome %v, code %v, want %q, %v, %v", d.Reason, d.Outcome(), d.Code(), c.reason, c.outcome, c.want)
			}
		})
	}
}

// The gateway takes UNIMPLEMENTED for success of two calls (contract 2.6).
func TestNoRefusalIsUnimplemented(t *testing.T) {
	for _, spec := range Reasons() {
		if got := Refuse(spec.Reason, "s", "e").WithCode(codes.Unimplemented).Code(); got == codes.Unimplemented {
			t.Errorf("%s can be answered with %s", spec.Reason, got)
		}
	}
}

func TestMessagesOfPeersStayOnOneLine(t *testing.T) {
	st, err := status.New(codes.PermissionDenied, "no\r\nforged: yes").WithDetails(&verdictv1.Refusal{
		Reason: "not_listed", Outcome: verdictv1.Outcome_OUTCOME_DENIED,
	})
	if err != nil {
		t.Fatal(err)
	}
	d, ok := FromError(st.Err())
	if !ok || strings.ContainsAny(d.SafeErr().Error(), "\r\n") {
		t.Errorf("got %v, %q", ok, d.SafeErr())
	}
}

func TestTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 2000)
	d := Refuse(NotListed, long, "bad \xff byte "+long).WithMessage(long).
		WithAllowlist(Evidence{Namespace: long, EntryUID: long, Proven: true, Age: -time.Second})
	got, ok := FromError(d.Err())
	if !ok {
		t.Fatal("the details were lost")
	}
	for name, text := range map[string]struct {
		s     string
		limit int
	}{
		"step": {got.Step, maxStep}, "explanation": {got.Explanation, maxExplanation},
		"message": {got.Message(), maxMessage}, "namespace": {got.Allowlist.Namespace, maxName}, "uid": {got.Allowlist.EntryUID, maxName},
	} {
		if len(text.s) > text.limit || len(text.s) < text.limit-4 || !utf8.ValidString(text.s) {
			t.Errorf("%s has %d bytes (valid UTF-8: %v), want close to %d", name, len(text.s), utf8.ValidString(text.s), text.limit)
		}
	}
	if safe := status.Convert(d.SafeErr()).Message(); safe != long {
		t.Errorf("the gateway gets %d bytes of %d", len(safe), len(long))
	}
	if safe := status.Convert(d.WithMessage(long + long).SafeErr()).Message(); len(safe) > MaxSafeMessage || len(safe) < MaxSafeMessage-4 || !utf8.ValidString(safe) {
		t.Errorf("the gateway gets %d bytes", len(safe))
	}
	if got.Allowlist.Age != 0 || !got.Allowlist.Proven {
		t.Errorf("a negative age became %+v", got.Allowlist)
	}
}

func TestEvidence(t *testing.T) {
	if (Evidence{}).Proto() != nil {
		t.Error("the zero Evidence is sent")
	}
	if got := EvidenceFromProto(nil); got != (Evidence{}) {
		t.Errorf("nil gives %+v", got)
	}
	for name, age := range map[string]*durationpb.Duration{
		"absent": nil, "negative": {Seconds: -1}, "out of range": {Seconds: 1 << 62}, "mixed signs": {Seconds: 1, Nanos: -1},
	} {
		p := evidence.Proto()
		p.Age = age
		if got := EvidenceFromProto(p); got.Proven || got.Age != 0 || got.Epoch != 7 {
			t.Errorf("age %s gives %+v, want no proof", name, got)
		}
	}
	unproven := Evidence{Namespace: "team-a"}
	if got := EvidenceFromProto(unproven.Proto()); got != unproven {
		t.Errorf("unproven evidence came back as %+v", got)
	}
}

func TestExplainIsOneLine(t *testing.T) {
	d := Refuse(Stale, "allowlist", "first\nsecond\r\x1b[31mthird").WithAllowlist(Evidence{Namespace: "a\nb"})
	got := d.Explain()
	if strings.ContainsAny(got, "\n\r\x1b") {
		t.Errorf("Explain has control characters: %q", got)
	}
	for _, part := range []string{"unknown: stale at allowlist", "second", "unproven"} {
		if !strings.Contains(got, part) {
			t.Errorf("Explain = %q, without %q", got, part)
		}
	}
}

func TestMakingADecisionAllocatesNothing(t *testing.T) {
	var d Decision
	got := testing.AllocsPerRun(100, func() {
		d = Refuse(Behind, "allowlist", "revision 43 is not here").WithAllowlist(evidence)
	})
	if got != 0 || d.Granted() {
		t.Errorf("%v allocations", got)
	}
}
