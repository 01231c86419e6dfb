package scenario_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/scenario"
)

var update = flag.Bool("update", false, "write the stories anew; they are what operators are told")

// scripts are those of a stage as tests, side by side or one after the other.
type scripts struct {
	*testing.T
	together bool
}

func (s scripts) Parallel() {
	if s.together {
		s.T.Parallel()
	}
}

func (s scripts) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(scripts{t, s.together}) })
}

func (scripts) Verbose() bool { return testing.Verbose() }

// TestScenarios plays every script. A stage is raised only when one of its scripts is wanted.
func TestScenarios(t *testing.T) {
	with := lifecycle.StartStandIns(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	for _, stage := range stages(t) {
		t.Run(filepath.Base(stage), func(t *testing.T) {
			t.Parallel()
			s := scenario.Raise(t, with, filepath.Base(stage))
			testscript.RunT(scripts{t, s.Together()}, s.Params(stage, *update))
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
