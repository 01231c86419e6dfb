package handbook

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Table is what the program says. Rows are known by their first cell.
type Table struct {
	Head []string
	Rows [][]string
	// Whole says that no column is left to a person.
	Whole bool
}

// render is the table with what a person has written about each row.
func (w *Table) render(byHand map[string]string) string {
	var b strings.Builder
	line := func(all []string) { b.WriteString("| " + strings.Join(all, " | ") + " |\n") }
	line(w.Head)
	line(slices.Repeat([]string{"---"}, len(w.Head)))
	for _, row := range w.Rows {
		if !w.Whole {
			row = append(slices.Clone(row), byHand[row[0]])
		}
		line(row)
	}
	return b.String()
}

// LastCells are the last columns of a table in a document, by the first ones.
func LastCells(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) > 1 {
			found[strings.TrimSpace(cells[0])] = strings.TrimSpace(cells[len(cells)-1])
		}
	}
	return found
}

// Check demands that the tables of a document are those of the program, and that a person has written about each row. With update it
// writes them anew instead.
func Check(t testing.TB, document string, update bool, tables map[string]Table) {
	t.Helper()
	text := Read(t, document)
	for name, want := range tables {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, _ := strings.Cut(text, begin)
		got, after, ok := strings.Cut(rest, end)
		if !ok {
			t.Fatalf("%s has no place for the %s", document, name)
		}
		byHand := LastCells(got)
		want.demandExplained(t, name, byHand)
		if update {
			text = before + begin + want.render(byHand) + end + after
			continue
		}
		if diff := cmp.Diff(want.render(byHand), got); diff != "" {
			t.Errorf("the %s in %s are not those of the program; -update writes them anew:\n%s", name, document, diff)
		}
	}
	if !update {
		return
	}
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *Table) demandExplained(t testing.TB, name string, byHand map[string]string) {
	t.Helper()
	if len(w.Rows) == 0 {
		t.Errorf("the program has no %s", name)
	}
	seen := map[string]bool{}
	for _, row := range w.Rows {
		switch {
		case w.Whole:
		case seen[row[0]]:
			t.Errorf("two rows of the %s begin with %s", name, row[0])
		case byHand[row[0]] == "":
			t.Errorf("nobody has written about %s of the %s", row[0], name)
		}
		seen[row[0]] = true
	}
}

// Read is the content of a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
