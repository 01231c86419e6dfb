package canary

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// MaxReport is how many bytes of a termination message the kubelet keeps.
const MaxReport = 4096

// End is how a canary came to its end. The zero value is none.
type End string

// The ends.
const (
	// EndDone: everything was tried that was to be tried.
	EndDone End = "done"
	// EndOpen: the workload canary reached a target after the time to settle.
	EndOpen End = "open"
	// EndLimit: the limit passed before, or the Pod was told to stop.
	EndLimit End = "limit"
	// EndBroken: the canary could not do its work; Trouble says why.
	EndBroken End = "broken"
)

// Outcome is what became of one try. The zero value is none.
type Outcome string

// The outcomes.
const (
	// Opened: a connection was opened.
	Opened Outcome = "opened"
	// TimedOut, Refused, Unreachable and Prohibited are what a fence does, by the plug-in that enforces it; Refused may be the
	// target's own answer too.
	TimedOut    Outcome = "timed out"
	Refused     Outcome = "refused"
	Unreachable Outcome = "unreachable"
	Prohibited  Outcome = "prohibited"
	// Failed: the try failed for a reason that says nothing about the way.
	Failed Outcome = "failed"
)

// Blocked reports whether the network did not let the try through.
func (o Outcome) Blocked() bool {
	return o == TimedOut || o == Refused || o == Unreachable || o == Prohibited
}

// Hold is how many tries in a row must be blocked before a way counts as shut.
const Hold = 5

// Seen is what was seen of one way. The zero value was never tried.
type Seen struct {
	// Target as in the Plan; empty for the shut port.
	Target string `json:"target,omitempty"`
	// Tries and Opens count all tries and those that opened a connection.
	Tries int `json:"tries"`
	Opens int `json:"opens"`
	// Streak is how many tries were blocked in a row at the end: of the workload canary, since it was entered.
	Streak int `json:"streak"`
	// LastOpen is when it was open for the last time, in milliseconds since the canary began to look; 0 with no Opens.
	LastOpen int64 `json:"last_open_ms"`
	// Last is the outcome of the last try.
	Last Outcome `json:"last,omitempty"`
	// Before and After say, of the supervisor canary, that it reached the target before and after the workload canary's tries. During
	// says that it reached it at each of the last Hold tries that the two made together.
	Before bool `json:"before,omitempty"`
	During bool `json:"during,omitempty"`
	After  bool `json:"after,omitempty"`
}

// Held reports whether the way counts as shut.
func (s Seen) Held() bool { return s.Streak >= Hold && s.Last.Blocked() }

// note counts one try.
func (s *Seen) note(o Outcome, since int64) {
	s.Tries++
	s.Last = o
	switch {
	case o == Opened:
		s.Opens++
		s.Streak, s.LastOpen = 0, since
	case o.Blocked():
		s.Streak++
	default:
		s.Streak = 0
	}
}

// Report is what one canary leaves in the termination message of its container.
type Report struct {
	Probe string `json:"probe"`
	Role  Role   `json:"role"`
	End   End    `json:"end"`
	// Trouble is why the end is EndBroken.
	Trouble string `json:"trouble,omitempty"`
	// Targets are in the order of the Plan's.
	Targets []Seen `json:"targets"`
	// Entered: the supervisor canary entered the workload canary. Parted: they took leave of each other, so both were alive until then.
	Entered bool `json:"entered"`
	Parted  bool `json:"parted"`
	// Shut is what the supervisor canary saw of the workload canary's other port.
	Shut Seen `json:"shut"`
}

// Encode is the text of a Report, at most MaxReport bytes.
func (r *Report) Encode() ([]byte, error) {
	const longest = 200
	if len(r.Trouble) > longest {
		r.Trouble = r.Trouble[:longest]
	}
	text, err := json.Marshal(r)
	if err == nil && len(text) > MaxReport {
		err = fmt.Errorf("canary report: has %d bytes, and may have %d", len(text), MaxReport)
	}
	return text, err
}

// DecodeReport reads what Encode wrote for this Plan, and nothing else: a report of another probe, role or list of targets is an error.
func DecodeReport(text string, of *Plan) (*Report, error) {
	if len(text) > MaxReport {
		return nil, fmt.Errorf("canary report: has %d bytes, and may have %d", len(text), MaxReport)
	}
	if text == "" {
		return nil, errors.New("canary report: there is none")
	}
	var r Report
	if err := decode([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("canary report: %w", err)
	}
	same := slices.EqualFunc(r.Targets, of.Targets, func(s Seen, target string) bool { return s.Target == target })
	switch {
	case r.Probe != of.Probe || r.Role != of.Role || !same:
		return nil, errors.New("canary report: it is of another probe, role or list of targets")
	case !slices.Contains([]End{EndDone, EndOpen, EndLimit, EndBroken}, r.End):
		return nil, fmt.Errorf("canary report: end is %.40q", string(r.End))
	}
	return &r, nil
}
