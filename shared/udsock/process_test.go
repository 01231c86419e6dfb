//go:build linux

package udsock

import (
	"bytes"
	"context"
	"errors"
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

func TestRestartAfterKill(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	for round := range 3 {
		c := startChild(t, path)
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
				children[i] = startChild(t, path)
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
			conn, err := Dial(context.Background(), path)
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

// Works for any user: the listener takes itself for somebody else's, so our own uid is
// a stranger. The tests that need a real node play it with real users.
func TestAcceptDropsStrangers(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	reg := prometheus.NewRegistry()
	var log bytes.Buffer
	l := mustListen(t, path, Options{Log: zerolog.New(&log), Registerer: reg})
	if lint, err := testutil.GatherAndLint(reg); err != nil || len(lint) > 0 {
		t.Errorf("metric names: %v, %v", lint, err)
	}
	l.uid = uint32(os.Geteuid()) + 1
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
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept handed out a stranger, or says %v", err)
	}
	if !strings.Contains(log.String(), `"level":"warn"`) || !strings.Contains(log.String(), `"peer":"uid `) {
		t.Errorf("log: %s", log.String())
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
