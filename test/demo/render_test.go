package demo_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded are the moments of a run, as `demo run --record` keeps them.
func recorded(t *testing.T, name string) []demo.Moment {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var moments []demo.Moment
	if err := json.Unmarshal(text, &moments); err != nil {
		t.Fatal(err)
	}
	return moments
}

func render(style demo.Style, moments []demo.Moment) string {
	var b strings.Builder
	for _, m := range moments {
		b.WriteString(style.Render(m))
	}
	return b.String()
}

// TestGolden: recorded runs, one that went well and one that did not, look as they did.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"node", "broken"} {
		for suffix, style := range map[string]demo.Style{".txt": {}, ".colour": {Colour: true}} {
			t.Run(name+suffix, func(t *testing.T) {
				t.Parallel()
				got := render(style, recorded(t, name+".json"))
				path := filepath.Join("testdata", name+suffix)
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
					t.Errorf("rendered otherwise (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestWidth: no line of a recorded run is longer than a screen of 120 columns, but for what cannot be broken.
func TestWidth(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(render(demo.Style{}, recorded(t, "node.json"))) {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestPlain: without colour nothing reaches a terminal that it would act on, whatever programs say.
func TestPlain(t *testing.T) {
	t.Parallel()
	m := demo.Moment{Kind: demo.Output, Detail: "a\x1b[2Jb\rc\x07\nsecond \x9b line"}
	got := demo.Style{}.Render(m)
	if strings.ContainsAny(got, "\x1b\r\x07\u009b") || strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
}
