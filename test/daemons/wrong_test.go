package daemons_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/program"
)

var update = flag.Bool("update", false, "write the tables in testdata anew")

// wrong is one thing that is wrong with a good daemon.
type wrong struct {
	name string
	// breaks changes the files, or anything else before the start.
	breaks func(*ward, files)
	// settings makes wrong settings of right ones, with which the daemon starts.
	settings func(right string) string
	// mend puts right what breaks did beside the files, which are put right in any case, as the settings are.
	mend func(*ward)
	// lacks is a right that the daemon's ServiceAccount has not until it is mended.
	lacks *right
	// says is the message with which the log names what is wrong when the daemon stays ready, or that its answer does; empty when it is not
	// ready.
	says string
	// yes, if any, stands in for the gate of the daemon, which is open although something else cannot be done.
	yes func(*ward) error
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

// chosen are the cases of this run: all of the kinds, or the first of each.
func chosen(kinds ...[]wrong) (cases []wrong) {
	for _, kind := range kinds {
		if !wide {
			kind = kind[:1]
		}
		cases = append(cases, kind...)
	}
	return cases
}

// judge runs a daemon for each case at the same time and demands, of each, that it does not end, that /readyz, the log and an Event say
// the same, or the log of a daemon that stays ready, that the gate gives no yes, which is all in the lines of testdata, and that all is well
// when what is wrong is put right. A row is proven by the others: each differs from a daemon that becomes ready in one thing.
func judge(t *testing.T, table string, cases []wrong, prepare func(*wrong) *ward, yes func(*ward) error) {
	t.Helper()
	for i := range cases {
		w := &cases[i]
		if w.yes == nil {
			w.yes = yes
		}
		w.ward = prepare(w)
		if w.settings != nil {
			w.ward.first = w.settings(w.ward.setting)
		}
		broken := maps.Clone(w.ward.files)
		if w.breaks != nil {
			w.breaks(w.ward, broken)
		}
		w.ward.start(broken)
	}
	listed := readTable(t, table)
	said := map[string]string{}
	until, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for i := range cases {
		w := &cases[i]
		t.Run(w.name, func(t *testing.T) { said[w.name] = w.demandRefusal(until, t, listed[w.name]) })
	}
	if *update && wide {
		writeTable(t, table, cases, said)
	}
	for i := range cases {
		cases[i].ward.correct()
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
		t.Run("mended: "+w.name, func(t *testing.T) { w.demandMended(mended, t) })
	}
	if wide && !*update && len(listed) != len(cases) {
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
func (w *wrong) demandRefusal(until context.Context, t *testing.T, want string) string {
	t.Helper()
	w.ward.t = t
	last := ""
	eventually(until, t, w.ward.daemon+" says what is wrong: "+w.name, func(ctx context.Context) error {
		gate := w.yes(w.ward)
		if gate == nil {
			return errors.New("the gate says yes")
		}
		text, err := w.told(ctx)
		if err != nil {
			return err
		}
		last = text + "  gate: " + w.ward.answer(gate) + "\n"
		if !*update && last != want {
			return fmt.Errorf("(-testdata +said)\n%s", cmp.Diff(want, last))
		}
		return nil
	})
	return last
}

// told is where and how the daemon says what is wrong.
func (w *wrong) told(ctx context.Context) (string, error) {
	switch w.says {
	case "":
		return w.ward.look(ctx)
	case answered:
		w.ward.demandAlive()
		return "  ready\n", ready(ctx, w.ward)
	default:
		return w.ward.hear(ctx, w.says)
	}
}

// answered is that the answer of a daemon that stays ready names what is wrong.
const answered = "its answer"

// answer is what a gate says that gives no yes: the code and the reason that a caller is given, or why there is nobody to ask.
func (w *ward) answer(err error) string {
	if errors.Is(err, errNotReady) {
		return errNotReady.Error()
	}
	code := status.Code(err)
	if d, explained := verdict.FromError(err); explained {
		return fmt.Sprintf("%s %s", code, d.Reason)
	}
	if code == codes.Unknown {
		return w.plain(pemfile.OneLine(err).Error())
	}
	return fmt.Sprintf("%s: %s", code, w.plain(status.Convert(err).Message()))
}

// demandMended demands that the same process becomes ready, that the gate gives a yes, and that an Event says that it is over.
func (w *wrong) demandMended(until context.Context, t *testing.T) {
	t.Helper()
	w.ward.t = t
	eventually(until, t, w.ward.daemon+" is ready", func(ctx context.Context) error { return ready(ctx, w.ward) })
	eventually(until, t, "the gate says yes", func(context.Context) error { return w.yes(w.ward) })
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
