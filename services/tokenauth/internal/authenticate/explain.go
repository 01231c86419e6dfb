package authenticate

// Outcome of one step in an explanation.
type Outcome string

// The outcomes.
const (
	// Passed: the step looked and was satisfied.
	Passed Outcome = "passed"
	// Skipped: the step does not apply here; the evidence says why.
	Skipped Outcome = "skipped"
	// Refused: the step ended the evaluation.
	Refused Outcome = "refused"
	// Waiting: the step ended the evaluation with a question.
	Waiting Outcome = "waiting"
	// NotReached: a step before it ended the evaluation.
	NotReached Outcome = "not reached"
)

// Finding is one step of an explanation.
type Finding struct {
	Step    Step
	Outcome Outcome
	// Evidence is what the step saw, on one line; empty when it was not reached. It is for the operator: it names objects
	// and settings, and nothing of the credential.
	Evidence string
}

// Explain is Evaluate with what every step found, all steps in their order.
func (e *Evaluator) Explain(f *Facts) (Result, []Finding) {
	described := Steps()
	findings := make([]Finding, 0, len(described))
	result := e.evaluate(steps[:], f, func(step *check, run *evaluation, found finding) {
		entry := Finding{Step: described[len(findings)], Evidence: found.explanation}
		switch found.ruling {
		case passed:
			entry.Outcome, entry.Evidence = Passed, step.shows(run)
		case skipped:
			entry.Outcome = Skipped
		case waiting:
			entry.Outcome = Waiting
		default:
			entry.Outcome = Refused
		}
		findings = append(findings, entry)
	})
	for len(findings) < len(described) {
		findings = append(findings, Finding{Step: described[len(findings)], Outcome: NotReached})
	}
	return result, findings
}
