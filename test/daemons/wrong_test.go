//go:build portcullis_long

package daemons_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/test/program"
)

var update = flag.Bool("update", false, "write the tables in testdata anew")

// wrong is one thing that is wrong with a good daemon.
type wrong struct {
	name string
	// breaks changes the files, or anything else before the start.
	breaks func(*ward, files)
	// mend puts right what breaks did beside the files, which are put right in any case.
	mend func(*ward)
	// ward is filled in by the test.
	ward *ward
}

// without are files that are not there, holding are files that hold something else.
func without(names ...string) func(*ward, files) {
	return func(_ *ward, f files) {
		for _, name := range names {
			delete(f, name)
		}
	}
}

func holding(name string, content []byte) func(*ward, files) {
	return func(_ *ward, f files) { f[name] = content }
}

// judge runs a daemon for each case at the same time and demands, of each, that it does not end, that /readyz, the log and an Event say
// the same, which is the line of testdata, that the gate gives no yes, and that it becomes ready when what is wrong is put right. A row
// is proven by the others: each differs from a daemon that becomes ready in one thing.
func judge(t *testing.T, table string, cases []wrong, prepare func(*wrong) *ward, yes func(*ward) error) {
	t.Helper()
	for i := range cases {
		w := &cases[i]
		w.ward = prepare(w)
		broken := maps.Clone(w.ward.files)
		w.breaks(w.ward, broken)
		w.ward.start(broken)
	}
	listed := readTable(t, table)
	said := map[string]string{}
	until, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for i := range cases {
		w := &cases[i]
		t.Run(w.name, func(t *testing.T) { said[w.name] = w.demandRefusal(until, t, listed[w.name], yes) })
	}
	if *update {
		writeTable(t, table, cases, said)
	}
	for i := range cases {
		cases[i].ward.write(cases[i].ward.files)
	}
	for i := range cases {
		if mend := cases[i].mend; mend != nil {
			mend(cases[i].ward)
		}
	}
	mended, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range cases {
		w := &cases[i]
		t.Run("mended: "+w.name, func(t *testing.T) { w.demandMended(mended, t, yes) })
	}
	if !*update && len(listed) != len(cases) {
		t.Errorf("%s lists %d cases, and there are %d", table, len(listed), len(cases))
	}
}

// patience ends the wait for what all the daemons of a table say, and for one that is mended.
const patience = 3 * time.Minute

// eventually looks again and again until what it looks at is right, at least once.
func eventually(until context.Context, t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), program.Limit)
		err := look(ctx)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-until.Done():
			t.Fatalf("never: %s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// demandRefusal returns what the daemon says.
func (w *wrong) demandRefusal(until context.Context, t *testing.T, want string, yes func(*ward) error) string {
	t.Helper()
	w.ward.t = t
	last := ""
	eventually(until, t, w.ward.daemon+" says what is wrong: "+w.name, func(ctx context.Context) error {
		text, err := w.ward.look(ctx)
		last = text
		if err == nil && !*update && text != want {
			return fmt.Errorf("(-testdata +said)\n%s", cmp.Diff(want, text))
		}
		return err
	})
	if yes(w.ward) == nil {
		t.Error("the gate says yes")
	}
	return last
}

// demandMended demands that the same process becomes ready, that the gate gives a yes, and that an Event says that it is over.
func (w *wrong) demandMended(until context.Context, t *testing.T, yes func(*ward) error) {
	t.Helper()
	w.ward.t = t
	eventually(until, t, w.ward.daemon+" is ready", func(ctx context.Context) error {
		status, body, err := w.ward.Readiness(ctx)
		if err == nil && status != 200 {
			err = fmt.Errorf("%s", body)
		}
		return err
	})
	eventually(until, t, "the gate says yes", func(context.Context) error { return yes(w.ward) })
	w.ward.over(until)
	w.ward.Stop()
}

func tablePath(table string) string { return filepath.Join("testdata", table+".txt") }

// readTable is what each case is to say: below its name, indented.
func readTable(t *testing.T, table string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(tablePath(table))
	if err != nil && !*update {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\S.*)\n((?:  .*\n)*)`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = m[2]
	}
	return all
}

func writeTable(t *testing.T, table string, cases []wrong, said map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, w := range cases {
		fmt.Fprintf(&b, "%s\n%s", w.name, said[w.name])
	}
	if err := os.MkdirAll("testdata", 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tablePath(table), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// only are the cases of these names, each of which is there.
func only(t *testing.T, cases []wrong, names ...string) (chosen []wrong) {
	t.Helper()
	for _, name := range names {
		at := slices.IndexFunc(cases, func(w wrong) bool { return w.name == name })
		if at < 0 {
			t.Fatalf("there is no case %q", name)
		}
		chosen = append(chosen, cases[at])
	}
	return chosen
}
