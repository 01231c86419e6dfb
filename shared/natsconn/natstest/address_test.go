package natstest

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"
)

// TestPortIsHeld tries to take the port before the server's first start, while it runs, and between a stop and the
// next start. What the kernel refuses to one who names the port it does not give to one who asks for any.
func TestPortIsHeld(t *testing.T) {
	s := New(t)
	addr := s.Addr()
	held := func(when string) {
		t.Helper()
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: s.port}); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s: bind: %v, want that the port is in use", when, err)
		}
	}
	held("before the start")
	s.Start()
	held("running")
	s.Stop()
	held("stopped")
	if nc, err := nats.Connect(s.URL(), nats.MaxReconnects(0)); err == nil {
		nc.Close()
		t.Error("connected to a stopped server")
	}
	s.Start()
	if s.Addr() != addr {
		t.Errorf("address %s, before %s", s.Addr(), addr)
	}
}
