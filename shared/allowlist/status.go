package allowlist

import "time"

// Status is what people and metrics are told about a reader. Nothing is decided by it.
type Status struct {
	Condition Condition
	// Epoch, Revision and Digest of the newest list held; zero when none is.
	Epoch, Revision uint64
	Digest          Digest
	// Writer, PublishedAt and Source of that list.
	Writer      string
	PublishedAt time.Time
	Source      Source
	// Namespaces is how many that list holds, Vouched how many the proven one does.
	Namespaces, Vouched int
	// Proven says that Age has a meaning: the age of the newest proof, counted from its issue.
	Proven bool
	Age    time.Duration
	// Late is how much longer than the quickest of its epoch the newest beat was on its way.
	Late time.Duration
	// Marks are the high-water marks.
	Marks Marks
}

// Status describes the reader at an instant.
func (r *Reader) Status(now Instant) Status {
	s := Status{Condition: r.view.Condition(now), Late: r.late, Marks: r.marks}
	if l := r.held; l != nil {
		s.Epoch, s.Revision, s.Digest = l.stamp.epoch, l.stamp.revision, l.digest
		s.Writer, s.PublishedAt, s.Source, s.Namespaces = l.writer, l.publishedAt, l.source, len(l.uids)
	}
	if p := r.proof; p != nil {
		s.Proven, s.Age, s.Vouched = true, max(now.Mono-p.issued, 0), len(p.list.uids)
	}
	return s
}

// WriterStatus is what people and metrics are told about a writer. Nothing is decided by it.
type WriterStatus struct {
	// Leading says that the fencing write is acknowledged and the writer has not stopped.
	Leading bool
	// Epoch of the term; zero before take-over.
	Epoch uint64
	// Revision, Digest and Namespaces of the newest list that the broker is known to hold.
	Revision   uint64
	Digest     Digest
	Namespaces int
	// Beats is how many heartbeats were made in this term.
	Beats uint64
	// Withdrawn is why the list is withdrawn; empty when it is not.
	Withdrawn string
	// Proven says that ProofAge has a meaning: the age of the newest proof that beats may rest on.
	Proven   bool
	ProofAge time.Duration
}

// Status describes the writer at an instant.
func (w *Writer) Status(now Instant) WriterStatus {
	s := WriterStatus{Leading: w.phase == leading && w.over == nil, Epoch: w.epoch, Beats: w.beats.count, Withdrawn: w.withdrawal(now)}
	if b := w.lists.base; b != nil {
		s.Revision, s.Digest, s.Namespaces = b.revision, b.digest, b.list.Len()
	}
	if w.source.consistent {
		s.Proven, s.ProofAge = true, max(now.Mono-w.source.consistentAt, 0)
	}
	return s
}
