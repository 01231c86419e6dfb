package authenticate

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// answer puts into have what want knows about a question.
func answer(have, want *Facts, q Question) {
	switch q.Subject {
	case SubjectReview:
		have.Review = want.Review
	case SubjectList:
		have.List = want.List
	case SubjectNamespace:
		have.Namespace = want.Namespace
	case SubjectPod:
		have.Pod = want.Pod
	case SubjectSandbox:
		have.Sandbox = want.Sandbox
	case SubjectListAgain:
		have.ListAgain = want.ListAgain
	}
}

// interview runs the loop of the package comment and returns what was asked.
func interview(t *testing.T, e *Evaluator, want *Facts) (Result, []Question) {
	t.Helper()
	have := &Facts{CredentialBytes: want.CredentialBytes, CredentialCompact: want.CredentialCompact, GatewayID: want.GatewayID}
	var asked []Question
	for range steps {
		r := e.Evaluate(have)
		if r.Final() {
			return r, asked
		}
		if r.Decision.Granted() || r.Decision.Reason != verdict.NotAsked || r.Decision.Outcome() != verdict.Unknown || r.Decision.Code() != codes.Internal {
			t.Fatalf("a decision that waits for %s is %s", r.Next, r.Decision.Explain())
		}
		asked = append(asked, r.Next)
		answer(have, want, r.Next)
	}
	t.Fatalf("the questions do not end: %v", asked)
	return Result{}, nil
}

func TestEachQuestionIsAskedOnceAndInOrder(t *testing.T) {
	for _, mode := range modes {
		namespace := namespaceIn(mode)
		want := []Question{
			{Subject: SubjectReview},
			{Subject: SubjectPod, Namespace: namespace, Name: podName},
			{Subject: SubjectSandbox, Namespace: namespace, Name: boxName, Version: "v1beta1"},
		}
		if mode != driverconf.ModeShared {
			want = slices.Insert(want, 1, Question{Subject: SubjectNamespace, Namespace: namespace})
		}
		if mode == driverconf.ModeOperator {
			want = slices.Insert(want, 1, Question{Subject: SubjectList, Namespace: namespace})
			want = append(want, Question{Subject: SubjectListAgain, Namespace: namespace})
		}
		r, asked := interview(t, evaluatorIn(t, mode), valid(t, mode).facts())
		if !r.Decision.Granted() || !slices.Equal(asked, want) {
			t.Errorf("%s: %s after %v, want a grant after %v", mode, r.Decision.Explain(), asked, want)
		}
	}
}

// Asking step by step ends in the same answer as knowing everything before, and asks for nothing behind a refusal.
func TestStepByStepIsTheSameAnswer(t *testing.T) {
	for _, mode := range modes {
		for _, b := range breachesIn(mode) {
			w := valid(t, mode)
			b.do(w)
			e := evaluatorIn(t, mode)
			whole := e.Evaluate(w.facts())
			if b.reason == verdict.NotAsked {
				continue // these facts answer a question never
			}
			r, asked := interview(t, e, w.facts())
			if r != whole {
				t.Errorf("%s, %s: step by step %+v, at once %+v", b.step, b.name, r, whole)
			}
			for _, q := range asked {
				if first := firstStepOf(q.Subject); at(t, first) > at(t, b.step) {
					t.Errorf("%s, %s: %s was asked for", b.step, b.name, q)
				}
			}
		}
	}
}

func firstStepOf(s Subject) string {
	return map[Subject]string{
		SubjectReview: "review.answered", SubjectList: "namespace.accepted", SubjectNamespace: "namespace.found",
		SubjectPod: "pod.found", SubjectSandbox: "sandbox.found", SubjectListAgain: "namespace.listed.again",
	}[s]
}

// What was read ahead counts when the review leads to the same question, and not at all when it does not.
func TestWhatWasReadAheadCountsOnlyForItsQuestion(t *testing.T) {
	for _, mode := range modes {
		w := valid(t, mode)
		e := evaluatorIn(t, mode)
		for name, claim := range map[string]func(*Question){
			"another name": func(q *Question) { q.Name = "os-supervisor-other" }, "another namespace": func(q *Question) { q.Namespace = "other" },
			"another subject": func(q *Question) { q.Subject = SubjectSandbox },
		} {
			for _, h := range []how{found, missing, failed} {
				f := w.facts()
				q := f.Pod.About()
				claim(&q)
				f.Pod = look(h, q, &w.pod)
				if r := e.Evaluate(f); r.Next != (Question{Subject: SubjectPod, Namespace: namespaceIn(mode), Name: podName}) {
					t.Errorf("%s: read ahead about %s as %v, and the Pod is not asked for: %s", mode, name, h, r.Decision.Explain())
				}
			}
		}
	}
}

func TestExplain(t *testing.T) {
	for _, mode := range modes {
		for _, b := range append(breachesIn(mode), breach{name: "none", do: func(*world) {}}) {
			w := valid(t, mode)
			b.do(w)
			e := evaluatorIn(t, mode)
			r, findings := e.Explain(w.facts())
			if r != e.Evaluate(w.facts()) {
				t.Fatalf("%s, %s: Explain and Evaluate differ", b.step, b.name)
			}
			if len(findings) != len(steps) {
				t.Fatalf("%s, %s: %d findings", b.step, b.name, len(findings))
			}
			end := len(findings)
			if b.step != "" {
				end = at(t, b.step)
			}
			for i, f := range findings {
				if f.Step.Name != steps[i].name {
					t.Fatalf("finding %d is %s", i, f.Step.Name)
				}
				var want []Outcome
				switch {
				case i < end:
					want = []Outcome{Passed, Skipped}
				case i == end && b.reason == verdict.NotAsked:
					want = []Outcome{Waiting}
				case i == end:
					want = []Outcome{Refused}
				default:
					want = []Outcome{NotReached}
				}
				if !slices.Contains(want, f.Outcome) || (f.Evidence == "") != (f.Outcome == NotReached) {
					t.Errorf("%s, %s: step %s is %s with evidence %q, want one of %v", b.step, b.name, f.Step.Name, f.Outcome, f.Evidence, want)
				}
			}
		}
	}
}
