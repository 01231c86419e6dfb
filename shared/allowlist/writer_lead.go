package allowlist

import (
	"fmt"
	"time"
)

// beats is what is known about the heartbeats of this term.
type beats struct {
	count uint64
	// next is when the next one is due. owed says that the list was just stored and has had none.
	next time.Duration
	owed bool
	// unproven says that the lack of a proof was reported.
	unproven bool
	// withdraws says that the newest one withdraws the list.
	withdraws bool
}

// takeOver does what rule W2 says, in its order: look and verify, list afresh, write the fencing write. Beats come
// with the next phase.
func (w *Writer) takeOver(at Instant, p *Plan) Action {
	s := &w.source
	switch {
	case !w.broker.read || w.broker.doubt:
		return w.look(at)
	case !s.consistent || s.consistentAt < w.broker.readAt:
		// A list from before the look could be older than what the writer before published.
		if s.relisting || at.Mono < s.nextRelist {
			return nil
		}
		s.relisting = true
		return Relist{}
	case w.lists.tooLarge != nil:
		return nil
	case !fencingDue(w.lists.base):
		w.adopt(at, w.lists.base)
		return w.lead(at, p)
	default:
		return w.snapshot(at, p)
	}
}

// lead is the ordinary life of a leader.
func (w *Writer) lead(at Instant, p *Plan) Action {
	if w.broker.doubt {
		return w.look(at)
	}
	if w.beatOwed() {
		if action := w.beatIfProven(at, p); action != nil || w.over != nil {
			return action
		}
	}
	due := at.Mono >= w.beats.next
	switch {
	case w.snapshotDue(at, due):
		if action := w.snapshot(at, p); action != nil || w.over != nil {
			return action
		}
		// The list is too large. Say so at once.
		return w.beat(at, w.withdrawal(at))
	case due:
		if action := w.beatIfProven(at, p); action != nil || w.over != nil {
			return action
		}
	}
	return w.look(at)
}

// beatOwed reports, once, that the list just stored gets its beat before anything else. Without that, a source that
// changes faster than lists are stored would never be vouched for. A removal that has come meanwhile goes first,
// even if removals that never pause for as long as a write takes close the gate: a beat never vouches for what is known
// to be gone.
func (w *Writer) beatOwed() bool {
	l := &w.lists
	owed := w.beats.owed && !l.removed && !l.rewrite && l.base.revision == l.highest
	w.beats.owed = false
	return owed
}

// snapshotDue applies rules W4 and W6: a removal goes out at once, an addition not too soon after the list before, and
// whatever is to be stored goes before a beat.
func (w *Writer) snapshotDue(at Instant, beatDue bool) bool {
	l := &w.lists
	switch {
	case l.tooLarge != nil:
		return false
	case l.rewrite:
		return true
	case !l.changed:
		return false
	default:
		return l.removed || beatDue || at.Mono >= l.gatherUntil
	}
}

// beatIfProven beats when there is something to say: a withdrawal, or a list that the source has proven (rule W4, with
// one reservation: see consistentAt).
func (w *Writer) beatIfProven(at Instant, p *Plan) Action {
	withdrawal := w.withdrawal(at)
	age := at.Mono - w.source.consistentAt
	if withdrawal == "" && !provenWithin(w.source.consistent, age, w.config.Settings.SourceMaxAge.Std()) {
		if !w.beats.unproven {
			w.beats.unproven = true
			p.find(FoundUnproven, "", fmt.Errorf("the source proved its list %s ago, more than %s", age, w.config.Settings.SourceMaxAge))
		}
		return nil
	}
	return w.beat(at, withdrawal)
}

// beat makes a heartbeat for base.
func (w *Writer) beat(at Instant, withdrawal string) Action {
	interval := w.config.Settings.HeartbeatInterval.Std()
	w.beats.count++
	// The instant that is stamped is the one at which the proof was found young enough, rounded to before it: a beat is
	// never later than its proof allows, however long it then waits to be sent.
	w.beats.next, w.beats.unproven, w.beats.withdraws = at.Mono+interval, false, withdrawal != ""
	record, err := SealHeartbeat(Heartbeat{
		GatewayID: w.config.GatewayID, Epoch: w.epoch, Revision: w.lists.base.revision, Digest: w.lists.base.digest,
		Beat: w.beats.count, Issued: (at.Mono - w.began).Truncate(time.Millisecond), PublishedAt: stampTime(at.Wall),
		Writer: w.config.Name, Reason: withdrawal,
		// Rounded up: a proof is never younger than it is said to be.
		Proof: Proof{Kind: w.source.proof, Age: (at.Mono - w.source.provenAt + time.Millisecond - 1).Truncate(time.Millisecond)},
		TTL:   w.config.Settings.HeartbeatTTL.Std(),
	}, w.signer)
	if err != nil {
		w.end(EndDefect, err)
		return nil
	}
	return w.write(writingBeat, record)
}

// written takes the outcome of a write.
func (w *Writer) written(at Instant, in Written, p *Plan) {
	f := w.flight
	if f != writingSnapshot && f != writingBeat {
		return
	}
	w.flight = nothing
	if f == writingSnapshot {
		w.snapshotWritten(at, in, p)
		return
	}
	switch {
	case w.farewell:
		w.saidFarewell(in, p)
	case in.Result == WriteStored:
		w.broker.heartbeatSequence = in.Sequence
		w.used(at)
	case in.Result == WriteConflict:
		w.doubt(at)
	default:
		p.find(FoundDoubt, HeartbeatKey(w.config.GatewayID), in.Err)
		w.doubt(at)
	}
}

// doubt has both keys read before anything else is written (rule W1): at once, or a moment after the last look, so
// that two writers who fight do not do it at full speed.
func (w *Writer) doubt(at Instant) {
	w.broker.doubt = true
	w.broker.nextLook = at.Mono
	if w.broker.read {
		w.broker.nextLook = max(at.Mono, w.broker.readAt+w.pause())
	}
}
