package allowlist

import (
	"time"
)

// brokerSim is a broker that is honest, except when it is not.
type brokerSim struct {
	store
	down, noAck time.Duration // until then
	log         []Record      // everything that was ever stored
	backups     []store
}

// write stores a record, or does not, and says what became of it.
func (b *brokerSim) write(w *world, write Write, answer func(Written)) {
	latency := w.between(time.Millisecond, 40*time.Millisecond)
	if w.now < b.down {
		// Perhaps it waits somewhere, to be stored later.
		if w.chance(300) {
			w.after(w.between(time.Second, 60*time.Second), func() { b.commit(w, write) })
		}
		w.after(2*time.Second, func() { answer(Written{Err: errTimeout}) })
		return
	}
	w.after(latency, func() {
		result := b.commit(w, write)
		if w.now < b.noAck {
			w.after(2*time.Second, func() { answer(Written{Err: errTimeout}) })
			return
		}
		w.after(latency, func() { answer(result) })
	})
}

func (b *brokerSim) commit(w *world, write Write) Written {
	if write.ExpectSequence == ^uint64(0) {
		// Only a faulty writer does this.
		w.violate("rule W1: a write to %s that expects nothing", write.Key)
		return Written{}
	}
	result := b.cas(write)
	if result.Result == WriteStored {
		m := Record{Key: write.Key, Operation: OperationPut, Value: write.Record}
		b.publish(w, m)
		if write.TTL > 0 {
			sequence := result.Sequence
			w.after(write.TTL, func() { b.expire(w, write.Key, sequence) })
		}
		if w.chance(30) {
			b.backups = append(b.backups, store{sequence: b.sequence, keys: cloneKeys(b.keys)})
		}
	}
	return result
}

func (b *brokerSim) publish(w *world, m Record) {
	b.log = append(b.log, m)
	for _, r := range w.readers {
		r.send(m)
	}
}

// expire writes the marker of a message whose time is up. The markers are not to be relied upon: half of them never come.
func (b *brokerSim) expire(w *world, key string, sequence uint64) {
	if b.keys[key].Sequence == sequence && w.chance(500) {
		b.put(key, OperationExpire, nil)
		b.publish(w, Record{Key: key, Operation: OperationExpire})
	}
}

func (b *brokerSim) look(w *world, answer func(Input)) {
	if w.now < b.down {
		w.after(2*time.Second, func() { answer(LookFailed{Err: errTimeout}) })
		return
	}
	w.after(w.between(time.Millisecond, 40*time.Millisecond), func() { answer(b.store.look()) })
}

// restore brings back an older state of the store, perhaps grown past the old end.
func (b *brokerSim) restore(w *world) {
	if len(b.backups) == 0 {
		return
	}
	backup := b.backups[w.random.IntN(len(b.backups))]
	b.store = store{sequence: backup.sequence, keys: cloneKeys(backup.keys)}
	if w.chance(500) {
		b.sequence += 1000
		for key, m := range b.keys {
			m.Sequence = b.sequence
			b.keys[key] = m
		}
	}
	w.note("the broker is restored from a backup")
	for _, m := range b.last() {
		for _, r := range w.readers {
			r.send(m)
		}
	}
}

// last is the newest message of each key, as a consumer gets them when it starts.
func (b *brokerSim) last() (records []Record) {
	list, beat := b.keys[SnapshotKey(gateway)], b.keys[HeartbeatKey(gateway)]
	messages := []Record{
		{Key: SnapshotKey(gateway), Operation: list.Operation, Value: list.Value},
		{Key: HeartbeatKey(gateway), Operation: beat.Operation, Value: beat.Value},
	}
	if list.Sequence > beat.Sequence {
		messages[0], messages[1] = messages[1], messages[0]
	}
	for _, m := range messages {
		if b.keys[m.Key].Sequence > 0 {
			records = append(records, m)
		}
	}
	return records
}

// inject delivers old records once more, or forged ones, to one reader.
func (b *brokerSim) inject(w *world, r *readerSim) {
	if len(b.log) > 0 && w.chance(700) {
		from := w.random.IntN(len(b.log))
		to := min(len(b.log), from+w.random.IntN(30))
		w.note("reader %d gets %d old records", r.id, to-from)
		for _, m := range b.log[from:to] {
			r.send(m)
		}
		return
	}
	w.note("reader %d gets forged records", r.id)
	forger := newAuthor(w.t, uint64(w.now.Milliseconds())+1<<42, r.instant().Mono)
	forger.signer = testSigner(w.t, 9)
	forger.signer.public.id = testSigner(w.t, 1).public.id
	at := r.instant()
	list := forger.snapshot(1, at, evil)
	r.send(Record{Key: SnapshotKey(gateway), Operation: OperationPut, Value: list})
	for i := range 4 {
		m := Record{Key: HeartbeatKey(gateway), Operation: OperationPut, Value: forger.heartbeat(1, at)}
		w.after(time.Duration(i)*time.Second, func() { r.send(m) })
		at.Mono, at.Wall = at.Mono+time.Second, at.Wall.Add(time.Second)
	}
}

// equivocate delivers, signed with the true key, a second list of the revision that a reader holds: a writer that is
// broken. Nothing may be granted in that epoch afterwards.
func (b *brokerSim) equivocate(w *world, r *readerSim) {
	marks := r.reader.Marks()
	if marks.Epoch == 0 || w.chance(700) {
		return
	}
	w.note("reader %d gets a second revision %d of epoch %d", r.id, marks.Revision, marks.Epoch)
	a := newAuthor(w.t, marks.Epoch, 0)
	r.deliver(Record{Key: SnapshotKey(gateway), Operation: OperationPut, Value: a.snapshot(marks.Revision, r.instant(), "a", "b", "c", "d")})
	r.forked = marks.Epoch
}

func cloneKeys(keys map[string]Stored) map[string]Stored {
	clone := map[string]Stored{}
	for k, v := range keys {
		clone[k] = v
	}
	return clone
}
