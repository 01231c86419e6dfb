package allowlist

import (
	"fmt"
	"strings"
	"time"
)

// source is what is known about the source of the list.
type source struct {
	// known says that list, version and order have a meaning.
	known   bool
	list    List
	version string
	order   uint64
	// consistentAt is for when the list was proven last by a consistent list, or a read of the file. Beats rest on it
	// alone. A watch that was held up, at either end or on the way, delivers old events when it comes back, each of
	// which is an event of now to whoever receives it: what it proves has no bound.
	consistent   bool
	consistentAt time.Duration

	// proof is the newest proof of any kind, and provenAt for when it was: what a beat tells people.
	proof    ProofKind
	provenAt time.Duration

	// failing says that no read has worked since failingSince.
	failing      bool
	failingSince time.Duration
	failure      error

	// relisting says that a Relist was asked for and not answered; nextRelist is when to ask again after a failure.
	relisting  bool
	nextRelist time.Duration
}

// fits reports whether a proof can come from this source.
func (w *Writer) fits(kind ProofKind) bool {
	if w.config.Source.Kind == SourceFile {
		return kind == ProofFile
	}
	return kind == ProofList || kind == ProofWatch
}

// listed takes a list from the source (rule W5).
func (w *Writer) listed(at Instant, in Listed, p *Plan) {
	s := &w.source
	if !w.fits(in.Kind) {
		return
	}
	if s.known && in.Order < s.order {
		w.relistFailed(at)
		p.find(FoundOldList, "", fmt.Errorf("version %s is older than version %s, which was used before", quote(in.Version), quote(s.version)))
		return
	}
	s.list = replaceList(s.list, in.List)
	s.known, s.version, s.order = true, in.Version, in.Order
	w.prove(at, in.Kind, in.ProvenAt)
	w.lists.compare(at.Mono, s.list, w.config.Settings.GatherAdditions.Std())
}

// proved takes a proof of the list that is known.
func (w *Writer) proved(at Instant, in Proved) {
	if w.source.known && w.fits(in.Kind) {
		w.prove(at, in.Kind, in.At)
	}
}

// prove remembers the newest proof. One from the future is not one.
func (w *Writer) prove(at Instant, kind ProofKind, proven time.Duration) {
	s := &w.source
	w.useful = max(w.useful, min(at.Mono, w.graceEnd())) // the grace that is over now was no idleness
	s.failing, s.failure = false, nil
	proven = min(proven, at.Mono)
	if kind != ProofWatch {
		s.relisting = false
		if !s.consistent || proven >= s.consistentAt {
			s.consistent, s.consistentAt = true, proven
		}
	}
	if s.proof == 0 || proven >= s.provenAt {
		s.proof, s.provenAt = kind, proven
	}
}

// sourceFailed never changes the list (rule W9).
func (w *Writer) sourceFailed(at Instant, in SourceFailed) {
	s := &w.source
	w.relistFailed(at)
	if !s.failing {
		s.failing, s.failingSince = true, at.Mono
	}
	s.failure = in.Err
}

// relistFailed lets an interval pass before a relist that was asked for is asked for again.
func (w *Writer) relistFailed(at Instant) {
	if s := &w.source; s.relisting {
		s.relisting, s.nextRelist = false, at.Mono+w.config.Settings.HeartbeatInterval.Std()
	}
}

// withdrawal is the reason for which the list must be withdrawn; empty when there is none.
func (w *Writer) withdrawal(at Instant) string {
	s := &w.source
	switch {
	case w.lists.tooLarge != nil:
		return reason(w.lists.tooLarge.err)
	case w.config.Source.Kind == SourceFile && s.failing && at.Mono-s.failingSince >= w.config.Settings.FileFailureGrace.Std():
		return reason(fmt.Errorf("the file could not be used for %s: %w", w.config.Settings.FileFailureGrace, s.failure))
	default:
		return ""
	}
}

// reason gives an error the form of a reason in a heartbeat.
func reason(err error) string {
	s := strings.ToValidUTF8(fmt.Sprint(err), "?")
	s = strings.Map(func(r rune) rune {
		if notOneLine(r) {
			return ' '
		}
		return r
	}, s)
	const mark = "..."
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason-len(mark)], "") + mark
	}
	return s
}
