package demo

import "time"

// Kind is what a moment is.
type Kind string

// The kinds of moments.
const (
	Title    Kind = "title"    // of the whole
	Step     Kind = "step"     // What begins; Detail is what it proves
	Note     Kind = "note"     // something that happened and proves nothing by itself
	Held     Kind = "held"     // What was checked, and holds
	Broken   Kind = "broken"   // What was checked and does not hold, or could not be looked at
	Output   Kind = "output"   // Detail is what a program said
	NotShown Kind = "notshown" // What cannot be shown here; Detail is why
	Summary  Kind = "summary"  // the end
)

// Moment is one entry of the timeline.
type Moment struct {
	Kind Kind `json:"kind"`
	// At is the time since the beginning, Took how long it took, or zero.
	At   time.Duration `json:"at"`
	Took time.Duration `json:"took,omitempty"`
	What string        `json:"what,omitempty"`
	// Detail may have several lines.
	Detail string `json:"detail,omitempty"`
}
