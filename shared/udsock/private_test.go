//go:build linux

package udsock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// widest is what anybody but the owner could do with the directory or a socket in
// it, and whether there was a socket at all.
func widest(t *testing.T, dir string) (mode uint32, sockets int) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return 0, 0
	}
	mode = st.Mode & 0o077
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		if unix.Lstat(filepath.Join(dir, e.Name()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			mode |= st.Mode & 0o177
			sockets++
		}
	}
	return mode, sockets
}

// The test sets the process umask to zero, so whatever relies on it shows.
func TestNoInstantIsWiderThanTheOwner(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	dir := filepath.Join(workplace(t), "p")
	path := filepath.Join(dir, "s")

	t.Run("after every step", func(t *testing.T) {
		var steps []string
		l, err := listen(context.Background(), path, Options{}, effectiveOwner(), func(step string) {
			steps = append(steps, step)
			mode, sockets := widest(t, dir)
			if mode != 0 {
				t.Errorf("after %q others have mode %03o", step, mode)
			}
			if want := step == "bind" || step == "settle" || step == "publish"; (sockets == 1) != want {
				t.Errorf("after %q there are %d sockets", step, sockets)
			}
		})
		must(t, err)
		must(t, l.Close())
		if len(steps) != 6 {
			t.Errorf("steps seen: %q", steps)
		}
	})

	t.Run("polled", func(t *testing.T) {
		stop, seen := make(chan struct{}), make(chan int)
		go func() {
			total := 0
			for {
				mode, sockets := widest(t, dir)
				if mode != 0 {
					t.Errorf("others had mode %03o", mode)
				}
				total += sockets
				select {
				case <-stop:
					seen <- total
					return
				default:
				}
			}
		}()
		for range 500 {
			l, err := Listen(context.Background(), path, Options{})
			must(t, err)
			must(t, l.Close())
		}
		close(stop)
		if <-seen == 0 {
			t.Error("the poll never saw a socket, so it proves nothing")
		}
	})
}

// A client that sees the path can connect: the name appears only after listen.
func TestThePathAppearsListening(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	l, err := listen(context.Background(), path, Options{}, effectiveOwner(), func(step string) {
		_, statErr := os.Lstat(path)
		if visible := statErr == nil; visible != (step == "publish") {
			t.Errorf("after %q the path is visible: %t", step, visible)
		}
		if step == "publish" {
			conn, err := Dial(context.Background(), path)
			if err != nil {
				t.Errorf("dial right after the path appeared: %v", err)
				return
			}
			_ = conn.Close()
		}
	})
	must(t, err)
	must(t, l.Close())
}

// A narrow umask must not lock the owner out either.
func TestNarrowUmask(t *testing.T) {
	defer unix.Umask(unix.Umask(0o777))
	path := filepath.Join(workplace(t), "p", "s")
	l := mustListen(t, path, Options{})
	if st := lstat(t, path); st.Mode&0o7777 != 0o600 {
		t.Errorf("socket mode %04o", st.Mode&0o7777)
	}
	roundTrip(t, l, path)
}
