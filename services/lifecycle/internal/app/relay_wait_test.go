package app_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
)

// way is an address behind which there is nobody until somebody opens it.
type way struct{ to atomic.Pointer[string] }

// newWay returns one, and where it begins.
func newWay(t *testing.T) (w *way, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = new(way)
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { w.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		passing.Wait()
	})
	return w, l.Addr().String()
}

func (w *way) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	address := w.to.Load()
	if address == nil {
		return
	}
	to, err := net.Dial("tcp", *address)
	if err != nil {
		return
	}
	var copying sync.WaitGroup
	for _, one := range [][2]net.Conn{{from, to}, {to, from}} {
		copying.Go(func() {
			_, _ = io.Copy(one[0], one[1])
			_, _ = from.Close(), to.Close()
		})
	}
	copying.Wait()
}

// TestRelayWaitsForLifecycle: a relay that waits at its start says that nobody answers, and has no socket for a gateway, whose one
// handshake would fail. Once a lifecycle has answered, which need not be ready, it serves.
func TestRelayWaitsForLifecycle(t *testing.T) {
	s := newSite(t) // whose API server does not answer
	open, address := newWay(t)
	socket := filepath.Join(s.dir, "r", "driver.sock")
	r := s.start("relay", "--config", commandtest.WriteFile(t, s.dir, "relay.toml", fmt.Sprintf(`[openshell.drivers.kubernetes]
socket_path = %q
[portcullis.mesh]
allow_plaintext_loopback = true
[portcullis.relay]
lifecycle_address = %q
wait_at_start = true
http_address = "127.0.0.1:0"
`, socket, address)))
	if why := r.Logged(commandtest.Waiting, "error"); !strings.Contains(why, "reach lifecycle at "+address) {
		t.Errorf("it waits since %s", why)
	}
	if said := body(r, "/readyz"); !strings.Contains(said, "reach lifecycle at "+address) {
		t.Errorf("/readyz says %s", said)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("a gateway finds the socket: %v", err)
	}
	p := s.start("--config", s.settings("managed", `http_address = "127.0.0.1:0"`, `relay_listen_address = "127.0.0.1:0"`))
	to := p.Logged("serving relays", "address")
	open.to.Store(&to)
	r.Line("serving the driver")
	if said := body(p, "/readyz"); !strings.Contains(said, "view") {
		t.Errorf("lifecycle is ready: %s", said)
	}
	r.AwaitReady()
}
