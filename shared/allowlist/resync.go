package allowlist

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// resync decides when to ask for a fresh consumer (rules R5, R7). Between two requests lies a wait; the shell adds a
// backoff of its own.
type resync struct {
	// since is when a consumer was last started or asked for, or nothing was wrong.
	since time.Duration
	was   State
	// rekeyed says that the keys have changed in a way that makes the records worth another look.
	rekeyed bool
}

// due reports whether to ask now. told says that the writer is heard and has withdrawn the list, or contradicted
// itself, which a fresh consumer cannot change.
func (r *resync) due(now time.Duration, c Condition, told bool, interval, maxStaleness time.Duration) bool {
	wait := maxStaleness / 3
	switch {
	case r.rekeyed:
		r.rekeyed, wait = false, 0
	case c.State == Fresh, told && (c.State == Withdrawn || c.Reason == verdict.Forked):
		r.since, r.was = now, c.State
		return false
	case c.Reason == verdict.Behind:
		wait = 2 * interval
	case c.State == Stale && r.was == Fresh:
		// The deadline was missed: the consumer is the first suspect.
		wait = 0
	}
	r.was = c.State
	if now-r.since < wait {
		return false
	}
	r.since = now
	return true
}
