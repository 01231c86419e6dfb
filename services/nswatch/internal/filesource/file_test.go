package filesource

import (
	"os"
	"testing"
	"time"
)

// passes are reads of a file with something that happens at the end of each: 1 is the first.
func passes(t *testing.T, path string, at func(pass int)) (*reader, *int) {
	t.Helper()
	n := new(int)
	return &reader{path: path, now: time.Now, open: func(path string) (file, error) {
		f, err := openFile(path)
		*n++
		pass := *n
		return &altered{file: f, read: func(p []byte, read int, err error) (int, error) {
			if read > 0 {
				at(pass)
			}
			return read, err
		}}, err
	}}, n
}

// age makes a file look as if it had been left alone for long. The time of the inode cannot be set, so that the clock
// of the reader must be ahead.
func age(r *reader) { r.now = func() time.Time { return time.Now().Add(time.Hour) } }

func TestReadOnce(t *testing.T) {
	path := t.TempDir() + "/f"
	write(t, path, base)
	r, n := passes(t, path, func(int) {})
	age(r)
	if got, err := r.read(t.Context()); err != nil || string(got) != base {
		t.Fatalf("%q, %v", got, err)
	}
	if *n != 1 {
		t.Errorf("a file at rest was read %d times", *n)
	}
}

// TestReadFresh is a file that changed a moment before: two reads must agree.
func TestReadFresh(t *testing.T) {
	path := t.TempDir() + "/f"
	write(t, path, base)
	r, n := passes(t, path, func(int) {})
	r.now = func() time.Time { return time.Time{} } // every file is from the future
	if got, err := r.read(t.Context()); err != nil || string(got) != base {
		t.Fatalf("%q, %v", got, err)
	}
	if *n != 2 {
		t.Errorf("a file that changed just now was read %d times, want 2", *n)
	}
}

// TestReadTorn changes the file during the first pass, in ways that leave one pass a valid list.
func TestReadTorn(t *testing.T) {
	const next = `["team-b"]`
	for name, change := range map[string]func(path string) error{
		"in place":            func(path string) error { return os.WriteFile(path, []byte(next), 0o600) },
		"in place, same size": func(path string) error { return os.WriteFile(path, []byte(`["team-c","team-d"]`), 0o600) },
		"permissions":         func(path string) error { return os.Chmod(path, 0o644) },
		"removed":             os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/f"
			write(t, path, base)
			r, n := passes(t, path, func(pass int) {
				if pass == 1 {
					must(t, change(path))
				}
			})
			age(r)
			got, err := r.read(t.Context())
			if *n < 2 && name != "removed" {
				t.Errorf("a file that changed while it was read was read %d times", *n)
			}
			want, wantErr := os.ReadFile(path)
			if wantErr != nil {
				if resultOf(err) != resultMissing {
					t.Errorf("%q, %v, want a missing file", got, err)
				}
				return
			}
			if err != nil || string(got) != string(want) {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		})
	}
}

// TestReadNeverStill is a file that is written all the time.
func TestReadNeverStill(t *testing.T) {
	path := t.TempDir() + "/f"
	write(t, path, base)
	r, n := passes(t, path, func(int) { must(t, os.WriteFile(path, []byte(base), 0o600)) })
	age(r)
	if got, err := r.read(t.Context()); resultOf(err) != resultUnstable {
		t.Errorf("%q, %v", got, err)
	}
	if *n != attempts {
		t.Errorf("%d passes, want %d", *n, attempts)
	}
}

// TestReadMixture is a writer whose two steps fall into one grain of the file system's clock: the times are equal and
// the first pass has seen a list that was never meant.
func TestReadMixture(t *testing.T) {
	path := t.TempDir() + "/f"
	write(t, path, `["team-a","old-bb"]`)
	r, _ := passes(t, path, func(pass int) {
		if pass == 1 {
			must(t, os.WriteFile(path, []byte(`["team-a","team-b"]`), 0o600))
		}
	})
	open := r.open
	first, err := os.Stat(path)
	must(t, err)
	r.open = func(path string) (file, error) {
		f, err := open(path)
		return coarse{f, first}, err
	}
	r.now = first.ModTime
	if got, err := r.read(t.Context()); err != nil || string(got) != base {
		t.Errorf("%q, %v, want %q", got, err, base)
	}
}

// coarse is a file whose times never move.
type coarse struct {
	file
	info os.FileInfo
}

func (c coarse) Stat() (os.FileInfo, error) { return c.info, nil }
