package admitted

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Reason is the stable name of one check: of a-z, 0-9 and "_". It keeps its meaning for ever.
type Reason string

// NotChecked is the reason of the zero Result.
const NotChecked Reason = "workload_not_checked"

// Result is the judgement of one Pod. The zero Result admits nothing.
type Result struct {
	reason   Reason
	found    string
	admitted bool
}

// Admitted reports that the Pod passed every check.
func (r Result) Admitted() bool { return r.admitted }

// Reason is that of the first check that failed; empty when the Pod is admitted.
func (r Result) Reason() Reason {
	if r.reason == "" && !r.admitted {
		return NotChecked
	}
	return r.reason
}

// Found says what was found instead of what must be there, for the operator; at most some 500 characters.
func (r Result) Found() string { return r.found }

// String describes the result on one line.
func (r Result) String() string {
	if r.admitted {
		return "the workload Pod is as it was rendered"
	}
	return fmt.Sprintf("%s: %s", r.Reason(), r.found)
}

// Finding is one check and what it came to.
type Finding struct {
	Reason Reason
	// Passed is false in the zero Finding.
	Passed bool
	// Found is empty when the check passed.
	Found string
}

// Check judges a Pod, and ends at the first check that fails.
func Check(pod *corev1.Pod, expected Expected) Result {
	for _, c := range checks(pod, &expected) {
		if found := c.fails(pod, &expected); found != "" {
			return Result{reason: c.reason, found: short(found)}
		}
	}
	return Result{admitted: true}
}

// Explain makes every check, in order, for a person who wants to know all that is wrong. Where there is no Pod, or nothing
// that it could be compared with, there is only that one finding.
func Explain(pod *corev1.Pod, expected Expected) []Finding {
	var findings []Finding
	for _, c := range checks(pod, &expected) {
		found := short(c.fails(pod, &expected))
		findings = append(findings, Finding{Reason: c.reason, Passed: found == "", Found: found})
	}
	return findings
}

// Reasons lists the checks in their order.
func Reasons() []Reason {
	var reasons []Reason
	for _, c := range slices.Concat(premises(), judgements()) {
		reasons = append(reasons, c.reason)
	}
	return reasons
}

// check says what is wrong, and nothing when all is well.
type check struct {
	reason Reason
	fails  func(*corev1.Pod, *Expected) string
}

// checks are all of them in their order; the premises alone when one of those fails, since the others read the Pod.
func checks(pod *corev1.Pod, expected *Expected) []check {
	all := premises()
	for i, c := range all {
		if c.fails(pod, expected) != "" {
			return all[i : i+1]
		}
	}
	return append(all, judgements()...)
}

func judgements() []check {
	return slices.Concat(identity(), isolation(), security(), containers(), privileges(), conduct(), volumes())
}

func short(text string) string {
	const longest = 500
	if len(text) > longest {
		return text[:longest] + "..."
	}
	return text
}

// unless is the found text of a plain condition.
func unless(holds bool, format string, args ...any) string {
	if holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// value shows what a pointer points to.
func value[T any](p *T) string {
	if p == nil {
		return "not set"
	}
	return fmt.Sprintf("%.80v", *p)
}

// is compares what a pointer points to; nothing is equal to nil.
func is[T comparable](p *T, want T) bool { return p != nil && *p == want }
