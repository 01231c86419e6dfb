package podevent

import (
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
)

const (
	// patience is how long a check fails before that is told. Five rounds of the checks: a daemon that starts while all is well has its
	// first list and its connections by then, and the kubelet has found it not ready twice.
	patience = 10 * time.Second
	// again is how long what is told already, and holds, is not counted again. It is far less than the hour for which an API server keeps
	// Events, so a reason that holds is always to be seen.
	again = 5 * time.Minute
	// apart is between two writes of one reason: of another message, or because the former write failed.
	apart = 10 * time.Second
	// burst and refill bound all writes. A person who mends one thing after another sees each reason soon; a message that is
	// never twice the same, or an API server that refuses all, costs one request per refill.
	burst  = 8
	refill = 3 * time.Minute
)

// reasonReady is the reason of the Event that ends what was told.
const reasonReady = "Ready"

// notice is what an Event is to say.
type notice struct {
	check           string // whose it is; empty for Ready
	reason, message string
	since           time.Time
}

// told is when a notice was last tried, and what became of it.
type told struct {
	at      time.Time // zero: never
	message string
	written bool
}

// due is when a notice with that message is to be told.
func (t told) due(message string, since time.Time) time.Time {
	switch {
	case t.at.IsZero():
		return since
	case !t.written || t.message != message:
		return t.at.Add(apart)
	default:
		return t.at.Add(again)
	}
}

// trouble is one check that fails.
type trouble struct {
	since   time.Time
	message string
	told    told
}

// ledger decides what is told and when. It takes the time from its caller, and is not safe for concurrent use.
type ledger struct {
	troubles map[string]*trouble
	// open says that an Event of a trouble was written, and none since that says that all is over. over is when all was.
	open bool
	over time.Time
	end  told

	spent    int // of burst
	refilled time.Time
}

func newLedger() ledger { return ledger{troubles: map[string]*trouble{}} }

// observe takes what all readiness checks say.
func (l *ledger) observe(results []daemon.Result, now time.Time) {
	failing := map[string]bool{}
	for _, r := range results {
		if r.Err == nil {
			continue
		}
		failing[r.Name] = true
		if l.troubles[r.Name] == nil {
			l.troubles[r.Name] = &trouble{since: now}
		}
		l.troubles[r.Name].message = r.Reason()
	}
	for name := range l.troubles {
		if !failing[name] {
			delete(l.troubles, name)
		}
	}
	switch {
	case len(l.troubles) > 0:
		l.over, l.end = time.Time{}, told{}
	case l.over.IsZero():
		l.over = now
	}
}

// next is what is to be told next, and when; none says that there is nothing.
func (l *ledger) next(now time.Time) (n notice, when time.Time, none bool) {
	none = true
	consider := func(candidate notice, due time.Time) {
		// What is due for longest comes first, so that a message which changes all the time keeps nothing else from being told.
		if none || due.Before(when) || due.Equal(when) && candidate.check < n.check {
			n, when, none = candidate, due, false
		}
	}
	for check, t := range l.troubles {
		consider(notice{check, reasonOf(check), t.message, t.since}, t.told.due(t.message, t.since.Add(patience)))
	}
	if len(l.troubles) == 0 && l.open && !l.over.IsZero() {
		const message = "ready again: every readiness check passes"
		consider(notice{reason: reasonReady, message: message, since: l.over}, l.end.due(message, l.over))
	}
	l.fill(now)
	// That all is over is told at once, once: so often as a trouble was told before, which is bounded.
	if free := l.refilled.Add(refill); l.spent >= burst && when.Before(free) && (n.reason != reasonReady || !l.end.at.IsZero()) {
		when = free
	}
	return n, when, none
}

// tried notes what became of a notice.
func (l *ledger) tried(n notice, written bool, now time.Time) {
	l.fill(now)
	if n.reason != reasonReady || !l.end.at.IsZero() {
		if l.spent == 0 {
			l.refilled = now
		}
		l.spent++
	}
	outcome := told{now, n.message, written}
	if n.reason == reasonReady {
		l.end, l.open = outcome, l.open && !written
		return
	}
	l.open = l.open || written
	if t := l.troubles[n.check]; t != nil && t.since.Equal(n.since) {
		t.told = outcome
	}
}

// fill gives back what time has brought.
func (l *ledger) fill(now time.Time) {
	for l.spent > 0 && now.Sub(l.refilled) >= refill {
		l.spent--
		l.refilled = l.refilled.Add(refill)
	}
}

// reasonOf is the reason of an Event: the check's name as one CamelCase word, and what it says.
func reasonOf(check string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(check, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String() + "NotReady"
}
