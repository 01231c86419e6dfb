package record_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// asWriter makes the test program write rows until it is killed.
const asWriter = "write-rows-until-killed"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asWriter {
		if err := write(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string) *record.Store {
	t.Helper()
	s, err := record.Open(path, record.Options{Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fresh(t *testing.T) *record.Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "records.db"))
}

func row(id, name string) record.Row {
	return record.Row{ID: id, Name: name, Workspace: "team-a", CreatedAt: time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC)}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestRowsAreCreatedOnce(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	first, err := s.Create(row("1", "a"), func(r *record.Row) { r.Run.Generation = record.Generation(r.Version) })
	is(t, err, nil)
	if first.Version != 1 || first.Run.Generation != "g0000000000000001" {
		t.Errorf("%+v", first)
	}
	_, err = s.Create(row("1", "b"), nil)
	is(t, err, record.ErrExists)
	_, err = s.Create(row("2", "a"), nil)
	is(t, err, record.ErrExists)
	other := row("2", "a")
	other.Workspace = "team-b"
	_, err = s.Create(other, nil)
	is(t, err, nil)
	// "team" + "-aa" is not "team-a" + "a".
	apart := row("3", "-aa")
	apart.Workspace = "team"
	_, err = s.Create(apart, nil)
	is(t, err, nil)
	if got, err := s.Find("team-a", "a"); err != nil || got.ID != "1" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = s.Find("team-a", "z")
	is(t, err, record.ErrNotFound)
	_, err = s.Get("9")
	is(t, err, record.ErrNotFound)
	if all, err := s.List(); err != nil || len(all) != 3 {
		t.Errorf("%d, %v", len(all), err)
	}
	is(t, s.Check(), nil)
}

func TestRowsAreSwapped(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	first, err := s.Create(row("1", "a"), nil)
	is(t, err, nil)
	_, err = s.Create(row("2", "b"), nil)
	is(t, err, nil)

	changed := first
	changed.Name, changed.Phase, changed.Before = "c", phase.Error, &record.State{Phase: phase.Ready, Cause: "x"}
	changed.Backend = phase.Status{Known: true, Conditions: []phase.Condition{{Type: "Ready", Status: "True"}}}
	changed.Annotations = map[string]string{record.AnnotationIdentity: "i"}
	second, err := s.Swap(changed)
	is(t, err, nil)
	if second.Version <= first.Version {
		t.Errorf("version %d behind %d", second.Version, first.Version)
	}
	got, err := s.Find("team-a", "c")
	is(t, err, nil)
	if diff := cmp.Diff(second, got); diff != "" {
		t.Error(diff)
	}
	_, err = s.Find("team-a", "a")
	is(t, err, record.ErrNotFound)
	_, err = s.Swap(changed) // at the version that it had
	is(t, err, record.ErrConflict)
	second.Name = "b"
	_, err = s.Swap(second)
	is(t, err, record.ErrExists)
	if got, err = s.Get("1"); got.Name != "c" || err != nil {
		t.Errorf("%+v, %v: a refused swap wrote", got, err)
	}
	is(t, s.Remove("1", first.Version), record.ErrConflict)
	is(t, s.Remove("1", second.Version), nil)
	is(t, s.Remove("1", second.Version), record.ErrNotFound)
	_, err = s.Swap(second)
	is(t, err, record.ErrNotFound)
	// No version is given twice, also not to who takes the place of another.
	again, err := s.Create(row("1", "a"), nil)
	is(t, err, nil)
	if again.Version <= second.Version {
		t.Errorf("version %d behind %d", again.Version, second.Version)
	}
	is(t, s.Check(), nil)
}

// TestSwapsRace: of any number of writers at one version, one wins.
func TestSwapsRace(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	_, err := s.Create(row("1", "a"), nil)
	is(t, err, nil)
	const writers, rounds = 4, 5
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for done := 0; done < rounds; {
				r, err := s.Get("1")
				if err != nil {
					t.Error(err)
					return
				}
				r.Run.AuthEpoch++
				if _, err = s.Swap(r); err == nil {
					done++
				} else if !errors.Is(err, record.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if r, err := s.Get("1"); err != nil || r.Run.AuthEpoch != writers*rounds {
		t.Errorf("epoch %d, %v: a write was lost", r.Run.AuthEpoch, err)
	}
}

func TestWorkspacesAndKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.db")
	s := open(t, path)
	is(t, s.PutWorkspace(record.Workspace{Name: "b", Terminating: true}), nil)
	is(t, s.PutWorkspace(record.Workspace{Name: "a"}), nil)
	is(t, s.RemoveWorkspace("z"), nil)
	if b, err := s.Ring(); err != nil || b != nil {
		t.Errorf("%q, %v", b, err)
	}
	is(t, s.PutRing([]byte("keys")), nil)
	if _, err := record.Open(path, record.Options{}); !errors.Is(err, record.ErrInUse) {
		t.Error(err)
	}
	is(t, s.Close(), nil)
	s = open(t, path)
	if all, err := s.Workspaces(); err != nil || cmp.Diff(all, []record.Workspace{{Name: "a"}, {Name: "b", Terminating: true}}) != "" {
		t.Errorf("%v, %v", all, err)
	}
	if b, err := s.Ring(); err != nil || string(b) != "keys" {
		t.Errorf("%q, %v", b, err)
	}
	is(t, s.RemoveWorkspace("a"), nil)
	if all, err := s.Workspaces(); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	readable := filepath.Join(dir, "readable")
	is(t, os.WriteFile(readable, nil, 0o644), nil)
	garbage := filepath.Join(dir, "garbage")
	is(t, os.WriteFile(garbage, []byte(strings.Repeat("x", 8192)), 0o600), nil)
	for name, want := range map[string]string{readable: "0600", garbage: "garbage", dir: "not a private file", filepath.Join(dir, "no", "such"): "no such"} {
		if s, err := record.Open(name, record.Options{Patience: time.Second}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// write is the program that is killed: it tells each version once it was committed.
func write(path string) error {
	s, err := record.Open(path, record.Options{Patience: time.Minute})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		r, err := s.Create(row(strconv.Itoa(i), "n"+strconv.Itoa(i)), nil)
		if err != nil {
			return err
		}
		r.Phase = phase.Ready
		if r, err = s.Swap(r); err != nil {
			return err
		}
		fmt.Println(i, r.Version)
		if i%3 == 2 {
			if err := s.Remove(r.ID, r.Version); err != nil {
				return err
			}
			fmt.Println(i, 0)
		}
	}
}

// TestKilled: what a process that was killed had reported as written is there, in whole.
func TestKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	is(t, err, nil)
	path := filepath.Join(t.TempDir(), "records.db")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, asWriter, path)
	out, err := cmd.StdoutPipe()
	is(t, err, nil)
	is(t, cmd.Start(), nil)
	reported := map[string]uint64{}
	lines := bufio.NewScanner(out)
	last := ""
	for n := 0; lines.Scan(); n++ {
		id, version, _ := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseUint(version, 10, 64)
		is(t, err, nil)
		reported[id], last = v, id
		if n == 40 {
			is(t, cmd.Process.Kill(), nil) // what it reports until it dies is read too
		}
	}
	if err := cmd.Wait(); err == nil || len(reported) < 20 {
		t.Fatalf("%v behind %d rows", err, len(reported))
	}
	s := open(t, path)
	is(t, s.Check(), nil)
	for id, version := range reported {
		r, err := s.Get(id)
		if version == 0 {
			is(t, err, record.ErrNotFound)
			continue
		}
		// The last one may have been removed without a word.
		if id == last && errors.Is(err, record.ErrNotFound) {
			continue
		}
		if err != nil || r.Version != version || r.Phase != phase.Ready {
			t.Errorf("row %s: %+v, %v, reported at %d", id, r, err, version)
		}
	}
}
