package sim

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// message is one message in the stream. The stamp is nil when no writer made its value.
type message struct {
	key       string
	sequence  uint64
	operation allowlist.Operation
	value     []byte
	stamp     *stamp
	sent, at  time.Duration // when it was sent and when it was stored, in true time
}

// stamp is what the simulation knows about a record of a writer: it is read without the code under test.
type stamp struct {
	heartbeat             bool
	epoch, revision, beat uint64
	live                  bool
	// issued is the true time at which the writer made it, napped how long that writer's machine had slept unnoticed
	// by then: the proof may be older by that much than the writer knew.
	issued, napped time.Duration
}

// after reports whether s is from a later epoch than other, or from the same epoch and later in it.
func (s *stamp) after(other *stamp) bool {
	switch {
	case s.epoch != other.epoch:
		return s.epoch > other.epoch
	case s.revision != other.revision:
		return s.revision > other.revision
	default:
		return s.beat > other.beat
	}
}

// broker is one stream with two keys. Readers have replicas of it, which lag: see link.
type broker struct {
	w        *World
	sequence uint64
	// log is everything that replicas were told, in order. A wipe is a message without a key.
	log []*message
	// forgot says that sequences may have been given twice, so that a compare-and-set may compare equal by chance.
	forgot bool
	// fenced are the epochs of which a snapshot was stored.
	fenced map[uint64]bool

	down bool
	// doubt is the chance that a write has an outcome that nobody learns. staleLook is how old leader-reads are.
	doubt     float64
	staleLook time.Duration
}

func newBroker(w *World) *broker { return &broker{w: w, fenced: map[uint64]bool{}} }

// asOf is the newest message on a key at a time; nil when there is none.
func (b *broker) asOf(key string, at time.Duration) *message {
	for i := len(b.log) - 1; i >= 0; i-- {
		switch m := b.log[i]; {
		case m.at > at:
		case m.key == "":
			return nil
		case m.key == key:
			return m
		}
	}
	return nil
}

func (b *broker) last(key string) *message { return b.asOf(key, b.w.now) }

// read is a leader-read of both keys.
func (b *broker) read(l *leader) {
	w := b.w
	if b.down || l.cutFromBroker || w.chance(b.doubt/2) {
		l.answer(patience, func() allowlist.Input { return allowlist.LookFailed{Err: errBroker} })
		return
	}
	there := w.between(200*time.Microsecond, 3*time.Millisecond)
	var found allowlist.Looked
	w.after(there, func() {
		at := w.now - b.staleLook
		found = allowlist.Looked{
			Snapshot: stored(b.asOf(allowlist.SnapshotKey(gatewayID), at)), Heartbeat: stored(b.asOf(allowlist.HeartbeatKey(gatewayID), at)),
		}
	})
	l.answer(there+w.between(200*time.Microsecond, 3*time.Millisecond), func() allowlist.Input { return found })
}

func stored(m *message) allowlist.Stored {
	if m == nil {
		return allowlist.Stored{}
	}
	return allowlist.Stored{Sequence: m.sequence, Operation: m.operation, Value: m.value}
}

// write takes a write of a leader: it comes to be or not, now or later, and the leader learns of it or not.
func (b *broker) write(l *leader, write allowlist.Write) {
	w := b.w
	m := &message{key: write.Key, operation: allowlist.OperationPut, value: write.Record, stamp: read(write.Record), sent: w.now}
	m.stamp.issued, m.stamp.napped = w.now, l.napped(0)
	w.archive = append(w.archive, m)
	doubtful := func() allowlist.Input { return allowlist.Written{Err: errBroker} }
	there, back := w.between(200*time.Microsecond, 3*time.Millisecond), w.between(200*time.Microsecond, 3*time.Millisecond)
	switch fate := w.random.Float64(); {
	case b.down || l.cutFromBroker:
		l.answer(patience, doubtful)
		return
	case fate < b.doubt/3:
		w.note("%s: a write of %s is lost", l.name, m.key)
		l.answer(patience, doubtful)
		return
	case fate < b.doubt*2/3:
		late := w.between(100*time.Millisecond, 15*time.Second)
		w.note("%s: a write of %s comes %s late", l.name, m.key, late)
		w.after(late, func() {
			if w.now < w.weather.calm {
				b.compareAndSet(l, m, write)
			}
		})
		l.answer(patience, doubtful)
		return
	case fate < b.doubt:
		w.note("%s: the answer to a write of %s is lost", l.name, m.key)
		w.after(there, func() { b.compareAndSet(l, m, write) })
		l.answer(patience, doubtful)
		return
	}
	send := w.after
	if w.chance(0.5) {
		send = l.after // it has not left the process: a pause holds it, and death ends it
	}
	var outcome allowlist.Written
	send(there, func() { outcome = b.compareAndSet(l, m, write) })
	l.answer(there+back, func() allowlist.Input { return outcome })
}

// compareAndSet stores a message when the key's last sequence is the expected one. The largest sequence expects
// nothing: a plain put, which only a broken writer sends.
func (b *broker) compareAndSet(l *leader, m *message, write allowlist.Write) allowlist.Written {
	before := b.last(m.key)
	plain := write.ExpectSequence == ^uint64(0) || b.w.options.Sabotage == IgnoreExpectations
	if !plain && write.ExpectSequence != stored(before).Sequence {
		b.w.note("%s: a write of %s conflicts: %d expected, %d found", l.name, m.key, write.ExpectSequence, stored(before).Sequence)
		return allowlist.Written{Result: allowlist.WriteConflict}
	}
	b.w.judge.replaced(b, before, m)
	b.store(m)
	if !m.stamp.heartbeat {
		b.fenced[m.stamp.epoch] = true
	}
	if write.TTL > 0 {
		b.w.after(write.TTL+b.w.between(0, time.Second), func() { b.expire(m) })
	}
	return allowlist.Written{Result: allowlist.WriteStored, Sequence: m.sequence}
}

// store appends a message and tells the readers.
func (b *broker) store(m *message) {
	b.sequence++
	m.sequence, m.at = b.sequence, b.w.now
	b.log = append(b.log, m)
	if b.w.options.Trace {
		b.w.note("broker: %s", m.show())
	}
	for _, r := range b.w.readers {
		if r.broker == b {
			r.link.carry(m)
		}
	}
}

// expire writes the marker of a message whose time is up, when it is still the newest.
func (b *broker) expire(m *message) {
	if b.last(m.key) == m {
		b.store(&message{key: m.key, operation: allowlist.OperationExpire})
	}
}

// wipe empties the stream, as a restart without its volume does.
func (b *broker) wipe() {
	b.w.note("broker: wiped")
	b.log = append(b.log, &message{at: b.w.now})
	b.sequence, b.forgot = 0, true
}

// restore brings back a copy of the stream from an earlier time: its last messages, and its sequences.
func (b *broker) restore(from time.Duration) {
	b.w.note("broker: restored from a copy of %s", from)
	var again []*message
	sequence := uint64(0)
	for _, key := range []string{allowlist.SnapshotKey(gatewayID), allowlist.HeartbeatKey(gatewayID)} {
		if m := b.asOf(key, from); m != nil {
			again = append(again, m)
			sequence = max(sequence, m.sequence)
		}
	}
	b.wipe()
	for _, m := range again {
		back := *m
		back.at = b.w.now
		b.log = append(b.log, &back)
	}
	b.sequence = sequence
}

// highest is the highest epoch that was stored.
func (b *broker) highest() (epoch uint64) {
	for e := range b.fenced {
		epoch = max(epoch, e)
	}
	return epoch
}

// split makes another side of the broker, which holds what this one does and goes its own way.
func (b *broker) split() *broker {
	b.w.note("broker: split")
	side := newBroker(b.w)
	side.sequence, side.forgot, side.log = b.sequence, b.forgot, slices.Clone(b.log)
	maps.Copy(side.fenced, b.fenced)
	return side
}

// read takes a record apart without looking at its signature.
func read(record []byte) *stamp {
	var r struct {
		Payload struct {
			Epoch    uint64 `json:"epoch"`
			Revision uint64 `json:"revision"`
			Beat     uint64 `json:"beat"`
			State    string `json:"state"`
		} `json:"payload"`
	}
	if json.Unmarshal(record, &r) != nil {
		return &stamp{}
	}
	p := r.Payload
	return &stamp{heartbeat: p.Beat > 0, epoch: p.Epoch, revision: p.Revision, beat: p.Beat, live: p.State == "live"}
}
