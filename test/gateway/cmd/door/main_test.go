package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDoor: what is said on one end arrives at the other, both ways, and the end of one is the end of the other.
func TestDoor(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "door") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "private", "s")
	l, err := udsock.Listen(t.Context(), socket, udsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	address := open(t, socket)

	inner := make(chan net.Conn, 1)
	go func() {
		conn, _ := l.Accept()
		inner <- conn
	}()
	outer, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	said(t, outer, inner, "in")
	conn := <-inner
	said(t, conn, conns(outer), "out")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(outer); err != nil || len(rest) > 0 {
		t.Errorf("behind the end came %q, %v", rest, err)
	}
	_ = outer.Close()
}

func conns(c net.Conn) chan net.Conn {
	all := make(chan net.Conn, 1)
	all <- c
	return all
}

// said writes on one end what must arrive at the other.
func said(t *testing.T, from net.Conn, to chan net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(from, text); err != nil {
		t.Fatal(err)
	}
	conn, got := <-to, make([]byte, len(text))
	to <- conn
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Fatalf("%q, %v, want %q", got, err, text)
	}
}

// TestNobodyBehind: a connection ends at once when nobody answers at the socket.
func TestNobodyBehind(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", open(t, filepath.Join(t.TempDir(), "none")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if rest, _ := io.ReadAll(conn); len(rest) > 0 {
		t.Errorf("got %q", rest)
	}
}

// open runs a door until the test ends.
func open(t *testing.T, socket string) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	opened, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"127.0.0.1:0=" + socket}, func(_ string, at net.Addr) { opened <- at })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return (<-opened).String()
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing":    {nil, "ADDRESS=SOCKET"},
		"no socket":  {[]string{"127.0.0.1:0"}, "ADDRESS=SOCKET"},
		"no address": {[]string{"nowhere=/s"}, "nowhere"},
	} {
		if err := run(t.Context(), tc.args, func(string, net.Addr) {}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
