package allowlist

import (
	"errors"
	"fmt"
	"time"
)

// record takes a message on a key.
func (r *Reader) record(at Instant, m Record, e *Effects) {
	if m.Key != r.snapshotKey && m.Key != r.heartbeatKey {
		// It says nothing about this list.
		e.find(FoundStray, m.Key, nil)
		return
	}
	if m.Operation != OperationPut || len(m.Value) == 0 {
		what := m.Operation.String()
		if m.Operation == OperationPut {
			what = "empty value"
		}
		e.find(FoundGone, m.Key, errors.New(what))
		r.fail(m.Key, absence(m, r.heartbeatKey))
		return
	}
	var err error
	if m.Key == r.snapshotKey {
		err = r.snapshot(m, e)
	} else {
		err = r.heartbeat(at, m, e)
	}
	if err != nil {
		e.find(FoundRejected, m.Key, err)
		r.fail(m.Key, bad)
	}
}

// absence tells a heartbeat that nobody renewed, which says that the writer is silent, from everything else that takes
// a value away.
func absence(m Record, heartbeatKey string) fault {
	if m.Key == heartbeatKey && m.Operation == OperationExpire {
		return spent
	}
	return gone
}

// fail ends Fresh because of the current value of a key, until a record on that key is accepted (rules R1, R6).
func (r *Reader) fail(key string, f fault) {
	r.proof = nil
	if key == r.snapshotKey {
		r.snapshotFault = f
		return
	}
	r.heartbeatFault = f
}

// snapshot takes a value of the snapshot key. The error is that it does not count.
func (r *Reader) snapshot(m Record, e *Effects) error {
	s, digest, by, err := openSnapshot(m.Value, r.keys, r.gatewayID)
	if err != nil {
		return err
	}
	st := stamp{s.Epoch, s.Revision}
	if !r.inOrder(m.Key, st, digest, e) {
		return nil
	}
	r.raise(st, digest)
	r.snapshotFault = sound
	if r.held == nil || r.held.stamp != st || r.held.digest != digest || r.held.by != by {
		r.held = &heldList{
			stamp: st, digest: digest, by: by, uids: s.Namespaces.index(),
			writer: s.Writer, publishedAt: s.PublishedAt, source: s.Source,
		}
	}
	r.match()
	return nil
}

// heartbeat takes a value of the heartbeat key. The error is that it does not count.
func (r *Reader) heartbeat(at Instant, m Record, e *Effects) error {
	h, by, err := openHeartbeat(m.Value, r.keys, r.gatewayID)
	if err != nil {
		return err
	}
	st := stamp{h.Epoch, h.Revision}
	if !r.inOrder(m.Key, st, h.Digest, e) || !r.newer(m.Key, h, e) {
		return nil
	}
	r.raise(st, h.Digest)
	r.marks.Beat, r.issued, r.by, r.heartbeatFault = h.Beat, h.Issued, by, sound
	issued := r.issueOf(at, h, e)
	if r.withdrawn = h.Withdrawn(); r.withdrawn {
		e.find(FoundWithdrawn, m.Key, errors.New(h.Reason))
		r.beat, r.proof = nil, nil
		return nil
	}
	r.beat = &heldBeat{
		stamp: st, digest: h.Digest, issued: issued, deadline: issued + r.maxStaleness, qualified: r.qualify(at, h, e),
	}
	if r.behind() {
		e.find(FoundBehind, m.Key, fmt.Errorf("it names epoch %d and revision %d", h.Epoch, h.Revision))
		r.proof = nil
	}
	r.match()
	return nil
}

// inOrder applies rule R2 to the list that a verified record carries or names, and reports whether the record may be
// used.
func (r *Reader) inOrder(key string, st stamp, digest Digest, e *Effects) bool {
	order := st.compare(r.marks.stamp())
	switch {
	case order < 0:
		e.find(FoundRollback, key, fmt.Errorf("it is of epoch %d and revision %d, after epoch %d and revision %d",
			st.epoch, st.revision, r.marks.Epoch, r.marks.Revision))
		return false
	case order == 0 && contradict(digest, r.marks.Digest):
		e.find(FoundFork, key, fmt.Errorf("epoch %d and revision %d are %s here and %s elsewhere",
			st.epoch, st.revision, digest, r.marks.Digest))
		r.marks.Forked = true
		r.beat, r.proof = nil, nil
		return false
	default:
		return true
	}
}

// newer applies rule R2 to the beats of an epoch.
func (r *Reader) newer(key string, h Heartbeat, e *Effects) bool {
	switch {
	case h.Epoch == r.marks.Epoch && h.Beat == r.marks.Beat:
		e.find(FoundDuplicate, key, nil)
		return false
	case h.Epoch == r.marks.Epoch && h.Beat < r.marks.Beat:
		e.find(FoundRollback, key, fmt.Errorf("it is beat %d, after beat %d", h.Beat, r.marks.Beat))
		return false
	case h.Epoch == r.epoch && h.Issued < r.issued:
		e.find(FoundRollback, key, fmt.Errorf("beat %d was issued at %s, beat %d at %s", h.Beat, h.Issued, r.marks.Beat, r.issued))
		return false
	default:
		return true
	}
}

// raise moves the marks up to a list that a usable record carries or names.
func (r *Reader) raise(st stamp, digest Digest) {
	if st.epoch != r.marks.Epoch {
		r.marks = Marks{Epoch: st.epoch}
	}
	r.marks.Revision, r.marks.Digest = st.revision, digest
	if st.epoch != r.epoch {
		// The writer's clock has a new beginning, so what was learned about transits is void, and no old beat may
		// prove anything any more. The proof stays: it keeps its own deadline, and the gate open, while the new
		// writer passes the trial (rules R4, W10).
		r.epoch, r.transit, r.trial, r.issued, r.beat = st.epoch, transit{}, trial{}, 0, nil
	}
}

// issueOf maps the issue of a beat to the local clock (rule R3), and watches how far the mapping has come.
func (r *Reader) issueOf(at Instant, h Heartbeat, e *Effects) (issued time.Duration) {
	issued, r.late = r.transit.observe(h.Issued, at.Mono)
	if r.late > r.maxStaleness/3 {
		e.find(FoundLate, r.heartbeatKey, fmt.Errorf("beat %d took %s longer than the quickest", h.Beat, r.late))
	}
	switch {
	case r.transit.risen() <= r.maxSkew:
	case r.near(at, h):
		r.transit.trust()
	default:
		e.find(FoundDrift, r.heartbeatKey, fmt.Errorf("the quickest beats take %s longer than they did, or the clocks run apart", r.transit.risen()))
		r.distrust(false)
	}
	return issued
}

// qualify puts a live beat on trial (rule R4).
func (r *Reader) qualify(at Instant, h Heartbeat, e *Effects) bool {
	near := r.near(at, h)
	if !near && !r.trial.passed && !r.trial.noWall {
		e.find(FoundSkew, r.heartbeatKey, fmt.Errorf("published at %s, received at %s: more than %s apart",
			h.PublishedAt.Format(timeLayout), at.Wall.UTC().Format(timeLayout), r.maxSkew))
	}
	if !r.trial.admit(h.Issued, at.Mono, r.interval, near) {
		return false
	}
	r.suspect = false
	return true
}

// near compares the wall clocks.
func (r *Reader) near(at Instant, h Heartbeat) bool {
	return !at.Wall.IsZero() && at.Wall.Sub(h.PublishedAt).Abs() <= r.maxSkew
}

// match makes the proof when the newest beat is qualified and vouches for the newest list (rule R3).
func (r *Reader) match() {
	b, l := r.beat, r.held
	if b == nil || !b.qualified || l == nil || b.stamp != l.stamp || contradict(b.digest, l.digest) ||
		r.snapshotFault != sound || r.heartbeatFault != sound || r.marks.Forked {
		return
	}
	r.proof = &proof{list: l, by: r.by, issued: b.issued, deadline: b.deadline}
}
