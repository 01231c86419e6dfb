package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// forged is the name that the attacker wants to be trusted.
const forged = "forged"

// fork is the only attack that needs the writer's key: another list under a number that is taken. It stands for what
// no reader can tell from it, such as a bucket that split and was written on both sides.
const fork = "fork"

// attacks are what whoever holds the broker can do: to the bucket, or to what one reader is given of it.
var attacks = []fault{
	{name: "old record in the bucket", forgets: true, hides: true, do: func(w *World, _ time.Duration) { inBucket(w, old(w)) }},
	{name: "old record to a reader", do: func(w *World, _ time.Duration) { toReader(w, old(w)) }},
	{name: "recorded stream to a reader", delays: true, do: recorded},
	{name: "forged records in the bucket", forgets: true, hides: true, do: func(w *World, _ time.Duration) { inBucket(w, forge(w)...) }},
	{name: "forged records to a reader", do: func(w *World, _ time.Duration) { toReader(w, forge(w)...) }},
	{name: "garbage in the bucket", forgets: true, hides: true, do: func(w *World, _ time.Duration) { inBucket(w, garbage(w)) }},
	{name: "garbage to a reader", do: func(w *World, _ time.Duration) { toReader(w, garbage(w)) }},
	{name: "marker in the bucket", forgets: true, hides: true, do: func(w *World, _ time.Duration) { inBucket(w, marker(w)) }},
	{name: "marker to a reader", do: func(w *World, _ time.Duration) { toReader(w, marker(w)) }},
	{name: fork, do: func(w *World, _ time.Duration) { contradict(w) }},
}

// inBucket stores messages without asking for any sequence.
func inBucket(w *World, messages ...*message) {
	for _, m := range messages {
		if m != nil {
			w.broker.store(m)
		}
	}
}

// toReader slips messages into what a reader is given.
func toReader(w *World, messages ...*message) {
	r := pick(w, w.readers)
	for _, m := range messages {
		if m != nil {
			w.note("%s is slipped %s", r.name, m.show())
			r.link.send(m, 0)
		}
	}
}

func anyKey(w *World) string {
	if w.chance(0.5) {
		return allowlist.HeartbeatKey(gatewayID)
	}
	return allowlist.SnapshotKey(gatewayID)
}

// old is a record that some writer made before.
func old(w *World) *message {
	if len(w.archive) == 0 {
		return nil
	}
	return again(pick(w, w.archive))
}

func again(m *message) *message {
	return &message{key: m.key, operation: m.operation, value: m.value, stamp: m.stamp}
}

// recorded plays a stretch of the past to a reader, at its old pace, and cuts it off from the present meanwhile. Often
// the reader has just started.
func recorded(w *World, d time.Duration) {
	archive := w.archive
	if len(archive) == 0 {
		return
	}
	r := pick(w, w.readers)
	if w.chance(0.5) {
		r.crash(100 * time.Millisecond)
	}
	from := w.random.IntN(len(archive))
	during(w, d, func() { r.link.cut = true }, func() { r.link.cut = false })
	for _, m := range archive[from:] {
		if m.sent-archive[from].sent > d {
			return
		}
		// The reader's consumer is not to be taken for another one's: a restart takes some time.
		w.after(200*time.Millisecond+m.sent-archive[from].sent, func() {
			if r.up {
				r.after(0, func() { r.receive(again(m)) })
			}
		})
	}
}

// forge makes a list and a beat that vouches for it, signed by a stranger, sometimes in the name of the writer's key.
func forge(w *World) []*message {
	at := &stamp{epoch: 1, revision: 1}
	for _, m := range w.archive {
		if m.stamp.after(at) {
			at = m.stamp
		}
	}
	signer := w.stranger
	if w.options.Sabotage == SignStranger {
		signer = w.signers[0]
	}
	published := birth.Add(w.now).Truncate(time.Millisecond)
	list := must(allowlist.NewList([]allowlist.Entry{{Name: forged, UID: uidOf(w)}}))
	source := w.source.describe()
	source.Version = "1"
	snapshot, digest, err := allowlist.SealSnapshot(allowlist.Snapshot{
		GatewayID: gatewayID, Epoch: at.epoch, Revision: at.revision + 1, Writer: "forger", PublishedAt: published, Source: source, Namespaces: list,
	}, signer)
	must(snapshot, err)
	beat := must(allowlist.SealHeartbeat(allowlist.Heartbeat{
		GatewayID: gatewayID, Epoch: at.epoch, Revision: at.revision + 1, Digest: digest, Beat: at.beat + 1, Issued: time.Hour,
		PublishedAt: published, Writer: "forger", Proof: allowlist.Proof{Kind: allowlist.ProofList}, TTL: w.settings.HeartbeatTTL.Std(),
	}, signer))
	if w.chance(0.7) {
		own, writers := []byte(signer.Public().ID()), []byte(w.signers[0].Public().ID())
		snapshot, beat = bytes.Replace(snapshot, own, writers, 1), bytes.Replace(beat, own, writers, 1)
	}
	return []*message{
		{key: allowlist.SnapshotKey(gatewayID), operation: allowlist.OperationPut, value: snapshot},
		{key: allowlist.HeartbeatKey(gatewayID), operation: allowlist.OperationPut, value: beat},
	}
}

func uidOf(w *World) string {
	if w.source.kind == allowlist.SourceFile {
		return ""
	}
	return "uid-forged"
}

// garbage is a record that is none: cut, flipped, under the wrong key, empty, or noise.
func garbage(w *World) *message {
	value := make([]byte, w.random.IntN(200))
	for i := range value {
		value[i] = byte(w.random.Uint32())
	}
	key := anyKey(w)
	if len(w.archive) > 0 && w.chance(0.7) {
		m := pick(w, w.archive)
		value = slices.Clone(m.value)
		switch w.random.IntN(3) {
		case 0:
			value = value[:w.random.IntN(len(value))]
		case 1:
			value[w.random.IntN(len(value))] ^= byte(1 << w.random.IntN(8))
		default:
			if key == m.key {
				value = append(value, ' ')
			}
		}
	}
	return &message{key: key, operation: allowlist.OperationPut, value: value}
}

// marker removes a key's value, or does something that nobody knows.
func marker(w *World) *message {
	return &message{key: anyKey(w), operation: pick(w, []allowlist.Operation{
		allowlist.OperationUnknown, allowlist.OperationDelete, allowlist.OperationPurge, allowlist.OperationExpire,
	})}
}

// contradict stores another list under the number of the current one, when every reader has heard of that: one that
// has heard of neither can be told either, and no rule could help it.
func contradict(w *World) {
	m := w.broker.last(allowlist.SnapshotKey(gatewayID))
	if m == nil || m.stamp == nil {
		return
	}
	for _, r := range w.readers {
		marks := r.machine.Marks()
		if r.up && (marks.Epoch != m.stamp.epoch || marks.Revision != m.stamp.revision) {
			return
		}
	}
	s, _, err := allowlist.OpenSnapshot(m.value, w.keys, gatewayID)
	if err != nil {
		return
	}
	s.Writer, s.Namespaces, s.Changes = "impostor", pick(w, w.source.versions).list, allowlist.Changes{}
	value, _, err := allowlist.SealSnapshot(s, w.signers[0])
	must(value, err)
	w.broker.store(&message{key: m.key, operation: allowlist.OperationPut, value: value, stamp: m.stamp})
}
