//go:build linux

package udsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity tells one file from another that later took its name. It is valid only
// while the file is held open, because only then can its inode number not be given
// to another file.
type identity struct{ dev, ino uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{dev: st.Dev, ino: st.Ino} }

// isSocket reports whether st is still the socket that was given this identity.
func (i identity) isSocket(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFSOCK && i == identityOf(st)
}

// clear removes the dead socket that an earlier process left at name. It returns
// nil only when nothing is there any more; whatever is not our dead socket stays
// and is an error (contract 2.2). The caller holds the lock.
func (d *directory) clear(ctx context.Context, name string, own owner) error {
	// The descriptor pins the file: what is judged is what is compared at the end.
	fd, err := unix.Openat(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %q: %w", d.full(name), err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %q: %w", d.full(name), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%q is not a socket but %s: move it away, or give another socket path", d.full(name), kindOf(st.Mode))
	}
	if uid := own.uidOf(&st); uid != own.euid {
		return fmt.Errorf("socket %q belongs to uid %d, but this process runs as uid %d: remove it as its owner, or give another socket path", d.full(name), uid, own.euid)
	}
	if err := mustBeDead(ctx, fd, d.full(name)); err != nil {
		return err
	}
	return d.unlinkDead(name, identityOf(&st))
}

// unlinkDead compares once more, right before the unlink.
func (d *directory) unlinkDead(name string, dead identity) error {
	now, err := d.stat(name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %q again: %w", d.full(name), err)
	}
	if !dead.isSocket(now) {
		return fmt.Errorf("%q changed while it was being checked: another program uses this path, find it and start again", d.full(name))
	}
	if err := unix.Unlinkat(d.fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove dead socket %q: %w", d.full(name), err)
	}
	return nil
}

// mustBeDead dials the socket that fd holds. Only a refused connection proves that
// nobody listens; not having found out is not a proof.
func mustBeDead(ctx context.Context, fd int, path string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", descriptorPath(fd))
	if err == nil {
		defer func() { _ = conn.Close() }()
		by := ""
		if peer, err := peerOf(conn.(*net.UnixConn)); err == nil {
			by = fmt.Sprintf(" (process %d, uid %d)", peer.PID(), peer.UID())
		}
		return fmt.Errorf("a live server%s answers on %q: stop it, or give this one another socket path", by, path)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	cause := err
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		cause = op.Err
	}
	return fmt.Errorf("could not find out whether a server lives on %q: %w", path, cause)
}

// bind makes a listening socket at name that has mode 0600 from its first instant.
// The name must be free; bind never replaces.
func (d *directory) bind(ctx context.Context, name string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmod error
		err := raw.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}}
	l, err := config.Listen(ctx, "unix", descriptorPath(d.fd)+"/"+name)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("bind socket %q: %w", d.full(name), err)
	}
	listener := l.(*net.UnixListener)
	// The path that net knows is the temporary one. Removal is ours.
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

// settle verifies the fresh socket at name and gives it exactly 0600, which a
// strict umask may have narrowed further. The identity is valid beside an error
// once the socket has been recognised as ours, so that the caller can remove it.
func (d *directory) settle(name string, own owner) (identity, error) {
	st, err := d.stat(name)
	if err != nil {
		return identity{}, fmt.Errorf("look at fresh socket %q: %w", d.full(name), err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || own.uidOf(st) != own.euid {
		return identity{}, fmt.Errorf("%q is not the socket that was just made: another program uses this path", d.full(name))
	}
	id := identityOf(st)
	if err := unix.Fchmodat(d.fd, name, 0o600, 0); err != nil {
		return id, fmt.Errorf("set socket %q to mode 0600: %w", d.full(name), err)
	}
	if st, err = d.stat(name); err != nil {
		return id, fmt.Errorf("look at fresh socket %q again: %w", d.full(name), err)
	}
	if st.Mode&0o7777 != 0o600 {
		return id, fmt.Errorf("socket %q stays at mode %04o after chmod 0600: use a file system that keeps modes", d.full(name), st.Mode&0o7777)
	}
	return id, nil
}

// publish moves the listening socket to its final name and replaces nothing.
func (d *directory) publish(from, to string) error {
	err := unix.Renameat2(d.fd, from, d.fd, to, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("something appeared at %q while the socket was made: another program uses this path", d.full(to))
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("the file system of %q cannot rename without replacing: use a local file system such as tmpfs or ext4: %w", d.path, err)
	case err != nil:
		return fmt.Errorf("move socket to %q: %w", d.full(to), err)
	}
	return nil
}

// remove unlinks name if it is still the socket with this identity, and reports
// whether it was. The socket must be open.
func (d *directory) remove(name string, id identity) (bool, error) {
	st, err := d.stat(name)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at %q: %w", d.full(name), err)
	}
	if !id.isSocket(st) {
		return false, nil
	}
	if err := unix.Unlinkat(d.fd, name, 0); err != nil {
		return false, fmt.Errorf("remove socket %q: %w", d.full(name), err)
	}
	return true, nil
}
