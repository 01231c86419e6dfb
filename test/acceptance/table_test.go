package acceptance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// entry is one test in the table of the package comment.
var entry = regexp.MustCompile(`((?:shared|test)/[a-z]+) (Test\w+)`)

// TestTable: every test that the table names exists where the table says.
func TestTable(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	found := entry.FindAllStringSubmatch(string(doc), -1)
	if len(found) < 30 {
		t.Fatalf("the table has %d entries", len(found))
	}
	for _, e := range found {
		files, err := filepath.Glob(filepath.Join("..", "..", e[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		exists := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			exists = exists || strings.Contains(string(source), "\nfunc "+e[2]+"(t *testing.T)")
		}
		if !exists {
			t.Errorf("there is no %s in %s", e[2], e[1])
		}
	}
}
