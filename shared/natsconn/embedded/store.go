package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockName is in the store directory, beside the server's own "jetstream" directory. It stays when the lock is free.
const lockName = "portcullis.lock"

// errStoreInUse is in the error of a start on a store that another server holds.
var errStoreInUse = errors.New("another server is using it")

// lockStore makes the store directory private and locks it. The lock is the kernel's: it ends with the file or the
// process, whatever way that dies.
func lockStore(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store directory: %w", err)
	}
	if err := secure(dir); err != nil {
		return nil, err
	}
	if err := usable(filepath.Join(dir, "jetstream")); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of store: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("store %s: %w (lock %s)", dir, errStoreInUse, path)
		}
		return nil, fmt.Errorf("lock store %s: %w", dir, err)
	}
	return func() { _ = file.Close() }, nil
}

// usable looks at the directory that the server makes in the store. What else is in its place, the server would report
// only once the daemon runs.
func usable(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the JetStream directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory, so JetStream cannot use the store", dir)
	}
	if err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("JetStream cannot use %s: %w", dir, err)
	}
	return nil
}

// secure takes rights from group and others. A directory of another user (a volume's root, say) is refused: its owner
// could replace the store under the server.
func secure(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at store directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return fmt.Errorf("store %s is not a directory", dir)
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("store %s belongs to user %d, this process is user %d: name a directory below it, which is then made",
			dir, stat.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("make store directory private: %w", err)
	}
	return nil
}
