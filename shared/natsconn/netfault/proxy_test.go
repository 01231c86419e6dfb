package netfault_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
)

// patience is far beyond what any step needs; quiet is how long silence is watched where silence is the claim.
const (
	patience = 30 * time.Second
	quiet    = 200 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every line with itself.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _, _ = io.Copy(conn, conn) }()
		}
	}()
	return ln.Addr().String()
}

type link struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) link {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return link{conn, bufio.NewReader(conn)}
}

func (l link) ask(t *testing.T, within time.Duration) (string, error) {
	t.Helper()
	if _, err := l.Write([]byte("hello\n")); err != nil {
		return "", err
	}
	if err := l.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	return l.r.ReadString('\n')
}

func TestPassCutBlackhole(t *testing.T) {
	p := netfault.Start(t, echo(t))
	first := dial(t, p.Addr())
	if got, err := first.ask(t, patience); err != nil || got != "hello\n" {
		t.Fatalf("pass: got %q, %v", got, err)
	}

	p.Blackhole()
	if got, err := first.ask(t, quiet); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("blackhole: got %q, %v; want silence", got, err)
	}
	during := dial(t, p.Addr())
	if got, err := during.ask(t, quiet); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("connection made in the blackhole: got %q, %v; want silence", got, err)
	}

	p.Pass()
	if got, err := first.ask(t, quiet); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("connection that lost bytes came back: got %q, %v", got, err)
	}
	second := dial(t, p.Addr())
	if got, err := second.ask(t, patience); err != nil || got != "hello\n" {
		t.Fatalf("pass again: got %q, %v", got, err)
	}

	p.Cut()
	if got, err := second.ask(t, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cut: got %q, %v; want a closed connection", got, err)
	}
	third := dial(t, p.Addr())
	if got, err := third.ask(t, patience); err != nil || got != "hello\n" {
		t.Fatalf("after cut: got %q, %v", got, err)
	}
	if got := p.Accepted(); got != 4 {
		t.Errorf("accepted %d connections, want 4", got)
	}
}

func TestNoTargetClosesTheConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := ln.Addr().String()
	_ = ln.Close()
	p := netfault.Start(t, gone)
	if got, err := dial(t, p.Addr()).ask(t, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want a closed connection", got, err)
	}
}
