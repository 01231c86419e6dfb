package filesource

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// badFile breaks the file at path, which is good, in one way.
type badFile struct {
	name  string
	spoil func(t *testing.T, path string)
	want  result
	text  string
}

func replaced(t *testing.T, path string) string {
	t.Helper()
	must(t, os.Remove(path))
	return path
}

func holding(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) { write(t, path, text) }
}

var badFiles = []badFile{
	{"removed", func(t *testing.T, path string) { replaced(t, path) }, resultMissing, "it does not exist"},
	{"parent removed", func(t *testing.T, path string) { must(t, os.RemoveAll(filepath.Dir(path))) }, resultMissing, "it does not exist"},
	{"parent is a file", func(t *testing.T, path string) {
		must(t, os.RemoveAll(filepath.Dir(path)), os.WriteFile(filepath.Dir(path), nil, 0o600))
	}, resultMissing, "something on the way to it is not a directory"},
	{"dangling link", func(t *testing.T, path string) { must(t, os.Symlink("nowhere", replaced(t, path))) }, resultDangling, `a symbolic link to "nowhere", which leads nowhere`},
	{"link to itself", func(t *testing.T, path string) { must(t, os.Symlink(path, replaced(t, path))) }, resultLoop, "lead in a circle"},
	{"directory", func(t *testing.T, path string) { must(t, os.Mkdir(replaced(t, path), 0o700)) }, resultDirectory, "it is a directory; want a regular file"},
	{"FIFO without a writer", func(t *testing.T, path string) { must(t, unix.Mkfifo(replaced(t, path), 0o600)) }, resultFIFO, "it is a FIFO"},
	{"endless device", func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", replaced(t, path))) }, resultDevice, "it is a device"},
	{"socket", func(t *testing.T, path string) {
		l, err := net.Listen("unix", replaced(t, path))
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
	}, resultSocket, "it is a socket"},
	{"sparse and huge", func(t *testing.T, path string) { must(t, os.Truncate(path, 1<<40)) }, resultTooLarge, "larger than 8388608 bytes"},
	{"one byte too large", holding("[" + strings.Repeat(" ", MaxFile-1) + "]"), resultTooLarge, "larger than 8388608 bytes"},
	{"truncated", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, resultEmpty, "an empty list is []"},
	{"not UTF-8", holding("[\"a\xff\"]"), resultEncoding, "not valid UTF-8"},
	{"not JSON", holding("a\nb\n"), resultJSON, "not one whole JSON value"},
	{"not an array", holding(`{"a":true}`), resultShape, "it is an object"},
	{"not strings", holding(`["a",1]`), resultShape, "entry 2, counted from 1: it is a number"},
	{"one bad name", holding(`["a","b","No"]`), resultName, `entry 3, counted from 1: "No" is not a namespace name`},
}

// TestBadFile breaks a good file in every way: no list follows, the cause is named, and a good file ends it.
func TestBadFile(t *testing.T) {
	for _, c := range badFiles {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, rarely)
			dir := filepath.Join(filepath.Dir(h.path), "dir")
			must(t, os.Mkdir(dir, 0o700))
			h.at(filepath.Join(dir, "namespaces.json"))
			write(t, h.path, base)
			h.run()
			h.listed("team-a", "team-b")
			c.spoil(t, h.path)
			h.ask()
			err := h.fails(c.want)
			if text := err.Error(); strings.Count(text, h.path) != 1 || !strings.Contains(text, c.text) {
				t.Errorf("error %q does not name the file and %q", text, c.text)
			}
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("error %q has several lines", err)
			}
			if h.reads(c.want) == 0 {
				t.Errorf("no read with result %s was counted", c.want)
			}
			h.ask()
			h.fails(c.want)
			quoted := strconv.Quote(c.text)
			if n := h.log.count(quoted[1 : len(quoted)-1]); n != 1 {
				t.Errorf("the cause is in %d lines, want one:\n%s", n, h.log)
			}

			must(t, os.RemoveAll(dir), os.Mkdir(dir, 0o700))
			write(t, h.path, `["team-b"]`)
			h.ask()
			h.listed("team-b")
			h.until("the line of the recovery", func() bool { return h.log.count("can be used again") > 0 })
		})
	}
}

// TestBadFileFirst starts on a bad file: what is said first is why there is no list.
func TestBadFileFirst(t *testing.T) {
	h := newHarness(t, rarely)
	h.run()
	h.fails(resultMissing)
	write(t, h.path, "[]")
	h.listed()
}

// TestUnreadable goes through the opener, because root may read everything.
func TestUnreadable(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, base)
	h.open = func(path string) (file, error) {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o400 == 0 {
			return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EACCES}
		}
		return openFile(path)
	}
	h.run()
	h.listed("team-a", "team-b")
	// A change of permissions alone is notified.
	must(t, os.Chmod(h.path, 0))
	if err := h.fails(resultUnreadable); !strings.Contains(err.Error(), "let the user of this process (uid ") {
		t.Errorf("error %q does not say what to do", err)
	}
	must(t, os.Chmod(h.path, 0o600))
	h.proved()
}

// TestOtherError is an error that no case foresees.
func TestOtherError(t *testing.T) {
	h := newHarness(t, rarely)
	h.open = func(path string) (file, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EIO} }
	h.run()
	if err := h.fails(resultOtherSystem); strings.Count(err.Error(), h.path) != 1 || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("error %q", err)
	}
}

// TestGrowsForever is a file whose size says less than it holds.
func TestGrowsForever(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, base)
	given := 0
	h.open = func(path string) (file, error) {
		f, err := openFile(path)
		return &altered{file: f, read: func(p []byte, _ int, _ error) (int, error) {
			clear(p)
			given += len(p)
			return len(p), nil
		}}, err
	}
	h.run()
	h.fails(resultTooLarge)
	if given > MaxFile+1<<20 {
		t.Errorf("%d bytes were read", given)
	}
}
