package app_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	evaluator "github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

var update = flag.Bool("update", false, "write the tables of docs/tokenauth.md anew")

const docs = "../../../../docs/tokenauth.md"

// TestDocsListTheSteps: the tables of the documentation are those of the evaluator and of the registry of reasons.
func TestDocsListTheSteps(t *testing.T) {
	handbook.Check(t, docs, *update, map[string]handbook.Table{"steps": stepsTable(), "reasons": reasonsTable(t)})
}

func stepsTable() handbook.Table {
	w := handbook.Table{Head: []string{"Step", "Check", "Refuses with"}, Whole: true}
	for _, step := range evaluator.Steps() {
		check := "-"
		if step.Contract > 0 {
			check = fmt.Sprint(step.Contract)
		}
		var reasons []string
		for _, r := range step.Reasons {
			if r != verdict.NotAsked { // a defect of the program, at any step with a lookup
				reasons = append(reasons, "`"+string(r)+"`")
			}
		}
		w.Rows = append(w.Rows, []string{"`" + step.Name + "`", check, strings.Join(reasons, ", ")})
	}
	return w
}

// reasonsTable has those of the steps and those of the service, each once and in the registry's order.
func reasonsTable(t *testing.T) handbook.Table {
	t.Helper()
	used := map[verdict.Reason]bool{verdict.TooManyCalls: true, verdict.CallEnded: true, verdict.Unexplained: true}
	for _, step := range evaluator.Steps() {
		for _, r := range step.Reasons {
			used[r] = true
		}
	}
	w := handbook.Table{Head: []string{"Reason", "Outcome", "Again?", "Means"}, Whole: true}
	for _, spec := range verdict.Reasons() {
		if !used[spec.Reason] {
			continue
		}
		delete(used, spec.Reason)
		again := "no"
		if spec.Retryable {
			again = "yes"
		}
		w.Rows = append(w.Rows, []string{"`" + string(spec.Reason) + "`", spec.Outcome.String(), again, spec.Doc})
	}
	if len(used) > 0 {
		t.Errorf("not in the registry: %v", used)
	}
	return w
}
