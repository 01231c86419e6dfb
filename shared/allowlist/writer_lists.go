package allowlist

import (
	"errors"
	"fmt"
	"time"
)

// published is a list with its number and, once it was sealed in this epoch, its record.
type published struct {
	revision uint64
	digest   Digest
	list     List
	record   []byte
	after    Digest // of the revision that its changes are against
}

// lists is what was, is and will be published.
type lists struct {
	// base is the newest revision that the broker holds or held, as far as is known: the one found at take-over, and
	// after the fencing write this writer's own. Nil when none was found.
	base *published
	// attempt is the newest snapshot that was sent. It may be stored although nobody said so.
	attempt *published
	// highest is the highest revision found or sent. The number of a write that did not come to be is not given to
	// another list: a reader may have seen what the broker then lost.
	highest uint64

	// changed says that another revision is due: the source's list differs from base, or a later revision than base
	// was sent, and may yet be stored. removed says that base holds a name that the source's list does not.
	changed, removed bool
	gatherUntil      time.Duration
	sentAt           time.Duration // when a list was sent last
	// rewrite says that base must be stored again.
	rewrite bool
	// tooLarge is a list that cannot be stored; it is not tried again.
	tooLarge *tooLarge
}

type tooLarge struct {
	list List
	err  error
}

// compare finds out what the source's list means for what is published (rules W3, W6).
func (l *lists) compare(now time.Duration, list List, gather time.Duration) {
	if l.tooLarge != nil && !l.tooLarge.list.Equal(list) {
		l.tooLarge = nil
	}
	if l.base == nil {
		return
	}
	d := Diff(l.base.list, list)
	if !l.changed {
		// One that comes after a pause waits for nothing; those that follow it closely are gathered.
		l.gatherUntil = max(now, l.sentAt+gather)
	}
	l.changed, l.removed = !d.Empty() || l.highest > l.base.revision, len(d.Removed) > 0
	if !l.changed {
		l.gatherUntil = 0
	}
}

// snapshot sends the list that is to be stored now: base again when nothing is due after it, the last attempt again
// when that is still it, and a new revision otherwise.
func (w *Writer) snapshot(at Instant, p *Plan) Action {
	l := &w.lists
	next := l.attempt
	switch {
	case w.phase == leading && !l.changed:
		next = l.base
	case next == nil || next.after != l.before() || !next.list.Equal(w.source.list):
		made, err := w.revise(at)
		if errors.Is(err, ErrTooLarge) {
			w.refuse(at, w.source.list, err, p)
			return nil
		}
		if err != nil {
			w.end(EndDefect, err)
			return nil
		}
		next = made
	}
	l.attempt, l.highest, l.sentAt = next, max(l.highest, next.revision), at.Mono
	return w.write(writingSnapshot, next.record)
}

// revise makes the next revision of the source's list.
func (w *Writer) revise(at Instant) (*published, error) {
	l := &w.lists
	src := w.config.Source
	src.Version = w.source.version
	s := Snapshot{
		GatewayID: w.config.GatewayID, Epoch: w.epoch, Revision: l.highest + 1, Writer: w.config.Name,
		PublishedAt: stampTime(at.Wall), Source: src, Namespaces: w.source.list,
	}
	var before List
	if l.base != nil {
		before = l.base.list
	}
	s.Previous, s.Changes = l.before(), Diff(before, w.source.list).Changes()
	record, digest, err := SealSnapshot(s, w.signer)
	if err != nil {
		return nil, err
	}
	return &published{revision: s.Revision, digest: digest, list: w.source.list, record: record, after: s.Previous}, nil
}

// before is the digest of the revision that the next one follows.
func (l *lists) before() Digest {
	if l.base == nil {
		return Digest{}
	}
	return l.base.digest
}

// refuse remembers a list that cannot be stored: it is withdrawn, never cut. A list that the source has replaced
// meanwhile stands for nothing any more.
func (w *Writer) refuse(at Instant, list List, err error, p *Plan) {
	p.find(FoundTooLarge, SnapshotKey(w.config.GatewayID), err)
	if !list.Equal(w.source.list) {
		return
	}
	w.lists.tooLarge = &tooLarge{list: list, err: err}
	w.beats.next = at.Mono
}

// snapshotWritten takes the outcome of a snapshot.
func (w *Writer) snapshotWritten(at Instant, in Written, p *Plan) {
	l := &w.lists
	switch in.Result {
	case WriteStored:
		w.broker.snapshotSequence = in.Sequence
		w.adopt(at, l.attempt)
	case WriteTooLarge:
		w.refuse(at, l.attempt.list, fmt.Errorf("%w: %w", ErrTooLarge, in.Err), p)
	case WriteConflict:
		w.doubt(at)
	default:
		p.find(FoundDoubt, SnapshotKey(w.config.GatewayID), in.Err)
		w.doubt(at)
	}
}

// adopt makes a list of this epoch, which the broker holds, the base: the writer leads, and beats at once (rule W6).
func (w *Writer) adopt(at Instant, own *published) {
	l := &w.lists
	l.base, l.rewrite = own, false
	l.highest = max(l.highest, own.revision)
	l.changed = false
	l.compare(at.Mono, w.source.list, w.config.Settings.GatherAdditions.Std())
	if w.phase == takingOver {
		w.phase = leading
	}
	w.beats.next, w.beats.owed = at.Mono, true
}
