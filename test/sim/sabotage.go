package sim

import (
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Sabotage breaks one part of the simulated world, outside the code under test, so that each invariant can be seen to
// bite. The zero value breaks nothing.
type Sabotage int

// The sabotages, each with the invariant that notices it.
const (
	NoSabotage Sabotage = iota
	// StopTheClock has a reader's callers read a clock that stands still while the reader is Fresh: no stale grant.
	StopTheClock
	// KeepOldViews has a reader's callers go back to a view that granted, after a later one refused: no resurrection.
	KeepOldViews
	// SignStranger gives the attacker the writer's key: no widening.
	SignStranger
	// DenyOne has one reader take a listed name for one that is not: no split.
	DenyOne
	// NeverHeal keeps one link broken for ever: liveness.
	NeverHeal
	// IgnoreExpectations has the broker store every write: fencing.
	IgnoreExpectations
)

// answer is what a caller of r is told.
func (s Sabotage) answer(r *reader, name string, now allowlist.Instant) allowlist.Answer {
	view := r.machine.View()
	a := view.Check(name, now)
	switch s {
	case StopTheClock:
		if view.Condition(now).State == allowlist.Fresh {
			r.stoppedAt, r.stopped = now, view
		}
		if !a.Allowed() && r.stopped != nil {
			return r.stopped.Check(name, r.stoppedAt)
		}
	case KeepOldViews:
		if name != r.w.source.names[0] {
			return a
		}
		if a.Allowed() {
			r.stopped = view
		} else if r.stopped != nil && r.refused[name] == (place{a.Epoch, a.Revision}) {
			return r.stopped.Check(name, now)
		}
	case DenyOne:
		if r == r.w.readers[0] && name == r.w.source.names[0] && a.Allowed() {
			return allowlist.Answer{Namespace: name, Reason: verdict.NotListed, Epoch: a.Epoch, Revision: a.Revision}
		}
	default:
	}
	return a
}
