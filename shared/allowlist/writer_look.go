package allowlist

import (
	"bytes"
	"errors"
	"fmt"
)

// found is a stored message after verification.
type found struct {
	// epoch is zero when there is no record, or one that does not count.
	epoch    uint64
	revision uint64
	digest   Digest
	writer   string
	list     List // of a snapshot
	value    []byte
}

// verify reads what a leader-read found on a key. What does not count was not written by any writer: it is reported,
// and overwritten by compare-and-set (rule W2).
func (w *Writer) verify(key string, s Stored, p *Plan) found {
	if s.Sequence == 0 {
		return found{}
	}
	if s.Operation != OperationPut || len(s.Value) == 0 {
		p.find(FoundGone, key, errors.New(s.Operation.String()))
		return found{}
	}
	if key == SnapshotKey(w.config.GatewayID) {
		if b := w.lists.base; b != nil && b.record != nil && bytes.Equal(b.record, s.Value) {
			// This writer's own bytes: to open them every few seconds would be its greatest cost.
			return found{w.epoch, b.revision, b.digest, w.config.Name, b.list, s.Value}
		}
		snapshot, digest, err := OpenSnapshot(s.Value, w.keys, w.config.GatewayID)
		if err != nil {
			p.find(FoundRejected, key, err)
			return found{}
		}
		return found{snapshot.Epoch, snapshot.Revision, digest, snapshot.Writer, snapshot.Namespaces, s.Value}
	}
	h, err := OpenHeartbeat(s.Value, w.keys, w.config.GatewayID)
	if err != nil {
		p.find(FoundRejected, key, err)
		return found{}
	}
	return found{h.Epoch, h.Revision, h.Digest, h.Writer, List{}, s.Value}
}

// looked takes the outcome of a leader-read.
func (w *Writer) looked(at Instant, in Looked, p *Plan) {
	b := &w.broker
	b.snapshotSequence, b.heartbeatSequence = in.Snapshot.Sequence, in.Heartbeat.Sequence
	b.read, b.doubt, b.readAt = true, false, at.Mono
	b.nextLook = at.Mono + lookEvery*w.config.Settings.HeartbeatInterval.Std()
	snapshot := w.verify(SnapshotKey(w.config.GatewayID), in.Snapshot, p)
	heartbeat := w.verify(HeartbeatKey(w.config.GatewayID), in.Heartbeat, p)
	if w.epoch == 0 {
		w.begin(at, snapshot, heartbeat)
	} else if w.succeeded(snapshot) || w.succeeded(heartbeat) {
		if w.phase == stopping {
			w.part(FarewellSucceeded) // the gate stays open
		}
		return
	}
	switch {
	case w.over != nil || w.phase == stopping:
	case snapshot.epoch == w.epoch:
		w.foundOwn(at, snapshot)
	case w.phase == takingOver:
		w.foundBefore(snapshot, heartbeat)
	default:
		w.foundOther(SnapshotKey(w.config.GatewayID), snapshot, p)
		w.lists.rewrite = true
	}
	if w.phase == leading && heartbeat.epoch != w.epoch {
		w.foundOther(HeartbeatKey(w.config.GatewayID), heartbeat, p)
		w.beats.next = min(w.beats.next, at.Mono+w.pause())
	}
}

// begin chooses the epoch (rule W2).
func (w *Writer) begin(at Instant, snapshot, heartbeat found) {
	epoch := max(snapshot.epoch+1, heartbeat.epoch+1, w.config.EpochFloor+1)
	if ms := at.Wall.UnixMilli(); ms > 0 && uint64(ms) <= maxWhole {
		epoch = max(epoch, uint64(ms))
	}
	if epoch > maxWhole {
		w.end(EndDefect, fmt.Errorf("no epoch is left above %d: remove the records of the bucket", epoch-1))
		return
	}
	w.epoch, w.began = epoch, at.Mono
}

// succeeded ends the term when a record is of another writer of this epoch or a later one.
func (w *Writer) succeeded(f found) bool {
	switch {
	case f.epoch > w.epoch:
		w.end(EndSuperseded, fmt.Errorf("writer %s has written under epoch %d, after epoch %d of this one", quote(f.writer), f.epoch, w.epoch))
	case f.epoch == w.epoch && f.writer != w.config.Name:
		w.end(EndSplit, fmt.Errorf("writer %s has written under epoch %d too", quote(f.writer), f.epoch))
	default:
		return false
	}
	return true
}

// foundOwn takes a snapshot of this term: the newest, one whose write was in doubt, or one that a broker fell back to.
func (w *Writer) foundOwn(at Instant, f found) {
	l := &w.lists
	own := &published{revision: f.revision, digest: f.digest, list: f.list, record: f.value}
	switch {
	case w.phase == takingOver || l.base == nil || f.revision > l.base.revision:
		w.adopt(at, own)
	case f.digest != l.base.digest:
		l.rewrite = true
	default:
		l.rewrite = false
	}
}

// foundBefore takes what the writer before has left. The fencing write is the revision after it.
func (w *Writer) foundBefore(snapshot, heartbeat found) {
	l := &w.lists
	newest := snapshot
	if (stamp{heartbeat.epoch, heartbeat.revision}).compare(stamp{snapshot.epoch, snapshot.revision}) > 0 {
		newest = heartbeat // its list is lost
	}
	if newest.epoch > 0 {
		l.base = &published{revision: newest.revision, digest: newest.digest, list: newest.list}
		l.highest = max(l.highest, newest.revision)
	}
}

// foundOther reports a record of an earlier writer on a key of this one, which the broker must have fallen back to.
func (w *Writer) foundOther(key string, f found, p *Plan) {
	if f.epoch > 0 {
		p.find(FoundForeign, key, fmt.Errorf("writer %s, epoch %d", quote(f.writer), f.epoch))
	}
}

// lookFailed tries again soon when there was doubt, and at the usual time when there was none.
func (w *Writer) lookFailed(at Instant, in LookFailed, p *Plan) {
	p.find(FoundDoubt, "", in.Err)
	b := &w.broker
	switch {
	case w.phase == stopping && at.Mono >= w.stopAt:
		w.part(FarewellUnknown)
	case b.read && !b.doubt:
		b.nextLook = at.Mono + lookEvery*w.config.Settings.HeartbeatInterval.Std()
	default:
		b.nextLook = at.Mono + w.pause()
	}
}
