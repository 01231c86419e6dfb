package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// shown is the JSON of a Result. Its names are stable; keys may be added.
type shown struct {
	Namespace string `json:"namespace"`
	// Fence is enforced, not enforced or unknown.
	Fence       string `json:"fence"`
	Reason      string `json:"reason,omitempty"`
	Step        string `json:"step,omitempty"`
	Explanation string `json:"explanation,omitempty"`
	Node        string `json:"node,omitempty"`
	// PoliciesMade are names, LeftOver sentences.
	PoliciesMade []string       `json:"policies_made,omitempty"`
	LeftOver     []string       `json:"left_over,omitempty"`
	DurationMS   int64          `json:"duration_ms"`
	Workload     *canary.Report `json:"workload,omitempty"`
	Supervisor   *canary.Report `json:"supervisor,omitempty"`
}

// WriteJSON writes r as one JSON object.
func WriteJSON(w io.Writer, r *Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(shown{
		Namespace: r.Namespace, Fence: r.Enforced(), Reason: string(r.Decision.Reason), Step: r.Decision.Step, Explanation: r.Decision.Explanation,
		Node: r.Node, PoliciesMade: r.Made, LeftOver: r.LeftOver, DurationMS: r.Took.Milliseconds(), Workload: r.Workload, Supervisor: r.Supervisor,
	})
}

// WriteText writes r for a person: what was tried, what was seen, and what it means.
func WriteText(w io.Writer, r *Result) error {
	var b strings.Builder
	if r.Workload != nil || r.Supervisor != nil {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "WAY\tWORKLOAD CANARY\tSUPERVISOR CANARY")
		for _, row := range rows(r) {
			_, _ = fmt.Fprintln(t, strings.Join(row[:], "\t"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	say := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			fmt.Fprintf(&b, "%-13s%s\n", name, oneLine(text))
		}
	}
	say("namespace", "%s", r.Namespace)
	say("node", "%s", r.Node)
	say("fence", "%s", strings.Replace(r.Enforced(), "unknown", "could not be found out", 1))
	say("reason", "%s", r.Decision.Reason)
	say("explanation", "%s", r.Decision.Explanation)
	say("means", "%s", meaning(r))
	for _, name := range r.Made {
		say("made", "NetworkPolicy %s, which was absent; it stays, as after the first sandbox", name)
	}
	for _, text := range r.LeftOver {
		say("left over", "%s", text)
	}
	say("took", "%s", r.Took.Round(10*time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}

// rows are one for each target, and one for the port that must be shut.
func rows(r *Result) [][3]string {
	var all [][3]string
	report := r.Workload
	if report == nil {
		report = r.Supervisor
	}
	for i := range report.Targets {
		row := [3]string{"to " + report.Targets[i].Target, "-", "-"}
		if r.Workload != nil {
			row[1] = outward(&r.Workload.Targets[i])
		}
		if r.Supervisor != nil {
			row[2] = alive(&r.Supervisor.Targets[i])
		}
		all = append(all, row)
	}
	if r.Supervisor != nil && r.Supervisor.Entered {
		all = append(all, [3]string{"in at the boundary port", "-", "reached"}, [3]string{"in at another port", "-", outward(&r.Supervisor.Shut)})
	}
	return all
}

func outward(s *canary.Seen) string {
	var text string
	switch {
	case s.Tries == 0:
		return "not tried"
	case s.Held():
		text = fmt.Sprintf("blocked (%s), %d times in a row", s.Last, s.Streak)
	default:
		text = fmt.Sprintf("not shut (last: %s)", s.Last)
	}
	if s.Opens > 0 {
		text += fmt.Sprintf("; open %d times of %d, until %s", s.Opens, s.Tries, time.Duration(s.LastOpen)*time.Millisecond)
	}
	return oneLine(text)
}

func alive(s *canary.Seen) string {
	switch {
	case s.Before && s.During && s.After:
		return "reached before, meanwhile and after"
	case s.Before && s.During:
		return "reached before and meanwhile"
	case s.Before:
		return "reached before"
	case s.Tries == 0:
		return "not tried"
	default:
		return oneLine(fmt.Sprintf("not reached (last: %s)", s.Last))
	}
}

// meaning says in a sentence what follows from the verdict.
func meaning(r *Result) string {
	switch r.Decision.Outcome() {
	case verdict.Granted:
		text := "what a workload in this namespace was to reach it did not reach from this node, though it was there to be reached"
		if in, known := r.SetIn(); known {
			text += fmt.Sprintf("; in the first %s after its start it did", in.Round(100*time.Millisecond))
		}
		return text
	case verdict.Denied:
		if r.Decision.Reason == verdict.FenceAltered {
			return "sandboxes are not provisioned behind these policies; look who changed them, and delete the policy to have it made anew"
		}
		return "sandboxes in this namespace are NOT fenced: the network plug-in does not enforce NetworkPolicies here, or a policy or resource of somebody else opens the fence"
	default:
		return "nothing is proven, neither that the fence is enforced nor that it is not; remove the hindrance and probe again"
	}
}

// oneLine keeps a text that came from elsewhere on its line.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
}
