package allowlist

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// View is everything that an answer needs, at one moment of a reader's life (rule R8). It never changes, so a shell
// publishes it with one atomic store and every caller reads it with one atomic load. A nil View and the zero View
// deny.
type View struct {
	// condition holds until the deadline.
	condition Condition
	// stamp is that of the newest list held.
	stamp stamp
	// proven is the list that the newest proof vouches for.
	proven map[string]string
	// pending is a newer list, signed and accepted, that no heartbeat has vouched for yet; nil when proven is the
	// newest. It can take a namespace away and cannot add one.
	pending map[string]string
	// bound is an earlier View beyond whose lists nothing is granted (Within); nil when there is no such limit.
	bound *View
	// issued is when the newest proof was issued, deadline when it ends. vouched says that there was one.
	vouched          bool
	issued, deadline time.Duration
	// wall is how far the wall clock was ahead of the monotonic one in the Step that made the View.
	wall time.Duration
}

// Condition is the state at an instant. It may be Stale where the View was Fresh when it was made.
func (v *View) Condition(now Instant) Condition {
	switch {
	case v == nil || v.condition.Reason == "" && v.condition.State != Fresh:
		return unsynced()
	case v.condition.State != Fresh:
		return v.condition
	case !v.fresh(now):
		return stale()
	default:
		return fresh()
	}
}

// Check answers whether namespace may be trusted at the instant now, which is read just before the call. It takes no
// lock, allocates nothing and never blocks. An operation that takes long checks again before it commits.
func (v *View) Check(namespace string, now Instant) (a Answer) {
	a.Namespace = namespace
	if v == nil {
		a.Reason = unsynced().Reason
		return
	}
	a.Epoch, a.Revision = v.stamp.epoch, v.stamp.revision
	if v.vouched {
		a.Proven, a.Age = true, max(now.Mono-v.issued, 0)
	}
	if !v.fresh(now) {
		a.Reason = v.Condition(now).Reason
		return
	}
	uid, listed := v.proven[namespace]
	if v.pending != nil {
		next, kept := v.pending[namespace]
		switch {
		case !kept:
			listed = false
		case !listed || next != uid:
			a.Reason = verdict.Behind
			return
		}
	}
	if !listed {
		a.Reason = verdict.NotListed
		return
	}
	if v.bound != nil && !v.bound.grants(namespace, uid) {
		a.Reason = verdict.Behind
		return
	}
	a.UID, a.allowed = uid, true
	return
}

// fresh reports whether Condition is Fresh.
func (v *View) fresh(now Instant) bool {
	// The machine may have slept, and the monotonic clock with it, or that clock went back, and no Step has looked at
	// the clocks yet: the wall clock tells.
	return v.condition.State == Fresh && !now.Wall.IsZero() && wallAhead(now)-v.wall <= clockTolerance && !expired(now.Mono, v.deadline)
}
