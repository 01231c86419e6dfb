//go:build portcullis_long

package scenario_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/portcullis-mesh/portcullis/test/scenario"
)

var update = flag.Bool("update", false, "write the stories anew; they are what operators are told")

// one plays the scripts of a stage one after the other.
type one struct{ *testing.T }

func (one) Parallel() {}

func (t one) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(one{t}) })
}

func (one) Verbose() bool { return testing.Verbose() }

// TestScenarios plays every script. A stage is raised only when one of its scripts is wanted.
func TestScenarios(t *testing.T) {
	for _, stage := range stages(t) {
		t.Run(filepath.Base(stage), func(t *testing.T) {
			t.Parallel()
			testscript.RunT(one{t}, scenario.Raise(t, filepath.Base(stage)).Params(stage, *update))
		})
	}
}

func stages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*")
	if err != nil || len(all) == 0 {
		t.Fatalf("no stages: %v", err)
	}
	return all
}

// TestEveryStoryIsCompared: a script that compares nothing, or ends early, would pass whatever happens.
func TestEveryStoryIsCompared(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script := strings.TrimSpace(string(txtar.Parse(text).Comment))
		if !strings.HasSuffix(script, "\n"+scenario.Ending) {
			t.Errorf("%s does not end with %q", path, scenario.Ending)
		}
		for line := range strings.Lines(script) {
			switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word {
			case "stop", "skip", "exec", "wait", "kill":
				t.Errorf("%s: %s is not of the language of package scenario", path, word)
			}
		}
	}
}
