package allowkv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivered is a message with whatever a server may say about it.
type delivered struct {
	jetstream.Msg
	meta jetstream.MsgMetadata
	err  error
}

func (d *delivered) Metadata() (*jetstream.MsgMetadata, error) { return &d.meta, d.err }
func (d *delivered) Subject() string                           { return subject("gw-1.snapshot") }
func (d *delivered) Headers() nats.Header                      { return nil }
func (d *delivered) Data() []byte                              { return []byte("v") }

// TestAcceptOnlyTheNextMessage: a lost, doubled or foreign message ends the generation, and so does a stream whose
// sequence goes back.
func TestAcceptOnlyTheNextMessage(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*delivered)
		refuse bool
	}{
		{"the next one", func(*delivered) {}, false},
		{"with a gap in the stream, which other keys fill", func(d *delivered) { d.meta.Sequence.Stream += 100 }, false},
		{"a lost one before it", func(d *delivered) { d.meta.Sequence.Consumer++ }, true},
		{"the same again", func(d *delivered) { d.meta.Sequence.Consumer-- }, true},
		{"an older one of the stream", func(d *delivered) { d.meta.Sequence.Stream -= 2 }, true},
		{"the same of the stream", func(d *delivered) { d.meta.Sequence.Stream-- }, true},
		{"of another consumer", func(d *delivered) { d.meta.Consumer = "x" }, true},
		{"of another stream", func(d *delivered) { d.meta.Stream = "KV_x" }, true},
		{"of no consumer", func(d *delivered) { d.err = jetstream.ErrNotJSMessage }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGeneration("f", jetstream.DeliverAllPolicy)
			first := &delivered{meta: jetstream.MsgMetadata{
				Stream: Stream, Consumer: g.name, Sequence: jetstream.SequencePair{Consumer: 1, Stream: 40},
			}}
			if m, err := g.accept(first); err != nil || m.key != "gw-1.snapshot" || m.sequence != 40 {
				t.Fatalf("first: %+v, %v", m, err)
			}
			next := &delivered{meta: first.meta}
			next.meta.Sequence = jetstream.SequencePair{Consumer: 2, Stream: 41}
			c.edit(next)
			if _, err := g.accept(next); (err != nil) != c.refuse {
				t.Errorf("error %v, want one: %v", err, c.refuse)
			}
		})
	}
}

// TestWorked: only a generation that lasted, and brought more than what was there when it began, lets the next come
// quickly. Otherwise all readers download the list again and again while the writer is silent.
func TestWorked(t *testing.T) {
	for _, c := range []struct {
		name    string
		pending []uint64 // after each message
		empty   bool     // at the beginning
		lasted  time.Duration
		want    bool
	}{
		{"no message", nil, false, time.Minute, false},
		{"the list alone", []uint64{0}, false, time.Minute, false},
		{"the list and the beat", []uint64{1, 0}, false, time.Minute, false},
		{"a beat after them", []uint64{1, 0, 0}, false, time.Minute, true},
		{"a beat after them that others follow", []uint64{1, 0, 5}, false, time.Minute, true},
		{"a beat after them, too short", []uint64{1, 0, 0}, false, time.Second, false},
		{"the first that was ever written", []uint64{0}, true, time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGeneration("f", jetstream.DeliverLastPerSubjectPolicy)
			g.loaded = c.empty
			for i, pending := range c.pending {
				n := uint64(i) + 1
				m := &delivered{meta: jetstream.MsgMetadata{
					Stream: Stream, Consumer: g.name, Sequence: jetstream.SequencePair{Consumer: n, Stream: n}, NumPending: pending,
				}}
				if _, err := g.accept(m); err != nil {
					t.Fatal(err)
				}
			}
			if got := g.worked(c.lasted); got != c.want {
				t.Errorf("worked: %v", got)
			}
		})
	}
}

// TestLateDelivery: the client library may hand over a message after everything has ended.
func TestLateDelivery(t *testing.T) {
	f := newFeed(noConnection{}, "gw-1", NewClock())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.run(ctx)
	<-f.done
	g := newGeneration("f", jetstream.DeliverAllPolicy)
	f.deliver(g, &message{})
	close(g.over)
	for range 2 * feedQueue { // nobody takes them
		f.deliver(g, &message{})
	}
}

// TestRefusedSince: a refusal that a connection remembers from earlier is not the cause of what happens now.
func TestRefusedSince(t *testing.T) {
	refusal := func(operation string) error {
		return fmt.Errorf("%w: Permissions Violation for Publish to \"$JS.API.CONSUMER.%s.x\"", nats.ErrPermissionViolation, operation)
	}
	old := refusal("CREATE")
	inbox := fmt.Errorf("%w: Permissions Violation for Subscription to \"mine.x.*\"", nats.ErrPermissionViolation)
	for _, c := range []struct {
		name          string
		before, after error
		refused       bool
	}{
		{"nothing", nil, nil, false},
		{"a refusal", nil, refusal("CREATE"), true},
		{"an old one", old, old, false},
		{"an old one again", old, refusal("CREATE"), true},
		{"of the inbox", nil, inbox, true},
		{"of the inbox, an old one", inbox, inbox, true},
		{"of something else", nil, refusal("DELETE"), false},
		{"another error", nil, nats.ErrTimeout, false},
	} {
		got := refusedSince(c.before, c.after)
		if (got != nil) != c.refused {
			t.Errorf("%s: %v", c.name, got)
		}
		if err := explainRequest("f", context.DeadlineExceeded, got); errors.Is(err, ErrRefused) != c.refused {
			t.Errorf("%s: explained as %v", c.name, err)
		}
	}
}

func TestSuspectNeverBlocks(t *testing.T) {
	g := newGeneration("f", jetstream.DeliverAllPolicy)
	first := doubt{doubtGap, errors.New("first")}
	for range 3 {
		g.suspect(first)
		first.err = errors.New("later")
	}
	if d := <-g.doubts; d.cause != doubtGap || d.err.Error() != "first" {
		t.Errorf("the doubt is %v", d)
	}
}

func TestClassifyConsumeError(t *testing.T) {
	for err, want := range map[error]doubtCause{
		jetstream.ErrNoHeartbeat:               doubtHeartbeat,
		jetstream.ErrConsumerDeleted:           doubtDeleted,
		jetstream.ErrServerShutdown:            doubtServer,
		jetstream.ErrConsumerLeadershipChanged: doubtServer,
		jetstream.ErrConnectionClosed:          doubtSession,
		nats.ErrNoResponders:                   doubtOther,
	} {
		if got := classifyConsumeError(err); got.cause != want || !errors.Is(got, err) {
			t.Errorf("%v is %s, want %s", err, got.cause, want)
		}
	}
}

// TestBackoff: every wait is within its bounds, and the waits grow.
func TestBackoff(t *testing.T) {
	early, late := time.Duration(0), time.Duration(0)
	const runs, steps = 50, 12
	for range runs {
		wait := feedBackoff()
		for i := range steps {
			d := wait.NextBackOff()
			if d < 0 || d > feedWaitMax {
				t.Fatalf("wait %d is %s", i, d)
			}
			switch i {
			case 0:
				if d > 100*time.Millisecond {
					t.Fatalf("the first wait is %s", d)
				}
				early += d
			case steps - 1:
				late += d
			}
		}
	}
	if late/runs < 10*(early/runs) {
		t.Errorf("the waits grow from %s to %s on average", early/runs, late/runs)
	}
}

// TestPauseEndsWithItsContext does not wait.
func TestPauseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	go func() { pause(ctx, time.Hour); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("the pause outlives its context")
	}
}
