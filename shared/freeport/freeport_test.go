package freeport_test

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portcullis-mesh/portcullis/shared/freeport"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// bare binds as one who does not say that it may be shared: what the kernel refuses to one who names the port it does not give
// to one who asks for any.
func bare(t *testing.T, port int) error {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback.As4(), Port: port})
}

func TestHeldPort(t *testing.T) {
	t.Parallel()
	p, err := freeport.Hold(loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	address := net.JoinHostPort(loopback.String(), strconv.Itoa(p.Number))
	for _, when := range []string{"before the first listener", "after a listener has gone"} {
		if err := bare(t, p.Number); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s: bind: %v, want that the port is in use", when, err)
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			t.Errorf("%s: somebody answers: %v", when, conn.Close())
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("%s: a program cannot listen on the port that is held for it: %v", when, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	p.Release()
	p.Release()
	if err := bare(t, p.Number); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestNoTwoAreTheSame(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 100 {
		port := freeport.Loopback(t)
		if seen[port] {
			t.Fatalf("port %d is held twice", port)
		}
		seen[port] = true
	}
}

func TestHoldRefuses(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]netip.Addr{"no address": {}, "IPv6": netip.IPv6Loopback(), "another machine's": netip.MustParseAddr("192.0.2.1")} {
		if p, err := freeport.Hold(address); err == nil || p.Number != 0 {
			t.Errorf("%s: %d, %v", name, p.Number, err)
		}
	}
	freeport.Port{}.Release()
}
