package allowkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// writeTest is a server with the bucket.
func writeTest(t *testing.T) (context.Context, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(natstest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	if _, err := Bootstrap(ctx, js, 1); err != nil {
		t.Fatal(err)
	}
	return ctx, js
}

// TestEveryWriteIsConditional writes with every expectation that is wrong. It is what stops a writer that was paused
// (rule W1).
func TestEveryWriteIsConditional(t *testing.T) {
	t.Parallel()
	ctx, js := writeTest(t)
	write := func(expect uint64) (writeLabel, allowlist.Written) {
		return publish(ctx, js, allowlist.Write{Key: "g.snapshot", Record: []byte("r"), ExpectSequence: expect})
	}
	for _, expect := range []uint64{1, 7} { // nothing is there
		if label, got := write(expect); label != writeLabelConflict || got.Result != allowlist.WriteConflict || got.Sequence != 0 {
			t.Errorf("expecting %d on an empty key: %s, %+v", expect, label, got)
		}
	}
	label, first := write(0)
	if label != writeLabelStored || first.Result != allowlist.WriteStored || first.Sequence != 1 {
		t.Fatalf("first write: %s, %+v", label, first)
	}
	for _, expect := range []uint64{0, 2} {
		if label, got := write(expect); label != writeLabelConflict || got.Result != allowlist.WriteConflict {
			t.Errorf("expecting %d on sequence 1: %s, %+v", expect, label, got)
		}
	}
	if _, got := write(1); got.Result != allowlist.WriteStored || got.Sequence != 2 {
		t.Errorf("second write: %+v", got)
	}
}

// TestWriteToAnotherStream has a stream that is not the bucket take the subject: it must not acknowledge.
func TestWriteToAnotherStream(t *testing.T) {
	t.Parallel()
	ctx, js := writeTest(t)
	if err := js.DeleteStream(ctx, Stream); err != nil {
		t.Fatal(err)
	}
	label, got := publish(ctx, js, allowlist.Write{Key: "g.snapshot", Record: []byte("r")})
	if label != writeLabelRefused || got.Result != allowlist.WriteDoubtful || !strings.Contains(got.Err.Error(), "does not exist") {
		t.Errorf("without a stream: %s, %+v", label, got)
	}
	other, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		t.Fatal(err)
	}
	label, got = publish(ctx, js, allowlist.Write{Key: "g.snapshot", Record: []byte("r")})
	if label != writeLabelRefused || got.Result != allowlist.WriteDoubtful {
		t.Errorf("to another stream: %s, %+v", label, got)
	}
	if info, err := other.Info(ctx); err != nil || info.State.Msgs != 0 {
		t.Errorf("the other stream holds %+v, %v", info, err)
	}
}

// TestHeartbeatExpires watches the key until nothing is left. No older beat may come back when the newest is gone
// (NATS reference 2.3).
func TestHeartbeatExpires(t *testing.T) {
	t.Parallel()
	ctx, js := writeTest(t)
	var last uint64
	for range 3 {
		_, got := publish(ctx, js, allowlist.Write{Key: "g.heartbeat", Record: []byte("r"), ExpectSequence: last, TTL: time.Second})
		if got.Result != allowlist.WriteStored {
			t.Fatalf("%+v", got)
		}
		last = got.Sequence
	}
	for {
		s, err := leaderRead(ctx, js, "g.heartbeat")
		if err != nil {
			t.Fatal(err)
		}
		if s.Sequence == 0 {
			break
		}
		if s.Sequence < last || s.Operation != allowlist.OperationPut && s.Operation != allowlist.OperationExpire {
			t.Fatalf("after sequence %d: %s at %d", last, s.Operation, s.Sequence)
		}
		last = s.Sequence
		time.Sleep(20 * time.Millisecond)
	}
}

// TestReplayJ11LeaderRead is what a leader-read makes of messages that anyone may have stored.
func TestReplayJ11LeaderRead(t *testing.T) {
	t.Parallel()
	ctx, js := writeTest(t)
	if s, err := leaderRead(ctx, js, "g.snapshot"); err != nil || s.Sequence != 0 || s.Value != nil {
		t.Errorf("nothing: %+v, %v", s, err)
	}
	for i, test := range []struct {
		name   string
		header nats.Header
		value  string
		want   allowlist.Operation
	}{
		{"value", nil, "r", allowlist.OperationPut},
		{"binary value", nil, "\x00\xff\n", allowlist.OperationPut},
		{"empty", nil, "", allowlist.OperationUnknown},
		{"delete", nats.Header{"KV-Operation": {"DEL"}}, "", allowlist.OperationDelete},
		{"purge", nats.Header{"KV-Operation": {"PURGE"}, "Nats-Rollup": {"sub"}}, "", allowlist.OperationPurge},
		{"unknown operation", nats.Header{"KV-Operation": {"X"}}, "r", allowlist.OperationUnknown},
		{"rollup", nats.Header{"Nats-Rollup": {"sub"}}, "r", allowlist.OperationUnknown},
		{"says it is another", nats.Header{"Nats-Sequence": {"999"}, "Nats-Subject": {"x"}}, "r", allowlist.OperationPut},
	} {
		ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject("g.snapshot"), Header: test.header, Data: []byte(test.value)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := leaderRead(ctx, js, "g.snapshot")
		if err != nil || s.Sequence != ack.Sequence || s.Operation != test.want || string(s.Value) != test.value {
			t.Errorf("%d %s: %+v, %v; want %s at %d", i, test.name, s, err, test.want, ack.Sequence)
		}
	}
	if got := storedOperation([]byte("no header block"), []byte("r")); got != allowlist.OperationUnknown {
		t.Errorf("headers that do not decode: %s", got)
	}
	if err := js.DeleteStream(ctx, Stream); err != nil {
		t.Fatal(err)
	}
	if _, err := leaderRead(ctx, js, "g.snapshot"); err == nil || !strings.Contains(err.Error(), "bootstrap it") {
		t.Errorf("without a bucket: %v", err)
	}
}

func TestClassifyWrite(t *testing.T) {
	t.Parallel()
	api := func(code int) error {
		return fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: jetstream.ErrorCode(code), Description: "d"})
	}
	for _, test := range []struct {
		name   string
		err    error
		label  writeLabel
		result allowlist.WriteResult
	}{
		{"wrong sequence", api(10071), writeLabelConflict, allowlist.WriteConflict},
		{"wrong sequence, replicated", api(10164), writeLabelConflict, allowlist.WriteConflict},
		{"larger than the stream takes", api(10054), writeLabelTooLarge, allowlist.WriteTooLarge},
		{"larger than the server takes", nats.ErrMaxPayload, writeLabelTooLarge, allowlist.WriteTooLarge},
		{"another stream", api(10060), writeLabelRefused, allowlist.WriteDoubtful},
		{"bucket full", api(10077), writeLabelRefused, allowlist.WriteDoubtful},
		{"no stream", jetstream.ErrNoStreamResponse, writeLabelRefused, allowlist.WriteDoubtful},
		{"deadline", context.DeadlineExceeded, writeLabelDoubtful, allowlist.WriteDoubtful},
		{"given up", context.Canceled, writeLabelDoubtful, allowlist.WriteDoubtful},
		{"connection closed", nats.ErrConnectionClosed, writeLabelDoubtful, allowlist.WriteDoubtful},
		{"no acknowledgement", jetstream.ErrInvalidJSAck, writeLabelDoubtful, allowlist.WriteDoubtful},
	} {
		label, result, explained := classifyWrite(test.err, 10, 20)
		if label != test.label || result != test.result || !errors.Is(explained, test.err) {
			t.Errorf("%s: %s, %v, %v", test.name, label, result, explained)
		}
	}
}

func TestAPISubject(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		make func(*nats.Conn) (jetstream.JetStream, error)
		want string
	}{
		{func(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.New(nc) }, "$JS.API.X"},
		{func(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "AZ") }, "AZ.X"},
		{func(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "AZ.") }, "AZ.X"},
		{func(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.NewWithDomain(nc, "hub") }, "$JS.hub.API.X"},
	} {
		js, err := test.make(&nats.Conn{})
		if err != nil {
			t.Fatal(err)
		}
		if got := apiSubject(js, "X"); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}

// TestFindingRate logs a finding again when enough time has passed, and sooner when it says something new.
func TestFindingRate(t *testing.T) {
	t.Parallel()
	var never *findingRate
	if !never.due(0, "a") {
		t.Error("the first one is held back")
	}
	r := &findingRate{last: time.Minute, text: "a"}
	for _, test := range []struct {
		after time.Duration
		text  string
		want  bool
	}{
		{findingEvery - 1, "a", false},
		{findingEvery, "a", true},
		{findingAnew - 1, "b", false},
		{findingAnew, "b", true},
	} {
		if got := r.due(time.Minute+test.after, test.text); got != test.want {
			t.Errorf("%s after %s: %t", test.text, test.after, got)
		}
	}
}

func TestGist(t *testing.T) {
	t.Parallel()
	a, b := fmt.Errorf("read: %w: refused", natsconn.ErrNotConnected), fmt.Errorf("read: %w: reset", natsconn.ErrNotConnected)
	if gist(a) != gist(b) {
		t.Errorf("two words for no connection: %q, %q", gist(a), gist(b))
	}
	if gist(errors.New("x")) == gist(errors.New("y")) || gist(nil) == gist(a) {
		t.Error("different errors are one")
	}
}

func TestAttemptLimit(t *testing.T) {
	t.Parallel()
	s := allowlist.DefaultSettings()
	if got := attemptLimit(s); got != 2*time.Second {
		t.Errorf("%s with the defaults", got)
	}
	s.MaxStaleness /= 5
	if got := attemptLimit(s); got != 750*time.Millisecond {
		t.Errorf("%s with max_staleness %s", got, s.MaxStaleness)
	}
}
