//go:build linux

package udsock

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// anotherUID owns nothing on a test machine. Used only when the tests run as root.
const anotherUID = 65531

func TestRestartAfterKill(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	for round := range 3 {
		c := startChild(t, -1, "serve", path)
		if got := c.line(); got != "listening" {
			t.Fatalf("round %d: child says %q", round, got)
		}
		c.kill(t)
		lstat(t, path)
	}
	roundTrip(t, mustListen(t, path, Options{}), path)
}

func TestOneOfManyStartersWins(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, string){
		"on a free path":     func(*testing.T, string) {},
		"over a dead socket": deadSocket,
	} {
		t.Run("processes "+name, func(t *testing.T) {
			path := filepath.Join(privateDir(t), "s")
			prepare(t, path)
			children := make([]*child, 6)
			for i := range children {
				children[i] = startChild(t, -1, "serve", path)
			}
			var winners []*child
			for _, c := range children {
				switch got := c.line(); {
				case got == "listening":
					winners = append(winners, c)
				case !strings.Contains(got, "another driver"):
					t.Errorf("a loser says %q", got)
				}
			}
			if len(winners) != 1 {
				t.Fatalf("%d starters won", len(winners))
			}
			conn, err := Dial(context.Background(), path, DialOptions{})
			must(t, err)
			if got := int(conn.Peer().PID()); got != winners[0].cmd.Process.Pid {
				t.Errorf("process %d serves, process %d won", got, winners[0].cmd.Process.Pid)
			}
			_ = conn.Close()
			winners[0].stop(t)
		})
		t.Run("goroutines "+name, func(t *testing.T) {
			path := filepath.Join(privateDir(t), "s")
			prepare(t, path)
			var wg sync.WaitGroup
			var mu sync.Mutex
			var winners []*Listener
			for range 32 {
				wg.Go(func() {
					l, err := Listen(context.Background(), path, Options{})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						winners = append(winners, l)
					} else if !strings.Contains(err.Error(), "another driver") {
						t.Errorf("a loser says %q", err)
					}
				})
			}
			wg.Wait()
			if len(winners) != 1 {
				t.Fatalf("%d starters won", len(winners))
			}
			roundTrip(t, winners[0], path)
			must(t, winners[0].Close())
		})
	}
}

// Works for any user: the listener's set is emptied, so our own uid is a stranger.
func TestAcceptDropsStrangers(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	reg := prometheus.NewRegistry()
	var log bytes.Buffer
	l := mustListen(t, path, Options{Log: zerolog.New(&log), Registerer: reg})
	if lint, err := testutil.GatherAndLint(reg); err != nil || len(lint) > 0 {
		t.Errorf("metric names: %v, %v", lint, err)
	}
	ours := l.allowed
	l.allowed = newUIDSet(NoUID)
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	conn, err := net.Dial("unix", path)
	must(t, err)
	if answer, err := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("a stranger read %q, %v", answer, err)
	}
	_ = conn.Close()
	if n := testutil.ToFloat64(l.dropped.WithLabelValues("foreign_uid")); n != 1 {
		t.Errorf("%v drops counted", n)
	}
	must(t, l.inner.Close())
	if err := <-accepted; err == nil {
		t.Error("Accept handed out a stranger")
	}
	if !strings.Contains(log.String(), `"level":"warn"`) || !strings.Contains(log.String(), `"peer":"uid `) {
		t.Errorf("log: %s", log.String())
	}
	if ours.has(Peer{}) {
		t.Error("the zero peer is admitted")
	}
}

func TestTwoSocketsShareTheMetric(t *testing.T) {
	dir := privateDir(t)
	reg := prometheus.NewRegistry()
	a := mustListen(t, filepath.Join(dir, "a"), Options{Registerer: reg})
	b := mustListen(t, filepath.Join(dir, "b"), Options{Registerer: reg})
	if a.dropped != b.dropped {
		t.Error("the second listener counts elsewhere")
	}
}

// Real users, which only root can play. TestListenRefuses and
// TestAcceptDropsStrangers hold the same decisions for everybody else.
func TestRealUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the decisions are covered through the owner seam")
		return
	}
	t.Run("foreign things are refused", func(t *testing.T) {
		dir := privateDir(t)
		deadSocket(t, filepath.Join(dir, "s"))
		must(t, os.Chown(filepath.Join(dir, "s"), anotherUID, anotherUID))
		if _, err := Listen(context.Background(), filepath.Join(dir, "s"), Options{}); err == nil || !strings.Contains(err.Error(), "belongs to uid 65531") {
			t.Errorf("foreign socket: %v", err)
		}
		must(t, os.Chown(dir, anotherUID, anotherUID))
		if _, err := Listen(context.Background(), filepath.Join(dir, "t"), Options{}); err == nil || !strings.Contains(err.Error(), "belongs to uid 65531") {
			t.Errorf("foreign directory: %v", err)
		}
	})
	t.Run("another user's client is dropped even when modes are lost", func(t *testing.T) {
		dir := privateDir(t)
		path := filepath.Join(dir, "s")
		l := mustListen(t, path, Options{})
		served := make(chan struct{})
		go func() {
			defer close(served)
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				_, _ = conn.Write([]byte("hello"))
				_ = conn.Close()
			}
		}()
		if got := startChild(t, anotherUID, "dial", path).line(); !strings.Contains(got, "permission denied") {
			t.Errorf("with the modes in force the other user says %q", got)
		}
		must(t, os.Chmod(dir, 0o711))
		must(t, os.Chmod(path, 0o666))
		if got := startChild(t, anotherUID, "dial", path).line(); strings.Contains(got, "hello") || !strings.HasPrefix(got, "got ") {
			t.Errorf("with the modes lost the other user says %q", got)
		}
		if n := testutil.ToFloat64(l.dropped.WithLabelValues("foreign_uid")); n != 1 {
			t.Errorf("%v drops counted", n)
		}
		if got := startChild(t, 0, "dial", path).line(); !strings.Contains(got, "hello") {
			t.Errorf("our own user says %q", got)
		}
		must(t, l.Close())
		<-served
	})
	t.Run("root is a stranger to another user's server", func(t *testing.T) {
		place := workplace(t)
		must(t, os.Chown(place, anotherUID, anotherUID))
		path := filepath.Join(place, "p", "s")
		c := startChild(t, anotherUID, "serve", path)
		if got := c.line(); got != "listening" {
			t.Fatalf("child says %q", got)
		}
		if _, err := Dial(context.Background(), path, DialOptions{}); err == nil || !strings.Contains(err.Error(), "not an accepted user") {
			t.Errorf("Dial to another user's server: %v", err)
		}
		conn, err := Dial(context.Background(), path, DialOptions{ServerUIDs: []uint32{anotherUID}})
		must(t, err)
		if answer, _ := io.ReadAll(conn); len(answer) > 0 {
			t.Errorf("the server answered root: %q", answer)
		}
		_ = conn.Close()
		c.stop(t)
	})
	t.Run("an additional user is admitted", func(t *testing.T) {
		dir := privateDir(t)
		path := filepath.Join(dir, "s")
		l := mustListen(t, path, Options{AllowedUIDs: []uint32{anotherUID}})
		must(t, os.Chmod(dir, 0o711))
		must(t, os.Chmod(path, 0o666))
		c := startChild(t, anotherUID, "dial", path)
		conn, err := l.Accept()
		must(t, err)
		if peer := conn.(*Conn).Peer(); peer.UID() != anotherUID || peer.GID() != anotherUID || int(peer.PID()) != c.cmd.Process.Pid {
			t.Errorf("peer is %s", peer)
		}
		_ = conn.Close()
	})
}
