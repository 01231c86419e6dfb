package allowlist

import "github.com/portcullis-mesh/portcullis/shared/verdict"

// State is what a reader knows about the list. Only Fresh can answer yes.
type State uint8

// The states. The zero value denies.
const (
	// Unsynced: no list that a heartbeat vouches for is held.
	Unsynced State = iota
	// Fresh: a list is held, and a heartbeat that vouches for it is young enough.
	Fresh
	// Stale: the newest proof is too old, or its age cannot be told.
	Stale
	// Withdrawn: the writer withdrew the list, or somebody took a key of it away.
	Withdrawn
	// Invalid: the current record of a key does not count, or the lists contradict each other.
	Invalid
)

// String is the state as a metric label.
func (s State) String() string {
	switch s {
	case Fresh:
		return "fresh"
	case Stale:
		return "stale"
	case Withdrawn:
		return "withdrawn"
	case Invalid:
		return "invalid"
	default:
		return "unsynced"
	}
}

// Condition is a state with its reason.
type Condition struct {
	State State
	// Reason is why nothing is granted; empty when State is Fresh.
	Reason verdict.Reason
}

// The conditions. Behind is a way of not being in sync, Forked a way of being invalid.
func unsynced() Condition  { return Condition{Unsynced, verdict.Unsynced} }
func behind() Condition    { return Condition{Unsynced, verdict.Behind} }
func fresh() Condition     { return Condition{State: Fresh} }
func stale() Condition     { return Condition{Stale, verdict.Stale} }
func withdrawn() Condition { return Condition{Withdrawn, verdict.Withdrawn} }
func invalid() Condition   { return Condition{Invalid, verdict.Invalid} }
func forked() Condition    { return Condition{Invalid, verdict.Forked} }
