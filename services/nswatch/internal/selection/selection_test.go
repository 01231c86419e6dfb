package selection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

type candidate = allowlist.Candidate

// fixture is a Selection with what it logged since the last call of lines.
type fixture struct {
	*Selection
	t   *testing.T
	out bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	refusals, err := allowlist.ParseRefusals("kube-*", "mesh")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t}
	f.Selection, err = New(refusals, zerolog.New(&f.out), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lines are the log lines as "level namespace cause", or "level count" for a summary.
func (f *fixture) lines() []string {
	f.t.Helper()
	var lines []string
	for d := json.NewDecoder(&f.out); d.More(); {
		var line struct {
			Level, Namespace, Cause string
			Count                   int
		}
		if err := d.Decode(&line); err != nil {
			f.t.Fatal(err)
		}
		if line.Count > 0 {
			lines = append(lines, fmt.Sprint(line.Level, " ", line.Count))
		} else {
			lines = append(lines, fmt.Sprint(line.Level, " ", line.Namespace, " ", line.Cause))
		}
	}
	return lines
}

// expect checks the log since the last expect, and the metrics of one cause.
func (f *fixture) expect(cause allowlist.RefusalCause, total, current float64, lines ...string) {
	f.t.Helper()
	if got := testutil.ToFloat64(f.metrics.total.WithLabelValues(cause.String())); got != total {
		f.t.Errorf("refused_total{%s} is %v, want %v", cause, got, total)
	}
	if got := testutil.ToFloat64(f.metrics.current.WithLabelValues(cause.String())); got != current {
		f.t.Errorf("refused{%s} is %v, want %v", cause, got, current)
	}
	if got := f.lines(); fmt.Sprint(got) != fmt.Sprint(lines) {
		f.t.Errorf("logged %q, want %q", got, lines)
	}
}

func TestEachCause(t *testing.T) {
	for _, c := range []struct {
		name string
		add  []candidate
		want allowlist.RefusalCause
		line string
	}{
		{"name", []candidate{{Name: "Team"}}, allowlist.InvalidName, "warn Team invalid_name"},
		{"prefix", []candidate{{Name: "kube-system"}}, allowlist.Reserved, "warn kube-system reserved"},
		{"whole name", []candidate{{Name: "mesh"}}, allowlist.Reserved, "warn mesh reserved"},
		{"terminating", []candidate{{Name: "b", Terminating: true}}, allowlist.Terminating, "info b terminating"},
		{"uid", []candidate{{Name: "b", UID: "no uid"}}, allowlist.InvalidUID, "warn b invalid_uid"},
		{"two uids", []candidate{{Name: "b", UID: "1"}, {Name: "b", UID: "2"}}, allowlist.AmbiguousUID, "warn b ambiguous_uid"},
		{"long name", []candidate{{Name: strings.Repeat("é", 5000)}}, allowlist.InvalidName, "warn " + strings.Repeat("é", 40) + "... invalid_name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			list := f.Apply(append([]candidate{{Name: "a", UID: "u"}}, c.add...))
			if got, ok := list.Lookup("a"); list.Len() != 1 || !ok || got.UID != "u" {
				t.Errorf("list has %d namespaces, a: %v", list.Len(), got)
			}
			f.expect(c.want, 1, 1, c.line)
			for _, cause := range causes {
				if cause != c.want {
					f.expect(cause, 0, 0)
				}
			}
		})
	}
}

// TestOnceUntilGone walks one name through its life.
func TestOnceUntilGone(t *testing.T) {
	f := newFixture(t)
	dying := []candidate{{Name: "a", UID: "1", Terminating: true}}
	f.Apply(dying)
	f.expect(allowlist.Terminating, 1, 1, "info a terminating")
	f.Apply(dying)
	f.Apply(append(dying, candidate{Name: "b"}))
	f.expect(allowlist.Terminating, 1, 1)
	f.Apply([]candidate{{Name: "b"}})
	f.expect(allowlist.Terminating, 1, 0)
	f.Apply(dying)
	f.expect(allowlist.Terminating, 2, 1, "info a terminating")

	// The same name for another cause is another refusal.
	f.Apply([]candidate{{Name: "a", UID: "no uid"}})
	f.expect(allowlist.Terminating, 2, 0, "warn a invalid_uid")
	f.expect(allowlist.InvalidUID, 1, 1)
	f.Apply(nil)
	f.expect(allowlist.InvalidUID, 1, 0)
}

func TestLinesAreBounded(t *testing.T) {
	const many = 5000
	f := newFixture(t)
	var all []candidate
	for i := range many {
		all = append(all, candidate{Name: fmt.Sprintf("kube-%04d", i)})
	}
	f.Apply(all)
	var want []string
	for i := range linesPerApply {
		want = append(want, fmt.Sprintf("warn kube-%04d reserved", i))
	}
	f.expect(allowlist.Reserved, many, many, append(want, fmt.Sprint("warn ", many-linesPerApply))...)
	f.Apply(all)
	f.expect(allowlist.Reserved, many, many)
	f.Apply(append(all, candidate{Name: "kube-new"}))
	f.expect(allowlist.Reserved, many+1, many+1, "warn kube-new reserved")
}

func TestMemoryIsBounded(t *testing.T) {
	f := newFixture(t)
	f.limit = 2
	all := []candidate{{Name: "kube-1"}, {Name: "kube-2"}, {Name: "kube-3"}, {Name: "kube-4"}}
	for range 3 {
		if list := f.Apply(all); list.Len() != 0 {
			t.Fatalf("published %d refused namespaces", list.Len())
		}
	}
	f.expect(allowlist.Reserved, 2, 4, "warn kube-1 reserved", "warn kube-2 reserved")
	if len(f.known) != 2 {
		t.Errorf("%d refusals are remembered, want 2", len(f.known))
	}
}

func TestNewNeedsARegisterer(t *testing.T) {
	if _, err := New(allowlist.Refusals{}, zerolog.Nop(), nil); err == nil {
		t.Error("no error without a registerer")
	}
	reg := prometheus.NewRegistry()
	if _, err := New(allowlist.Refusals{}, zerolog.Nop(), reg); err != nil {
		t.Fatal(err)
	}
	if _, err := New(allowlist.Refusals{}, zerolog.Nop(), reg); err == nil {
		t.Error("no error for metrics that are registered already")
	}
}

// TestCausesAreComplete fails when allowlist has a cause whose series would not exist from the start.
func TestCausesAreComplete(t *testing.T) {
	for c := allowlist.RefusalCause(1); c.String() != allowlist.RefusalCause(0).String(); c++ {
		if int(c) > len(causes) || causes[c-1] != c {
			t.Errorf("cause %s is not in causes", c)
		}
	}
}
