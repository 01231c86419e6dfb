package natstest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// reserve returns a loopback port that nobody gets by chance until the test ends, whether a server listens on it or
// not.
//
// The port is bound and never listened on. Linux then gives it to no one who asks for any free port, neither for a
// listener nor for the near end of a connection, but lets a socket with SO_REUSEADDR, which Go's listeners have, bind
// the very port and listen. Connections to it are refused meanwhile.
func reserve(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("reserve a port: make a socket: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatalf("reserve a port: allow listeners: %v", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("reserve a port: bind: %v", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	return name.(*unix.SockaddrInet4).Port
}
