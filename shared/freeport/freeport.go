package freeport

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Port is a port that is held. The zero value holds none.
type Port struct {
	// Number is of the port, on the address that it was held on.
	Number  int
	release func()
}

// Hold chooses a port of an IPv4 address of this machine and holds it until Release.
//
// The port is bound and never listened on. Linux then gives it to no one who asks for any free port, but lets a socket
// with SO_REUSEADDR, which Go's listeners have, bind the very port and listen. Connections to it are refused until then.
func Hold(address netip.Addr) (Port, error) {
	fail := func(step string, err error) (Port, error) {
		return Port{}, fmt.Errorf("hold a port of %s: %s: %w", address, step, err)
	}
	if !address.Is4() {
		return Port{}, fmt.Errorf("hold a port of %s: only IPv4 addresses are served", address)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail("make a socket", err)
	}
	release := sync.OnceFunc(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		release()
		return fail("allow listeners", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: address.As4()}); err != nil {
		release()
		return fail("bind", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		release()
		return fail("ask for its number", err)
	}
	return Port{Number: name.(*unix.SockaddrInet4).Port, release: release}, nil
}

// Release gives the port back. More than once is once.
func (p Port) Release() {
	if p.release != nil {
		p.release()
	}
}

// Loopback is the number of a port of 127.0.0.1 that is held until the test ends.
func Loopback(tb testing.TB) int {
	tb.Helper()
	p, err := Hold(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Release)
	return p.Number
}
