//go:build linux

package udsock

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// maxPath is the longest usable path in bytes: sun_path holds 108 bytes with the
// terminating NUL (unix(7)), and the gateway dials the path as it is written.
const maxPath = 107

// maxName bounds the file's own name, so that the temporary name beside it can be
// bound through /proc/self/fd within the same limit.
const maxName = 64

// CheckPath says whether path can name a private socket, by its text alone: no
// file is touched. An accepted path is absolute, in its shortest form, at most 107
// bytes long with a file name of at most 64, and lies in a directory that is not one the whole system shares,
// because that directory is going to be set to 0700. The error names the path and
// the rule.
//
// Refused by decision where the contract is silent: a relative path (it would move
// with the working directory), "..", "." and doubled slashes (what is checked must
// be what is dialled), a trailing slash, and abstract names ("@name" or a leading
// NUL), which have neither owner nor mode.
func CheckPath(path string) error {
	switch {
	case path == "":
		return errors.New("socket path is empty: give an absolute path")
	case path[0] == '@' || path[0] == 0:
		return fmt.Errorf("socket path %q names an abstract socket, which has no owner and no mode: give an absolute file path", path)
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("socket path %q contains a NUL byte", path)
	case path[0] != '/':
		return fmt.Errorf("socket path %q is relative: give an absolute path", path)
	case strings.HasSuffix(path, "/"):
		return fmt.Errorf("socket path %q ends with a slash: name the socket file, not its directory", path)
	case len(path) > maxPath:
		return fmt.Errorf("socket path %q is %d bytes long, the system's limit for sockets is %d: use a shorter directory", path, len(path), maxPath)
	}
	if clean := filepath.Clean(path); clean != path {
		return fmt.Errorf("socket path %q is not in its shortest form: write %q", path, clean)
	}
	if name := filepath.Base(path); len(name) > maxName {
		return fmt.Errorf("socket path %q has a file name of %d bytes, the limit is %d: use a shorter name", path, len(name), maxName)
	}
	if dir := filepath.Dir(path); systemDirectory(dir) {
		return fmt.Errorf("socket path %q lies directly in %s, which the system shares and which would be set to 0700: give the socket a directory of its own", path, dir)
	}
	return nil
}

// systemDirectory lists directories that root owns on every Linux system, so that
// the ownership rule alone would let a daemon running as root close them to
// everybody else.
func systemDirectory(dir string) bool {
	switch dir {
	case "/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc",
		"/run", "/run/lock", "/run/user", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local",
		"/var", "/var/cache", "/var/lib", "/var/lock", "/var/log", "/var/run", "/var/tmp":
		return true
	}
	return false
}
