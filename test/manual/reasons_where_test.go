package manual_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// typable is a command with arguments within a text, linked the name of a section of the runbook.
var (
	typable = regexp.MustCompile("`(kubectl|nswatch|tokenauth|supervisorctl|lifecycle) [^`]+`")
	linked  = regexp.MustCompile(`\]\(runbook\.md#([a-z-]+)\)`)
)

// TestEachReasonHasACommand: what to do about a reason is, or begins with, something to type: a command in its row of docs/reasons.md, or
// the part of the runbook's "Where to look" that the row names.
func TestEachReasonHasACommand(t *testing.T) {
	t.Parallel()
	_, look, _ := strings.Cut(handbook.Read(t, runbook), "\n## Where to look\n")
	look, _, _ = strings.Cut(look, "\n## ")
	places := map[string]bool{} // those with a command
	for section := range strings.SplitSeq(look, "\n### ") {
		title, body, _ := strings.Cut(section, "\n")
		if strings.Contains(body, "```sh") {
			places[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = true
		}
	}
	_, rows, _ := strings.Cut(handbook.Read(t, reasons), "<!-- reasons -->")
	rows, _, _ = strings.Cut(rows, "<!-- end of reasons -->")
	byHand := handbook.LastCells(rows)
	for _, spec := range verdict.Reasons() {
		cell, found := byHand["`"+string(spec.Reason)+"`"]
		if !found {
			t.Errorf("%s has no row", spec.Reason)
			continue
		}
		if typable.MatchString(cell) {
			continue
		}
		place := linked.FindStringSubmatch(cell)
		if place == nil {
			t.Errorf("%s: nothing to type, and no part of \"Where to look\": %s", spec.Reason, cell)
			continue
		}
		if !places[place[1]] {
			t.Errorf("%s: %s is no part of \"Where to look\" with a command", spec.Reason, place[1])
		}
	}
	if len(places) < 5 {
		t.Errorf("\"Where to look\" has the parts %v only", places)
	}
}
