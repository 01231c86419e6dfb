//go:build portcullis_long

package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// demandStory demands that the demo has printed the story of testdata, whole and in order, and nothing else.
func (p *person) demandStory(name, out string) {
	t := p.t
	t.Helper()
	got := p.story(out)
	path := filepath.Join("testdata", name+".txt")
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
		t.Errorf("it tells another story (-want +got):\n%s\nIt printed\n%s", diff, out)
	}
}

var (
	entry     = regexp.MustCompile(`^ *\d+\.\d s  (ok  |FAIL|skip|    )  (\S.*)$`)
	below     = strings.Repeat(" ", 17) // a detail, or what a program said
	variable  = regexp.MustCompile(`kill -9 \d+|\(\d+\.\d s\)`)
	narration = regexp.MustCompile(`^(gateway|driver): `)
)

// story is what was printed without what differs from run to run: times, what was seen as the proof of a claim, what the gateway and its
// driver told meanwhile, and how the cluster was prepared. What was not shown is there with its reason.
func (p *person) story(out string) string {
	p.t.Helper()
	var b strings.Builder
	step, last := "", ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(strings.ReplaceAll(line, p.prefix, "PREFIX"), " \n")
		line = variable.ReplaceAllStringFunc(line, func(found string) string {
			if strings.HasPrefix(found, "kill") {
				return "kill -9 PID"
			}
			return "(TIME)"
		})
		detail, isDetail := strings.CutPrefix(line, below)
		switch parts := entry.FindStringSubmatch(line); {
		case isDetail:
			if last == "skip" || strings.HasPrefix(detail, "| ") {
				b.WriteString("            " + detail + "\n")
			}
		case parts != nil:
			what := parts[2]
			if last = strings.TrimSpace(parts[1]); last != "skip" {
				what, _, _ = strings.Cut(what, "  ")
			}
			if last != "" || !strings.HasPrefix(step, "0  ") && !narration.MatchString(what) {
				b.WriteString("      " + parts[1] + "  " + what + "\n")
			}
		case line == "building the demo (once)":
		default:
			if line != "" && line[0] >= '0' && line[0] <= '9' {
				step = line
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
