package allowlist

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// message is a record with what is true about it.
type message struct {
	seen
	value []byte
}

// storm is one random life of a reader: mostly a healthy writer, and everything that can go wrong around it.
type storm struct {
	t       *testing.T
	random  *rand.Rand
	reader  *Reader
	clock   *clockwork
	history history
	author  *author
	rev     uint64
	past    []message
	names   map[uint64][]string
	wrong   time.Duration // how far the writer's wall clock is behind
	trace   []string
}

var stormNames = []string{"a", "b", "c", "d"}

func newStorm(t *testing.T, seed uint64) *storm {
	s := testSettings()
	x := &storm{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), reader: testReader(t, Marks{}), clock: newClockwork(time.Hour),
		history: history{interval: s.HeartbeatInterval.Std(), maxStaleness: s.MaxStaleness.Std(), maxSkew: s.MaxClockSkew.Std()},
	}
	x.takeOver()
	x.tell(Tick{}, seen{}, "start") // nothing can be said about clocks before
	return x
}

func (x *storm) takeOver() {
	epoch := uint64(1)
	if x.author != nil {
		epoch = x.author.epoch + 1
	}
	x.author = newAuthor(x.t, epoch, x.clock.at.Mono-x.millis(5000))
	x.rev++
	x.wrong = 0
	x.names = map[uint64][]string{}
}

func (x *storm) millis(n int) time.Duration {
	return time.Duration(x.random.IntN(n)) * time.Millisecond
}

// list makes the snapshot of a revision, the same one every time.
func (x *storm) list(revision uint64) message {
	names, known := x.names[revision]
	if !known {
		for _, name := range stormNames {
			if x.random.IntN(2) == 0 {
				names = append(names, name)
			}
		}
		x.names[revision] = names
	}
	value, stored := x.author.stored[revision]
	if !stored {
		value = x.author.snapshot(revision, x.clock.at, names...)
	}
	m := message{value: value, seen: seen{
		key: SnapshotKey(gateway), valid: true, stamp: stamp{x.author.epoch, revision}, digest: x.author.lists[revision], names: map[string]bool{},
	}}
	for _, name := range names {
		m.names[name] = true
	}
	return m
}

// vouch makes the next beat, issued a while ago.
func (x *storm) vouch(revision uint64, ago time.Duration, edits ...func(*Heartbeat)) message {
	x.list(revision)
	var h Heartbeat
	now := x.clock.at
	now.Mono, now.Wall = max(now.Mono-ago, x.author.began), now.Wall.Add(-ago-x.wrong)
	value := x.author.heartbeat(revision, now, append(edits, func(made *Heartbeat) { h = *made })...)
	return message{value: value, seen: seen{
		key: HeartbeatKey(gateway), valid: true, stamp: stamp{h.Epoch, h.Revision}, digest: h.Digest,
		beat: h.Beat, issued: h.Issued, published: h.PublishedAt, withdrawn: h.Withdrawn(),
	}}
}

// tell gives an event to the reader and to the history, and compares them.
func (x *storm) tell(event Event, e seen, what string) {
	e.at = x.clock.at
	if n := len(x.history.events); n > 0 && e.gap == noGap && e.at.Mono-x.history.events[n-1].at.Mono >= x.history.maxStaleness {
		e.gap = fullGap
	}
	x.trace = append(x.trace, fmt.Sprintf("%s %s", e.at.Mono, what))
	x.reader.Step(x.clock.at, event)
	x.history.add(e)
	if got, want := x.reader.View().Condition(x.clock.at), x.history.condition(); got != want {
		x.fail("the reader is %v, the history says %v", got, want)
	}
	for _, name := range stormNames {
		got := x.reader.View().Check(name, x.clock.at)
		if want := x.history.answer(name); got.Reason != want || got.Allowed() != (want == "") {
			x.fail("%s: the reader says %q, the history %q", name, got.Reason, want)
		}
	}
}

func (x *storm) fail(format string, args ...any) {
	x.t.Helper()
	for _, line := range x.trace {
		x.t.Log(line)
	}
	x.t.Fatalf(format, args...)
}

func (x *storm) deliver(m message, what string) {
	x.past = append(x.past, m)
	x.tell(Record{Key: m.key, Operation: OperationPut, Value: m.value}, m.seen, fmt.Sprintf("%s %v beat %d", what, m.stamp, m.beat))
}

// step is one random event.
func (x *storm) step() {
	x.clock.pass(x.millis(1400))
	switch n := x.random.IntN(100); {
	case n < 46:
		x.deliver(x.vouch(x.rev, x.millis(200)), "beat")
	case n < 50:
		x.deliver(x.vouch(x.rev, x.millis(20_000)), "late beat")
	case n < 58:
		x.deliver(x.list(x.rev), "list")
	case n < 68:
		x.rev++
		x.deliver(x.list(x.rev), "new list")
	case n < 70:
		x.rev++
		x.deliver(x.vouch(x.rev, 0), "beat ahead of its list")
	case n < 73:
		x.takeOver()
		x.deliver(x.list(x.rev), "take-over")
	case n < 79 && len(x.past) > 0:
		x.deliver(x.past[x.random.IntN(len(x.past))], "again")
	case n < 81:
		x.deliver(x.vouch(x.rev, 0, func(h *Heartbeat) { h.Reason = "gone" }), "withdrawal")
	case n < 83:
		x.deliver(x.vouch(x.rev, 0, func(h *Heartbeat) { h.PublishedAt = h.PublishedAt.Add(-time.Minute) }), "beat with another wall clock")
	case n < 84:
		x.deliver(x.vouch(x.rev, 0, func(h *Heartbeat) { h.Digest[0] ^= 1 }), "forked beat")
	default:
		x.trouble(n)
	}
}

// trouble is an event that no writer causes.
func (x *storm) trouble(n int) {
	key := []string{SnapshotKey(gateway), HeartbeatKey(gateway)}[n%2]
	switch {
	case n < 87:
		x.tell(Record{Key: key, Operation: OperationPut, Value: []byte("{}")}, seen{key: key}, "garbage on "+key)
	case n < 90:
		x.tell(Record{Key: key, Operation: OperationExpire}, seen{key: key, gone: true, spent: true}, "expiry of "+key)
	case n < 91:
		d := 2*time.Second + x.millis(60_000)
		x.clock.sleep(d)
		x.author.began -= d // the writer was awake
		x.tell(Tick{}, seen{gap: fullGap}, "sleep")
	case n < 92:
		x.clock.step(31 * time.Second)
		x.wrong += time.Duration(x.random.IntN(2)) * 31 * time.Second
		x.tell(Tick{}, seen{gap: stepGap}, "step of the wall clock")
	case n < 93:
		x.clock.pass(15*time.Second + x.millis(1000))
		x.tell(Tick{}, seen{}, "stall")
	case n < 94:
		x.tell(Record{Key: "other", Operation: OperationPut}, seen{}, "stray")
	case n < 96:
		for range 14 {
			x.clock.pass(time.Second)
			x.tell(Tick{}, seen{}, "silence")
		}
	default:
		x.tell(Tick{}, seen{}, "tick")
	}
}

// TestReaderAgainstHistory compares the state machine, which keeps as little as it can, with a search through
// everything it was ever told.
func TestReaderAgainstHistory(t *testing.T) {
	reasons := map[verdict.Reason]int{}
	total := 0
	for seed := range uint64(40) {
		x := newStorm(t, seed)
		for range 60 {
			x.step()
			reasons[x.reader.View().Condition(x.clock.at).Reason]++
			total++
		}
	}
	// The storms must reach every state, and the open one often, or they prove nothing.
	for _, reason := range []verdict.Reason{"", verdict.Unsynced, verdict.Stale, verdict.Withdrawn, verdict.Invalid, verdict.Forked, verdict.Behind} {
		if share := 100 * reasons[reason] / total; share < 1 || reason == "" && share < 15 {
			t.Errorf("reason %q was seen in %d of %d steps", reason, reasons[reason], total)
		}
	}
	t.Logf("%d steps: %v", total, reasons)
}
