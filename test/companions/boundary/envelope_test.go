package boundary_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

const id = "0f0e0d0c-0b0a-4908-8706-050403020100"

// confirmDigest is the SHA-256 of {"operation":"confirm"}, by another program.
const confirmDigest = "c47c155e09b02a1684c146535ab246541a4775d433a91576130bf1a33462b67e"

func TestOpen(t *testing.T) {
	t.Parallel()
	valid := fmt.Sprintf(`{"request_id":%q,"payload_digest":%q,"request":{"operation":"confirm"}}`, id, confirmDigest)
	for name, tc := range map[string]struct {
		old, replacement string
		want             string // in the refusal; "" for none
		named            bool   // whether the refusal can be sent under the request's id
	}{
		"valid":           {},
		"spaces":          {old: `{"operation":"confirm"}`, replacement: `{ "operation" : "confirm" }`},
		"another request": {old: "confirm", replacement: "confirn", want: "payload_digest", named: true},
		"another digest":  {old: confirmDigest, replacement: strings.ToUpper(confirmDigest), want: "payload_digest", named: true},
		"no digest":       {old: confirmDigest, want: "payload_digest", named: true},
		"no UUID":         {old: id, replacement: "1", want: "request_id"},
		"unknown field":   {old: `"request":`, replacement: `"more":1,"request":`, want: "more"},
		"an equal key":    {old: `{"operation":"confirm"}`, replacement: `{"operation":"confirm","operation":"confirm"}`, want: "twice"},
		"not JSON":        {old: `"request":`, replacement: `request:`, want: "envelope"},
		"no request":      {old: `,"request":{"operation":"confirm"}`, want: "request: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, failure := boundary.Open([]byte(strings.Replace(valid, tc.old, tc.replacement, 1)))
			switch {
			case tc.want == "" && (failure != nil || e.RequestID != id):
				t.Fatalf("refused: %v", failure)
			case tc.want != "" && (failure == nil || failure.Kind != boundary.Invalid || !strings.Contains(failure.Message, tc.want) || e.Request != nil):
				t.Fatalf("%v, %v; want it invalid for %q", e, failure, tc.want)
			case tc.want != "" && (e.RequestID == id) != tc.named:
				t.Fatalf("the refusal's id is %q", e.RequestID)
			}
		})
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	frame, asked, err := boundary.Seal(boundary.Confirm{Operation: boundary.OpConfirm})
	if err != nil {
		t.Fatal(err)
	}
	e, failure := boundary.Open(frame)
	if failure != nil || e.RequestID != asked || !boundary.IsUUID(asked) {
		t.Fatalf("%v, %v", e, failure)
	}
	good, err := boundary.SealReply(asked, boundary.Started{ProcessID: "p"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var started boundary.Started
	if err := boundary.OpenReply(good, asked, &started); err != nil || started.ProcessID != "p" {
		t.Fatalf("%v, %v", started, err)
	}
	bad, err := boundary.SealReply(asked, nil, boundary.Failed(boundary.Process, "no such file"))
	if err != nil {
		t.Fatal(err)
	}
	var f *boundary.Failure
	if err := boundary.OpenReply(bad, asked, &started); !errors.As(err, &f) || *f != (boundary.Failure{Kind: boundary.Process, Message: "no such file"}) {
		t.Fatalf("%v", err)
	}
	for name, spoilt := range map[string][]byte{
		"of another request": must(boundary.SealReply(boundary.NewUUID(), boundary.Started{}, nil)),
		"with another body":  []byte(strings.Replace(string(good), `"p"`, `"q"`, 1)),
		"of another form":    must(boundary.SealReply(asked, boundary.Exit{}, nil)),
		"not JSON":           []byte("{"),
	} {
		if err := boundary.OpenReply(spoilt, asked, &started); !errors.As(err, &f) || f.Kind != boundary.Invalid {
			t.Errorf("a reply %s: %v", name, err)
		}
	}
}

func TestKindsSurviveStatuses(t *testing.T) {
	t.Parallel()
	for kind, want := range map[boundary.Kind]boundary.Kind{
		boundary.Invalid: boundary.Invalid, boundary.Denied: boundary.Denied, boundary.Unavailable: boundary.Unavailable,
		boundary.Terminated: boundary.Terminated, boundary.Process: boundary.Invalid, "": boundary.Unavailable,
	} {
		if got := boundary.AsFailure(boundary.Failed(kind, "why").Status()); got.Kind != want || got.Message != "why" {
			t.Errorf("%q comes as %v", kind, got)
		}
	}
	for code, want := range map[codes.Code]boundary.Kind{
		codes.Unauthenticated: boundary.Denied, codes.Unimplemented: boundary.Invalid, codes.Internal: boundary.Unavailable,
		codes.DeadlineExceeded: boundary.Unavailable, codes.Unknown: boundary.Unavailable,
	} {
		if got := boundary.AsFailure(status.Error(code, "why")); got.Kind != want {
			t.Errorf("%s comes as %v", code, got)
		}
	}
	if got := boundary.AsFailure(errors.New("plain")); got.Kind != boundary.Unavailable {
		t.Errorf("an error that says nothing of itself comes as %v", got)
	}
	if boundary.AsFailure(nil) != nil {
		t.Error("no error is a failure")
	}
}

func must(b []byte, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return b
}
