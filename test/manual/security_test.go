package manual_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
)

// TestSecurity: every test that docs/security.md names is there.
func TestSecurity(t *testing.T) {
	cited := regexp.MustCompile("\\| `([a-z0-9/]+) ((?:Test|Fuzz)\\w+)` \\|").FindAllStringSubmatch(handbook.Read(t, "../../docs/security.md"), -1)
	if len(cited) < 20 {
		t.Fatalf("the document names %d tests", len(cited))
	}
	for _, c := range cited {
		files, err := filepath.Glob(filepath.Join("../..", c[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(content)
		}
		if !strings.Contains(all.String(), "\nfunc "+c[2]+"(") {
			t.Errorf("there is no %s in %s", c[2], c[1])
		}
	}
}
