package manual_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestReasons: every reason that there is has its row in docs/reasons.md, with what to do.
func TestReasons(t *testing.T) {
	w := handbook.Table{Head: []string{"Reason", "Answer", "Means", "What to do"}}
	for _, spec := range verdict.Reasons() {
		answer := "no, " + code(spec)
		if spec.Outcome == verdict.Unknown {
			answer = "not known, " + code(spec)
		}
		if spec.Retryable {
			answer += ", again"
		}
		w.Rows = append(w.Rows, []string{"`" + string(spec.Reason) + "`", answer, spec.Doc})
	}
	handbook.Check(t, reasons, *update, map[string]handbook.Table{"reasons": w})
}

// code is the default code as the contract writes it.
func code(spec verdict.Spec) string {
	var b strings.Builder
	for i, letter := range spec.Code.String() {
		if i > 0 && letter >= 'A' && letter <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(letter)
	}
	return "`" + strings.ToUpper(b.String()) + "`"
}
