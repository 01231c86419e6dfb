//go:build linux

package udsock

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// workplace is a fresh directory with a short path, reachable by other users as far
// as its own mode says, and not the socket's parent.
func workplace(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "uds")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// privateDir is a parent directory that is right, for cases that break something
// else.
func privateDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(workplace(t), "p")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustListen(t *testing.T, path string, opts Options) *Listener {
	t.Helper()
	l, err := Listen(context.Background(), path, opts)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// deadSocket leaves a socket file whose server is gone, as a crash does.
func deadSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
}

func liveServer(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func lstat(t *testing.T, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatalf("lstat %s: %v", path, err)
	}
	return st
}

// roundTrip proves that a client reaches this very listener through path.
func roundTrip(t *testing.T, l *Listener, path string) {
	t.Helper()
	must(t, l.inner.SetDeadline(time.Now().Add(time.Minute)))
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = conn.Write([]byte("hello"))
			_ = conn.Close()
		}
		done <- err
	}()
	conn, err := Dial(context.Background(), path)
	must(t, err)
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	must(t, err)
	must(t, <-done)
	if string(answer) != "hello" {
		t.Errorf("read %q through the socket", answer)
	}
}

func TestListen(t *testing.T) {
	// Each case prepares the place; the listener must come up and be private.
	cases := map[string]func(t *testing.T, dir string) string{
		"empty private directory": func(_ *testing.T, dir string) string { return filepath.Join(dir, "s") },
		"dead socket of a crash": func(t *testing.T, dir string) string {
			deadSocket(t, filepath.Join(dir, "s"))
			return filepath.Join(dir, "s")
		},
		"dead socket under the temporary name": func(t *testing.T, dir string) string {
			deadSocket(t, filepath.Join(dir, ".s.new"))
			return filepath.Join(dir, "s")
		},
		"lock file of a crash": func(t *testing.T, dir string) string {
			must(t, os.WriteFile(filepath.Join(dir, ".s.lock"), []byte("999999\n"), 0o600))
			return filepath.Join(dir, "s")
		},
		"parent open to all": func(t *testing.T, dir string) string {
			must(t, os.Chmod(dir, 0o777))
			return filepath.Join(dir, "s")
		},
		"parent that even the owner cannot read": func(t *testing.T, dir string) string {
			must(t, os.Chmod(dir, 0o300))
			return filepath.Join(dir, "s")
		},
		"missing parents": func(_ *testing.T, dir string) string { return filepath.Join(dir, "a", "b", "s") },
		"symlink above the parent": func(t *testing.T, dir string) string {
			must(t, os.MkdirAll(filepath.Join(dir, "real", "p"), 0o755))
			must(t, os.Symlink("real", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link", "p", "s")
		},
		"longest path": func(t *testing.T, dir string) string {
			name := strings.Repeat("y", maxName)
			parent := filepath.Join(dir, strings.Repeat("x", maxPath-len(dir)-len(name)-2))
			path := filepath.Join(parent, name)
			must(t, os.Mkdir(parent, 0o700))
			deadSocket(t, path)
			if len(path) != 107 {
				t.Fatalf("the test's path has %d bytes", len(path))
			}
			return path
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			path := prepare(t, privateDir(t))
			descriptors := openDescriptors(t)
			l := mustListen(t, path, Options{})
			if st := lstat(t, path); st.Mode != unix.S_IFSOCK|0o600 {
				t.Errorf("socket mode %o", st.Mode)
			}
			if st := lstat(t, filepath.Dir(path)); st.Mode != unix.S_IFDIR|0o700 {
				t.Errorf("directory mode %o", st.Mode)
			}
			if got := l.Addr().String(); got != path {
				t.Errorf("Addr() = %q, want %q", got, path)
			}
			must(t, l.Check(context.Background()))
			roundTrip(t, l, path)
			must(t, l.Close())
			must(t, l.Close())
			if now := openDescriptors(t); now != descriptors {
				t.Errorf("%d descriptors open before Listen, %d after Close", descriptors, now)
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			must(t, err)
			for _, e := range entries {
				if !strings.HasSuffix(e.Name(), ".lock") && e.Type()&os.ModeSocket != 0 {
					t.Errorf("left %s behind", e.Name())
				}
			}
			roundTrip(t, mustListen(t, path, Options{}), path)
		})
	}
}

// foreign makes every file of one kind look as if another user owned it.
func foreign(kind uint32) owner {
	own := effectiveOwner()
	own.uidOf = func(st *unix.Stat_t) uint32 {
		if st.Mode&unix.S_IFMT == kind {
			return own.euid + 1
		}
		return own.euid
	}
	return own
}

func TestListenRefuses(t *testing.T) {
	us := effectiveOwner()
	// Each case puts one bad thing into a directory that is otherwise right. thing is
	// the file that must be untouched afterwards.
	cases := map[string]struct {
		prepare func(t *testing.T, dir string) (path, thing string)
		own     owner
		want    string
	}{
		"a regular file": {own: us, want: "not a socket but a regular file", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			must(t, os.WriteFile(p, []byte("x"), 0o600))
			return p, p
		}},
		"a directory": {own: us, want: "not a socket but a directory", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			must(t, os.Mkdir(p, 0o700))
			return p, p
		}},
		"a named pipe": {own: us, want: "not a socket but a named pipe", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			must(t, unix.Mkfifo(p, 0o600))
			return p, p
		}},
		"a symlink to a dead socket": {own: us, want: "not a socket but a symlink", prepare: func(t *testing.T, dir string) (string, string) {
			deadSocket(t, filepath.Join(dir, "real"))
			p := filepath.Join(dir, "s")
			must(t, os.Symlink("real", p))
			return p, filepath.Join(dir, "real")
		}},
		"a symlink to nowhere": {own: us, want: "not a socket but a symlink", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			must(t, os.Symlink("nowhere", p))
			return p, p
		}},
		"a live server": {own: us, want: "a live server (process ", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			liveServer(t, p)
			return p, p
		}},
		"a live datagram socket": {own: us, want: "could not find out whether a server lives", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p, Net: "unixgram"})
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return p, p
		}},
		"another driver": {own: us, want: "another driver (process ", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			mustListen(t, p, Options{})
			return p, p
		}},
		"another driver whose socket was removed": {own: us, want: "another driver (process ", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			mustListen(t, p, Options{})
			must(t, os.Remove(p))
			return p, filepath.Join(dir, ".s.lock")
		}},
		"a socket of another user": {own: foreign(unix.S_IFSOCK), want: "belongs to uid", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "s")
			deadSocket(t, p)
			return p, p
		}},
		"a file under the temporary name": {own: us, want: ".s.new\" is not a socket but a regular file", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, ".s.new")
			must(t, os.WriteFile(p, nil, 0o600))
			return filepath.Join(dir, "s"), p
		}},
		"a live server under the temporary name": {own: us, want: "a live server", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, ".s.new")
			liveServer(t, p)
			return filepath.Join(dir, "s"), p
		}},
		"a symlink as lock file": {own: us, want: "lock file", prepare: func(t *testing.T, dir string) (string, string) {
			must(t, os.WriteFile(filepath.Join(dir, "victim"), []byte("precious"), 0o600))
			must(t, os.Symlink("victim", filepath.Join(dir, ".s.lock")))
			return filepath.Join(dir, "s"), filepath.Join(dir, "victim")
		}},
		"a named pipe as lock file": {own: us, want: "not a regular file but a named pipe", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, ".s.lock")
			must(t, unix.Mkfifo(p, 0o600))
			return filepath.Join(dir, "s"), p
		}},
		"a lock file of another user": {own: foreign(unix.S_IFREG), want: "belongs to uid", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, ".s.lock")
			must(t, os.WriteFile(p, nil, 0o666))
			return filepath.Join(dir, "s"), p
		}},
		"a symlink as parent": {own: us, want: "is a symlink", prepare: func(t *testing.T, dir string) (string, string) {
			must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
			must(t, os.Symlink("real", filepath.Join(dir, "link")))
			return filepath.Join(dir, "link", "s"), filepath.Join(dir, "real")
		}},
		"a file as parent": {own: us, want: "is not a directory but a regular file", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "file")
			must(t, os.WriteFile(p, nil, 0o644))
			return filepath.Join(p, "s"), p
		}},
		"a parent of another user": {own: foreign(unix.S_IFDIR), want: "belongs to uid", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "theirs")
			must(t, os.Mkdir(p, 0o755))
			return filepath.Join(p, "s"), p
		}},
		"a parent with the sticky bit": {own: us, want: "sticky", prepare: func(t *testing.T, dir string) (string, string) {
			p := filepath.Join(dir, "tmp")
			must(t, os.Mkdir(p, 0o755))
			must(t, os.Chmod(p, 0o777|os.ModeSticky))
			return filepath.Join(p, "s"), p
		}},
		"a bad path": {own: us, want: "shortest form", prepare: func(t *testing.T, dir string) (string, string) {
			return dir + "/../s", dir
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path, thing := c.prepare(t, privateDir(t))
			before := lstat(t, thing)
			descriptors := openDescriptors(t)
			l, err := listen(context.Background(), path, Options{}, c.own, func(string) {})
			if err == nil {
				_ = l.Close()
				t.Fatal("Listen came up")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("Listen says %q, want it to say %q", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "/proc/") {
				t.Errorf("not one clear line: %q", err)
			}
			after := lstat(t, thing)
			if before.Ino != after.Ino || before.Mode != after.Mode || before.Size != after.Size || before.Mtim != after.Mtim {
				t.Errorf("%s was changed: %+v, then %+v", thing, before, after)
			}
			if now := openDescriptors(t); now != descriptors {
				t.Errorf("%d descriptors open before the refused start, %d after", descriptors, now)
			}
		})
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// The dead socket is swapped for another file after it was judged: the judgement
// must not be carried out on the newcomer.
func TestClearNoticesASwap(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	deadSocket(t, path)
	own := effectiveOwner()
	swapped := false
	own.uidOf = func(st *unix.Stat_t) uint32 {
		if st.Mode&unix.S_IFMT == unix.S_IFSOCK && !swapped {
			swapped = true
			must(t, os.Remove(path))
			deadSocket(t, path)
		}
		return st.Uid
	}
	_, err := listen(context.Background(), path, Options{}, own, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "changed while it was being checked") {
		t.Fatalf("Listen says %v", err)
	}
	lstat(t, path)
}

// Something takes the name between the check and the rename: nothing is replaced,
// and what Listen made is gone again.
func TestPublishReplacesNothing(t *testing.T) {
	dir := privateDir(t)
	path := filepath.Join(dir, "s")
	_, err := listen(context.Background(), path, Options{}, effectiveOwner(), func(step string) {
		if step == "settle" {
			must(t, os.WriteFile(path, []byte("newcomer"), 0o600))
		}
	})
	if err == nil || !strings.Contains(err.Error(), "something appeared") {
		t.Fatalf("Listen says %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "newcomer" {
		t.Errorf("the newcomer reads %q, %v", content, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".s.new")); !os.IsNotExist(err) {
		t.Errorf("the temporary socket is still there: %v", err)
	}
}

func TestCloseRemovesOnlyItsOwn(t *testing.T) {
	cases := map[string]func(t *testing.T, path string){
		"a file in its place":            func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("x"), 0o600)) },
		"a dead socket in its place":     deadSocket,
		"another server's live socket":   liveServer,
		"a directory in its place":       func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
		"a symlink to the socket itself": func(t *testing.T, path string) { must(t, os.Symlink(path+".moved", path)) },
	}
	for name, replace := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(privateDir(t), "s")
			l := mustListen(t, path, Options{})
			must(t, os.Rename(path, path+".moved"))
			if err := l.Check(context.Background()); err == nil || !strings.Contains(err.Error(), "the socket is gone") {
				t.Errorf("Check() = %v while nothing is at the path", err)
			}
			replace(t, path)
			before := lstat(t, path)
			if err := l.Check(context.Background()); err == nil || !strings.Contains(err.Error(), "no longer this driver's socket") {
				t.Errorf("Check() = %v while something else is at the path", err)
			}
			must(t, l.Close())
			if after := lstat(t, path); after.Ino != before.Ino {
				t.Error("Close touched what was not its own")
			}
		})
	}
}
