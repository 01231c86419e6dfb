package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Place is the demo's directory on this machine. One demo of a user runs at a time.
type Place struct {
	dir  string
	lock *os.File
}

// ErrRunning says that another demo of this user runs in the place.
var ErrRunning = errors.New("a demo runs already: 'make down' ends it")

// Home is the place of this user's demos with a prefix, directly below the temporary directory because paths of Unix sockets are short.
func Home(prefix string) (*Place, error) {
	parent := filepath.Join(os.TempDir(), fmt.Sprintf("portcullis-%d", os.Geteuid()))
	p := &Place{dir: filepath.Join(parent, "demo-"+prefix)}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w", err)
	}
	info, err := os.Lstat(parent)
	if err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s is not a private directory of this user: remove it or set TMPDIR", parent)
	}
	return p, nil
}

// World is where a World has its files, Log what the demo in the background says, Control where its gateway is reached.
func (p *Place) World() string   { return filepath.Join(p.dir, "w") }
func (p *Place) Log() string     { return filepath.Join(p.dir, "up.log") }
func (p *Place) Control() string { return filepath.Join(p.World(), "control", "control.sock") }

// Guide is what the demo in the background says about how to look inside, as long as it is up; Failure is why it could not remove all
// that it made.
func (p *Place) Guide() string   { return filepath.Join(p.dir, "guide") }
func (p *Place) Failure() string { return filepath.Join(p.dir, "failure") }

// Take makes the place ours until the process ends, Free or Remove, and empties it but for the log. ErrRunning when it is somebody else's.
func (p *Place) Take() error {
	fail := func(err error) error { return fmt.Errorf("take the demo's directory: %w", err) }
	for {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return fail(err)
		}
		f, err := os.OpenFile(p.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return fail(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return ErrRunning
			}
			return fail(err)
		}
		if p.lock = f; p.ours() {
			break
		}
		p.Free()
	}
	err := errors.Join(p.lock.Truncate(0), p.empty(), os.Mkdir(p.World(), 0o700))
	if err == nil {
		_, err = p.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		p.Free()
		return fail(err)
	}
	return nil
}

func (p *Place) lockFile() string { return filepath.Join(p.dir, "lock") }

// ours reports whether the lock is the file that others find.
func (p *Place) ours() bool {
	mine, err1 := p.lock.Stat()
	found, err2 := os.Stat(p.lockFile())
	return errors.Join(err1, err2) == nil && os.SameFile(mine, found)
}

func (p *Place) empty() error {
	return errors.Join(os.RemoveAll(p.World()), os.RemoveAll(p.Guide()), os.RemoveAll(p.Failure()))
}

// Free gives it up. What has not been removed stays.
func (p *Place) Free() {
	if p.lock != nil {
		_ = p.lock.Close()
		p.lock = nil
	}
}

// Remove deletes the place, which must be taken, and gives it up.
func (p *Place) Remove() error {
	defer p.Free()
	err := errors.Join(p.empty(), os.RemoveAll(p.Log()), os.RemoveAll(p.lockFile()))
	_ = os.Remove(p.dir)               // somebody else may have taken it
	_ = os.Remove(filepath.Dir(p.dir)) // others may be in it
	if err != nil {
		return fmt.Errorf("remove the demo's directory: %w", err)
	}
	return nil
}

// Holder is the process that has the place; 0 for none.
func (p *Place) Holder() (int, error) {
	f, err := os.Open(p.lockFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look who runs the demo: %w", err)
	}
	defer func() { _ = f.Close() }()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return 0, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		return 0, fmt.Errorf("look who runs the demo: %w", err)
	}
	text := make([]byte, 16)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || pid < 2 {
		return 0, fmt.Errorf("look who runs the demo: its lock says %q", text[:n])
	}
	return pid, nil
}
