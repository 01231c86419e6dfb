//go:build linux

package udsock

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReplayG01RestartAfterACrash: the socket that a killed process left is no address in use, for any number of crashes.
func TestReplayG01RestartAfterACrash(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	for range 2 {
		c := startChild(t, path)
		if got := c.line(); got != "listening" {
			t.Fatalf("a start behind a crash says %q", got)
		}
		c.kill(t)
		if st := lstat(t, path); st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			t.Fatalf("the crash left %o behind, and so proves nothing", st.Mode)
		}
	}
	roundTrip(t, mustListen(t, path, Options{}), path)
}

// TestReplayG02ASecondInstance does not take the path away from the first, which goes on serving on the same file.
func TestReplayG02ASecondInstance(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	first := startChild(t, path)
	if got := first.line(); got != "listening" {
		t.Fatalf("the first says %q", got)
	}
	before := lstat(t, path)
	second := startChild(t, path)
	if got := second.line(); !strings.Contains(got, "another driver (process ") {
		t.Errorf("the second says %q", got)
	}
	if after := lstat(t, path); after.Ino != before.Ino {
		t.Error("the path leads to another socket")
	}
	conn, err := Dial(context.Background(), path)
	must(t, err)
	defer func() { _ = conn.Close() }()
	if got := int(conn.Peer().PID()); got != first.cmd.Process.Pid {
		t.Errorf("process %d serves", got)
	}
	first.stop(t)
}

// TestReplayG03OnlyARefusedSocketIsRemoved: that nobody answers is the one proof that it is dead, and no other kind of file is ever removed.
func TestReplayG03OnlyARefusedSocketIsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		put   func(t *testing.T, path string)
		taken bool
	}{
		"a socket that refuses": {deadSocket, true},
		"a socket that answers": {liveServer, false},
		"a regular file": {func(t *testing.T, path string) {
			t.Helper()
			must(t, os.WriteFile(path, []byte("precious"), 0o600))
		}, false},
		"an empty file": {func(t *testing.T, path string) {
			t.Helper()
			must(t, os.WriteFile(path, nil, 0o600))
		}, false},
		"a link to a dead socket": {func(t *testing.T, path string) {
			t.Helper()
			deadSocket(t, path+".real")
			must(t, os.Symlink(path+".real", path))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(privateDir(t), "s")
			c.put(t, path)
			before := lstat(t, path)
			l, err := Listen(context.Background(), path, Options{})
			if l != nil {
				defer func() { _ = l.Close() }()
			}
			if (err == nil) != c.taken {
				t.Errorf("Listen: %v", err)
			}
			if after := lstat(t, path); !c.taken && (after.Ino != before.Ino || after.Size != before.Size) {
				t.Error("it was replaced")
			}
		})
	}
}

// strange is a connection attempt of another user. Without root there is none but us, and then the listener takes us for one.
func strange(l *Listener, path string) (conn net.Conn, err error) {
	if os.Geteuid() != 0 {
		l.uid++
		return net.Dial("unix", path)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with its user
		const nobody, same = 65534, ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same); errno != 0 {
			err = errno
			return
		}
		conn, err = net.Dial("unix", path)
	}()
	<-done
	return conn, err
}

// TestReplayG05AnotherUser is kept out twice: by the directory, and, where somebody has opened that, by who he is.
func TestReplayG05AnotherUser(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	l := mustListen(t, path, Options{})
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil { // or the stranger would wait
			_ = conn.Close()
		}
		accepted <- err
	}()
	if os.Geteuid() == 0 {
		if _, err := strange(l, path); !errors.Is(err, unix.EACCES) {
			t.Errorf("with the modes that Listen gives, another user has %v", err)
		}
		must(t, os.Chmod(filepath.Dir(path), 0o755))
		must(t, os.Chmod(path, 0o666))
	}
	conn, err := strange(l, path)
	must(t, err)
	if answer, err := io.ReadAll(conn); len(answer) > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("another user reads %q, %v", answer, err)
	}
	_ = conn.Close()
	must(t, l.inner.Close())
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept gave another user's connection out, or says %v", err)
	}
}

// TestReplayG07NeverOpenToTheWorld, whatever the umask of the process and the mode that the directory had.
func TestReplayG07NeverOpenToTheWorld(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	dir := privateDir(t)
	must(t, os.Chmod(dir, 0o777))
	path := filepath.Join(dir, "s")
	mustListen(t, path, Options{})
	if st := lstat(t, path); st.Mode&0o7777 != 0o600 {
		t.Errorf("the socket has mode %04o", st.Mode&0o7777)
	}
	if st := lstat(t, dir); st.Mode&0o7777 != 0o700 {
		t.Errorf("its directory has mode %04o", st.Mode&0o7777)
	}
}
