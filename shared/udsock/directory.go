//go:build linux

package udsock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// owner says whose files count as ours. Tests replace uidOf to see files as those
// of another user without being root.
type owner struct {
	euid  uint32
	uidOf func(*unix.Stat_t) uint32
}

func effectiveOwner() owner {
	return owner{euid: uint32(os.Geteuid()), uidOf: func(st *unix.Stat_t) uint32 { return st.Uid }}
}

// directory is the socket's parent, held open so that a later rename or
// replacement of its path cannot redirect a step.
type directory struct {
	fd   int
	path string
}

// openDirectory creates the directory if it is missing, with its missing ancestors,
// all private, and returns it only when it is a real directory of own.euid with
// mode 0700 (contract 2.2).
func openDirectory(path string, own owner) (*directory, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("create socket directory: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("look at socket directory: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("socket directory %q is a symlink: give the path of the real directory", path)
	case !info.IsDir():
		return nil, fmt.Errorf("socket directory %q is not a directory but %s", path, kindOf(modeBits(info)))
	}
	// O_PATH needs no read permission, so a directory with an odd mode can still be
	// put right. O_NOFOLLOW makes the symlink check above binding.
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open socket directory %q: %w", path, err)
	}
	d := &directory{fd: fd, path: path}
	if err := d.makePrivate(own); err != nil {
		_ = d.close()
		return nil, err
	}
	return d, nil
}

func (d *directory) makePrivate(own owner) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return fmt.Errorf("look at socket directory %q: %w", d.path, err)
	}
	if uid := own.uidOf(&st); uid != own.euid {
		return fmt.Errorf("socket directory %q belongs to uid %d, but this process runs as uid %d: use a directory of that user, or run as the directory's owner", d.path, uid, own.euid)
	}
	if st.Mode&unix.S_ISVTX != 0 {
		return fmt.Errorf("socket directory %q has the sticky bit, so it is shared by design: give the socket a directory of its own", d.path)
	}
	if st.Mode&0o7777 == 0o700 {
		return nil
	}
	if err := unix.Chmod(descriptorPath(d.fd), 0o700); err != nil {
		return fmt.Errorf("set socket directory %q to mode 0700 (through /proc/self/fd): %w", d.path, err)
	}
	if err := unix.Fstat(d.fd, &st); err != nil {
		return fmt.Errorf("look at socket directory %q again: %w", d.path, err)
	}
	if st.Mode&0o7777 != 0o700 {
		return fmt.Errorf("socket directory %q stays at mode %04o after chmod 0700: use a file system that keeps modes", d.path, st.Mode&0o7777)
	}
	return nil
}

// descriptorPath is a path to an open file that no rename can redirect. It is also
// short, so that a temporary name never hits the length limit of sun_path.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// full is the entry's path for messages.
func (d *directory) full(name string) string { return filepath.Join(d.path, name) }

func (d *directory) stat(name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	return &st, nil
}

func (d *directory) close() error { return unix.Close(d.fd) }

func modeBits(info fs.FileInfo) uint32 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return st.Mode
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFLNK:
		return "a symlink"
	case unix.S_IFIFO:
		return "a named pipe"
	case unix.S_IFSOCK:
		return "a socket"
	default:
		return "a device"
	}
}
