package authenticate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

var update = flag.Bool("update", false, "write the golden texts anew; steps and reasons are on dashboards and in audit events")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-stored +now); -update writes it anew:\n%s", path, diff)
	}
}

// The whole table: what each step can answer, and what the caller hears.
func TestGoldenSteps(t *testing.T) {
	var b strings.Builder
	for i := range steps {
		step := &steps[i]
		from := "added"
		if step.contract != 0 {
			from = fmt.Sprintf("contract 6.1 step %d", step.contract)
		}
		fmt.Fprintf(&b, "%s (%s)\n", step.name, from)
		for _, reason := range step.reasons {
			d := (&evaluation{}).refuse(step, refuse(reason, "")).Decision
			again := ""
			if d.Retryable() {
				again = ", retryable"
			}
			fmt.Fprintf(&b, "\t%s: %s, %s%s, %q\n", reason, d.Outcome(), d.Code(), again, d.Message())
		}
	}
	golden(t, "steps.txt", b.String())
}

// What an operator reads, for one grant in each mode and some refusals.
func TestGoldenExplanations(t *testing.T) {
	var b strings.Builder
	write := func(title string, w *world) {
		r, findings := evaluatorIn(t, w.mode).Explain(w.facts())
		fmt.Fprintf(&b, "# %s, %s mode\n", title, w.mode)
		for _, f := range findings {
			if f.Outcome != NotReached {
				fmt.Fprintf(&b, "%-23s %-8s %s\n", f.Step.Name, f.Outcome, f.Evidence)
			}
		}
		fmt.Fprintf(&b, "=> %s\n\n", r.Decision.Explain())
	}
	for _, mode := range modes {
		write("a grant", valid(t, mode))
	}
	last := map[string]breach{}
	var order []string
	for _, br := range breaches() {
		if _, ok := last[br.step]; !ok {
			order = append(order, br.step)
		}
		last[br.step] = br
	}
	for _, step := range order {
		br := last[step]
		mode := driverconf.ModeOperator
		if br.only != "" {
			mode = br.only
		}
		w := valid(t, mode)
		br.do(w)
		r := evaluatorIn(t, mode).Evaluate(w.facts())
		fmt.Fprintf(&b, "# %s, %s mode\n=> %s\n\n", br.name, mode, r.Decision.Explain())
	}
	golden(t, "explanations.txt", b.String())
}
