package app_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	evaluator "github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

var update = flag.Bool("update", false, "write the tables of docs/tokenauth.md anew")

const docs = "../../../../docs/tokenauth.md"

// TestDocsListTheSteps: the tables of the documentation are those of the evaluator and of the registry of reasons.
func TestDocsListTheSteps(t *testing.T) {
	content, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for name, table := range map[string]string{"steps": stepsTable(), "reasons": reasonsTable(t)} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, _ := strings.Cut(text, begin)
		got, after, ok := strings.Cut(rest, end)
		if !ok {
			t.Fatalf("%s has no place for the %s", docs, name)
		}
		if *update {
			text = before + begin + table + end + after
			continue
		}
		if diff := cmp.Diff(table, got); diff != "" {
			t.Errorf("the %s in %s are not those of the program; -update writes them anew:\n%s", name, docs, diff)
		}
	}
	if *update {
		if err := os.WriteFile(docs, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func stepsTable() string {
	var b strings.Builder
	b.WriteString("| Step | Check | Refuses with |\n| --- | --- | --- |\n")
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
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", step.Name, check, strings.Join(reasons, ", "))
	}
	return b.String()
}

// reasonsTable has those of the steps and those of the service, each once and in the registry's order.
func reasonsTable(t *testing.T) string {
	t.Helper()
	used := map[verdict.Reason]bool{verdict.TooManyCalls: true, verdict.CallEnded: true, verdict.Unexplained: true}
	for _, step := range evaluator.Steps() {
		for _, r := range step.Reasons {
			used[r] = true
		}
	}
	var b strings.Builder
	b.WriteString("| Reason | Outcome | Again? | Means |\n| --- | --- | --- | --- |\n")
	for _, spec := range verdict.Reasons() {
		if !used[spec.Reason] {
			continue
		}
		delete(used, spec.Reason)
		again := "no"
		if spec.Retryable {
			again = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", spec.Reason, spec.Outcome, again, spec.Doc)
	}
	if len(used) > 0 {
		t.Errorf("not in the registry: %v", used)
	}
	return b.String()
}

// metricNames are those that the documentation speaks of.
func metricNames(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`portcullis_[a-z_]+[a-z]`).FindAllString(string(content), -1)
}
