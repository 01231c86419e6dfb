//go:build linux

package udsock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lock takes the exclusive lock that makes one process the only one to touch the
// socket called name. The kernel gives it up when the returned file is closed or
// the process dies, so a crash leaves nothing to clean. The process id in the file
// is for the message only; nothing decides by it.
func (d *directory) lock(name string, own owner) (*os.File, error) {
	file := "." + name + ".lock"
	// O_NONBLOCK so that a named pipe put there cannot hang the start.
	fd, err := unix.Openat(d.fd, file, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file %q: %w", d.full(file), err)
	}
	f := os.NewFile(uintptr(fd), d.full(file))
	if err := d.takeLock(f, own); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (d *directory) takeLock(f *os.File, own owner) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at lock file %q: %w", f.Name(), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("lock file %q is not a regular file but %s: remove it", f.Name(), kindOf(st.Mode))
	}
	if uid := own.uidOf(&st); uid != own.euid {
		return fmt.Errorf("lock file %q belongs to uid %d, but this process runs as uid %d: remove it", f.Name(), uid, own.euid)
	}
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another driver%s holds lock file %q: stop it, or give this one another socket path", lockHolder(f), f.Name())
	}
	if err != nil {
		return fmt.Errorf("lock file %q: %w", f.Name(), err)
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// lockHolder reads the holder's process id; it is empty between the holder's lock
// and its write.
func lockHolder(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}
