package authenticate

import (
	"fmt"
	"slices"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// check is one step. It refuses only with one of its reasons.
type check struct {
	// name is stable: it is in refusals, in the audit events and in metrics.
	name string
	// contract is the number of the check in contract 6.1; zero for what is added.
	contract int
	reasons  []verdict.Reason
	judge    func(*evaluation) finding
	// shows is the evidence of a step that passed, for a person.
	shows func(*evaluation) string
}

// ruling is how a step ended. The zero value refuses.
type ruling uint8

const (
	refused ruling = iota
	waiting
	skipped
	passed
)

// finding is the outcome of one step. The zero finding refuses without a reason.
type finding struct {
	ruling      ruling
	reason      verdict.Reason
	explanation string
	next        Question
}

func (f finding) goesOn() bool { return f.ruling == passed || f.ruling == skipped }

func pass() finding { return finding{ruling: passed} }

// skip passes a step that does not apply, and says why not.
func skip(why string) finding { return finding{ruling: skipped, explanation: why} }

func refuse(reason verdict.Reason, format string, args ...any) finding {
	return finding{reason: reason, explanation: fmt.Sprintf(format, args...)}
}

// ask ends the evaluation with a question.
func ask(q Question) finding {
	return finding{ruling: waiting, reason: verdict.NotAsked, explanation: "not asked for: " + q.String(), next: q}
}

// lookup judges whether there is a value to judge.
func lookup[T any](l Lookup[T], q Question, failed, missing verdict.Reason) finding {
	switch l.of(q) {
	case askedAndFound:
		return pass()
	case askedAndAbsent:
		return refuse(missing, "%s does not exist", q)
	case couldNotAsk:
		show := line
		if q.Subject == SubjectReview {
			show = harmless
		}
		return refuse(failed, "could not read %s: %s", q, show(l.err.Error()))
	default:
		return ask(q)
	}
}

// Step describes one step, for documentation and for the operator.
type Step struct {
	// Name is stable.
	Name string
	// Contract is the number of the check in contract 6.1; zero for what is added to it.
	Contract int
	// Reasons are all with which the step refuses, those that it passes on from the allowlist among them.
	Reasons []verdict.Reason
}

// Steps lists the steps in their order. The slice is the caller's own.
func Steps() []Step {
	list := make([]Step, 0, len(steps))
	for i := range steps {
		list = append(list, Step{Name: steps[i].name, Contract: steps[i].contract, Reasons: slices.Clone(steps[i].reasons)})
	}
	return list
}
