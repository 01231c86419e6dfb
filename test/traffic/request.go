package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// Call is a method of the contract.
type Call string

// The calls that traffic makes.
const (
	Capabilities Call = "GetCapabilities"
	Validate     Call = "ValidateSandboxCreate"
	Create       Call = "CreateSandbox"
	Start        Call = "StartSandbox"
	Stop         Call = "StopSandbox"
	Delete       Call = "DeleteSandbox"
	Get          Call = "GetSandbox"
	List         Call = "ListSandboxes"
	Watch        Call = "WatchSandboxes"
	Authenticate Call = "AuthenticateSandbox"
)

// Standing is what was true of a sandbox's namespace for as long as a request took. The zero value is that it was not allowed.
type Standing int

// The standings.
const (
	Barred Standing = iota
	Allowed
)

// Patience is how long a request is made again for, and Again is after what time. Patience bounds nothing that the contract bounds: it
// only ends the wait for a success that will never come. Of the contract's own periods the longest is the sweep's, a minute.
const (
	Patience = time.Minute
	Again    = 250 * time.Millisecond
)

// Finished is how long a daemon that leaves goes on with the calls that it has: half of the default of shutdown_grace. What takes longer is cut,
// and undone or finished by another (docs/upgrade.md, "What happens to sandboxes").
const Finished = 10 * time.Second

// Attempt is one call that was answered.
type Attempt struct {
	Code    codes.Code
	Message string
	// Took is from the call to its answer.
	Took time.Duration
	// Sandbox and Identity are those of a positive answer, where the call has them.
	Sandbox, Identity string
	// Deleted is DeleteSandbox's.
	Deleted bool
	// Lacks are residents that a list, or a watch from its beginning, did not tell of; Gone are those that a watch said were deleted.
	Lacks, Gone []string
}

// cut reports whether it is the connection that ended, with a daemon that had gone on with the call for as long as it does.
func (a Attempt) cut() bool {
	return a.Code == codes.Unavailable && a.Took > Finished && strings.Contains(a.Message, "graceful_stop")
}

// Request is a call that is made until it succeeds, if its caller in the contract makes it again, and otherwise once.
type Request struct {
	Call     Call
	Sandbox  string // the id; empty where the call is about none
	Standing Standing
	// Identity is the one that the answer must bear; empty where any will do.
	Identity string
	Attempts []Attempt // at least one
	// Left is what is there of the sandbox after a create that was refused, or a delete that succeeded.
	Left []string
}

// last is the attempt that ended the request.
func (r Request) last() Attempt {
	if len(r.Attempts) == 0 {
		return Attempt{Code: codes.Unknown, Message: "no attempt was made"}
	}
	return r.Attempts[len(r.Attempts)-1]
}

// String names the request.
func (r Request) String() string {
	if r.Sandbox == "" {
		return string(r.Call)
	}
	return fmt.Sprintf("%s of %s", r.Call, r.Sandbox)
}

// Tally is how often each call was asked for and refused.
type Tally map[Call]*Line

// Line is the tally of one call about sandboxes of one standing.
type Line struct {
	Requests, Attempts int
	// Refused counts attempts, by code and message.
	Refused map[string]int
	// Barred counts, in the same way, the refusals of what had to be refused.
	Barred map[string]int
}

// Count makes the tally.
func Count(requests []Request) Tally {
	t := Tally{}
	for _, r := range requests {
		line := t[r.Call]
		if line == nil {
			line = &Line{Refused: map[string]int{}, Barred: map[string]int{}}
			t[r.Call] = line
		}
		line.Requests++
		for _, a := range r.Attempts {
			line.Attempts++
			if a.Code == codes.OK {
				continue
			}
			into := line.Refused
			if r.Standing == Barred && granting(r.Call) {
				into = line.Barred
			}
			into[fmt.Sprintf("%s %q", a.Code, a.Message)]++
		}
	}
	return t
}

// String is a line for each call, and one below it for each kind of refusal.
func (t Tally) String() string {
	var b strings.Builder
	for _, call := range slices.Sorted(maps.Keys(t)) {
		line := t[call]
		fmt.Fprintf(&b, "%-22s %6d requests in %6d calls\n", call, line.Requests, line.Attempts)
		for _, part := range []struct {
			what string
			by   map[string]int
		}{{"refused", line.Refused}, {"refused, as it had to be", line.Barred}} {
			for _, text := range slices.Sorted(maps.Keys(part.by)) {
				fmt.Fprintf(&b, "    %s %d times: %s\n", part.what, part.by[text], text)
			}
		}
	}
	return b.String()
}
