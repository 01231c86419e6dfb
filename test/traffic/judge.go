package traffic

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// Kind is what is wrong with an answer.
type Kind string

// The kinds, the worst first.
const (
	WrongGrant Kind = "a yes for what is not allowed"
	WrongNo    Kind = "a no about what is there and allowed"
	Left       Kind = "something is left"
	Identity   Kind = "not the identity of the run"
	Lost       Kind = "a request that must not fail was lost"
	Unlawful   Kind = "a code that the contract does not have for it"
)

// Fault is an answer that the contract does not allow.
type Fault struct {
	Kind    Kind
	Request Request
	Why     string
}

// String is for a person.
func (f Fault) String() string {
	return fmt.Sprintf("%s: %s: %s", f.Kind, f.Request, f.Why)
}

// rule is what the contract has for a call.
type rule struct {
	// once is a call that nobody makes again.
	once bool
	// waits is a call that waits for Pods, and may be cut by the end of who waits.
	waits bool
	// grants is a call whose success is a yes for the namespace.
	grants bool
	// identity is a call whose success must bear the identity of a run (contract 2.13).
	identity bool
	// no are the codes of a known no about the sandbox or its namespace.
	no []codes.Code
	// unknown are the codes besides those of every call of an answer that says nothing about the sandbox.
	unknown []codes.Code
}

// rules has an entry for each call; it is never written to.
var rules = map[Call]rule{
	Capabilities: {once: true},
	Validate:     {once: true},
	Create:       {once: true, waits: true, grants: true, identity: true, no: []codes.Code{codes.FailedPrecondition, codes.AlreadyExists}},
	Start:        {once: true, waits: true, grants: true, identity: true, no: []codes.Code{codes.FailedPrecondition, codes.NotFound}},
	Stop:         {no: []codes.Code{codes.NotFound, codes.FailedPrecondition}},
	Delete:       {no: []codes.Code{codes.NotFound, codes.FailedPrecondition}},
	Get:          {no: []codes.Code{codes.NotFound}},
	List:         {},
	Watch:        {},
	// INTERNAL: the API server did not answer (contract 6.1, steps 2, 3, 10 and 15).
	Authenticate: {
		grants: true, identity: true, no: []codes.Code{codes.PermissionDenied, codes.Unauthenticated}, unknown: []codes.Code{codes.Internal},
	},
}

func granting(c Call) bool { return rules[c].grants }

// notNow are the codes of an answer to this call that says nothing about the sandbox (contract 2.7). But for token exchanges INTERNAL is the
// original's for whatever the cluster did not answer; ours is UNAVAILABLE, and too many calls are RESOURCE_EXHAUSTED.
func (r rule) notNow(c codes.Code) bool {
	return c == codes.Unavailable || c == codes.ResourceExhausted || c == codes.DeadlineExceeded || slices.Contains(r.unknown, c)
}

// Excuse is a refusal that what is done to the driver may lead to: a call that nobody makes again is not lost when it is refused so. It excuses
// no other fault.
type Excuse struct {
	// Message is that of the refusal.
	Message string
	// Lasting says that what is done may take longer than Patience: then a call that was made again for so long is not lost either.
	Lasting bool
}

// of reports whether it excuses that a request was lost.
func (e Excuse) of(r Request) bool {
	return e.Message == r.last().Message && (e.Lasting || rules[r.Call].once)
}

// Judge returns every fault of the requests, the worst first.
func Judge(requests []Request, excuses ...Excuse) []Fault {
	var found []Fault
	for _, r := range requests {
		for _, f := range judge(r) {
			if f.Kind != Lost || !slices.ContainsFunc(excuses, func(e Excuse) bool { return e.of(r) }) {
				found = append(found, f)
			}
		}
	}
	order := []Kind{WrongGrant, WrongNo, Left, Identity, Lost, Unlawful}
	slices.SortStableFunc(found, func(a, b Fault) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
	return found
}

// Undecided are the calls that would be a yes for what is not allowed and were never answered by a known no: that none of them was granted
// shows nothing then. A no that nobody could find out is none.
func Undecided(requests []Request) (calls []Call) {
	decided := map[Call]bool{}
	for _, r := range requests {
		rule := rules[r.Call]
		if !rule.grants || r.Standing == Allowed {
			continue
		}
		decided[r.Call] = decided[r.Call] || slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return slices.Contains(rule.no, a.Code) })
	}
	for call, yes := range decided {
		if !yes {
			calls = append(calls, call)
		}
	}
	slices.Sort(calls)
	return calls
}

func judge(r Request) (found []Fault) {
	fault := func(kind Kind, format string, args ...any) {
		found = append(found, Fault{Kind: kind, Request: r, Why: fmt.Sprintf(format, args...)})
	}
	rule, known := rules[r.Call]
	if !known || len(r.Attempts) == 0 {
		fault(Lost, "it was not made")
		return found
	}
	refused := rule.grants && r.Standing != Allowed // what has to be refused
	for i, a := range r.Attempts {
		switch {
		case a.Code == codes.OK && refused:
			fault(WrongGrant, "it was granted as %q", a.Identity)
		case a.Code == codes.OK:
			judgeYes(r, rule, i, fault)
		case slices.Contains(rule.no, a.Code) && !refused:
			fault(WrongNo, "%s: %s", a.Code, a.Message)
		case !rule.notNow(a.Code) && !slices.Contains(rule.no, a.Code):
			fault(Unlawful, "%s: %s", a.Code, a.Message)
		}
		for _, id := range a.Gone {
			fault(WrongNo, "it says that %s is deleted, which runs", id)
		}
	}
	last := r.last()
	switch {
	case refused:
	case last.Code == codes.OK:
	case rule.waits && last.cut():
	case rule.once && rule.notNow(last.Code):
		fault(Lost, "nobody makes it again, and it was answered %s: %s", last.Code, last.Message)
	case rule.notNow(last.Code):
		fault(Lost, "made again for %s in %d calls, it is still answered %s: %s", Patience, len(r.Attempts), last.Code, last.Message)
	}
	if len(r.Left) > 0 {
		fault(Left, "after %s there is still %s", last.Code, strings.Join(r.Left, ", "))
	}
	return found
}

// judgeYes judges a positive answer to what may be answered so.
func judgeYes(r Request, rule rule, attempt int, fault func(Kind, string, ...any)) {
	a := r.Attempts[attempt]
	if len(a.Lacks) > 0 {
		fault(WrongNo, "it lacks %s, which run", strings.Join(a.Lacks, ", "))
	}
	// Who asks again may have been answered before, by something that was lost on its way.
	if r.Call == Delete && !a.Deleted && attempt == 0 {
		fault(WrongNo, "deleted = false")
	}
	if a.Sandbox != "" && a.Sandbox != r.Sandbox {
		fault(Identity, "the answer is about sandbox %s", a.Sandbox)
	}
	if rule.identity && (a.Identity == "" || r.Identity != "" && a.Identity != r.Identity) {
		fault(Identity, "the answer bears %q, want %q", a.Identity, r.Identity)
	}
}
