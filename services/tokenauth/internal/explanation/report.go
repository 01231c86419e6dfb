package explanation

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
)

// Report is one decision and its steps. The names of its JSON are stable; keys may be added.
type Report struct {
	// Outcome is granted, denied or unknown.
	Outcome string `json:"outcome"`
	// Reason and Step of a refusal, with Explanation for the operator; empty in a grant.
	Reason      string `json:"reason,omitempty"`
	Step        string `json:"step,omitempty"`
	Explanation string `json:"explanation,omitempty"`
	// Code and Message are what the caller of the daemon would get.
	Code    string `json:"grpc_code"`
	Message string `json:"message,omitempty"`
	// SandboxID and RuntimeIdentity are the answer; empty in a refusal.
	SandboxID       string `json:"sandbox_id,omitempty"`
	RuntimeIdentity string `json:"runtime_identity,omitempty"`
	// Allowlist is the state of the list that was used, in words; empty when it was not asked.
	Allowlist string `json:"allowlist,omitempty"`
	// AllowlistTrouble is why the list was not current when the decision began, for the operator; empty when it was, and in
	// modes without a list. A report made by New has none.
	AllowlistTrouble string `json:"allowlist_trouble,omitempty"`
	// DurationMS is how long the decision took, milliseconds.
	DurationMS float64 `json:"duration_ms"`
	Steps      []Step  `json:"steps"`
}

// Step is one step of the decision.
type Step struct {
	Name string `json:"name"`
	// Contract is the number of the check in contract 6.1; 0 for what is added to it.
	Contract int `json:"contract,omitempty"`
	// Outcome is passed, skipped, refused, waiting or not reached.
	Outcome string `json:"outcome"`
	// Evidence is what the step saw; empty when it was not reached.
	Evidence string `json:"evidence,omitempty"`
}

// New makes a report of what the evaluator said.
func New(result authenticate.Result, findings []authenticate.Finding, took time.Duration) Report {
	d := result.Decision
	r := Report{
		Outcome: d.Outcome().String(), Reason: string(d.Reason), Step: d.Step, Explanation: d.Explanation,
		Code: d.Code().String(), Message: d.Message(), DurationMS: float64(took) / float64(time.Millisecond),
	}
	if d.Granted() {
		r.SandboxID, r.RuntimeIdentity = result.SandboxID, result.Identity.String()
	}
	if d.Allowlist.Namespace != "" {
		r.Allowlist = d.Allowlist.String()
	}
	for _, f := range findings {
		r.Steps = append(r.Steps, Step{Name: f.Step.Name, Contract: f.Step.Contract, Outcome: string(f.Outcome), Evidence: f.Evidence})
	}
	return r
}

// WriteJSON writes r as one JSON object.
func WriteJSON(w io.Writer, r Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes r for a person: the steps, and below them the answer.
func WriteTable(w io.Writer, r Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i := range cells {
			cells[i] = line(cells[i])
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("STEP", "CHECK", "OUTCOME", "EVIDENCE")
	for _, s := range r.Steps {
		check := "-"
		if s.Contract > 0 {
			check = strconv.Itoa(s.Contract)
		}
		row(s.Name, check, s.Outcome, s.Evidence)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	say := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-18s%s\n", name, line(text))
		}
	}
	b.WriteByte('\n')
	say("outcome", r.Outcome)
	say("reason", r.Reason)
	say("step", r.Step)
	say("explanation", r.Explanation)
	say("allowlist", r.Allowlist)
	say("list trouble", r.AllowlistTrouble)
	say("sandbox id", r.SandboxID)
	say("runtime identity", r.RuntimeIdentity)
	say("caller gets", strings.TrimSpace(r.Code+" "+r.Message))
	_, err := io.WriteString(w, b.String())
	return err
}

// line keeps a text of others from breaking a row, or driving a terminal.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
