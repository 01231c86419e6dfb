package filesource

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// hung is a source whose run was stopped while its read hung at the gate; it counts reads and watchers.
type hung struct {
	*harness
	gate            *gate
	reads, watchers atomic.Int32
}

func newHung(t *testing.T) *hung {
	t.Helper()
	h := &hung{harness: newHarness(t, often)}
	h.gate = newGate(h.harness)
	open, newWatcher := h.open, h.newWatcher
	h.open = func(path string) (file, error) { h.reads.Add(1); return open(path) }
	h.newWatcher = func() (watcher, error) { h.watchers.Add(1); return newWatcher() }
	h.stopWait = often / 10
	write(t, h.path, base)
	h.run()
	h.gate.enter()
	h.stop()
	return h
}

// TestRunWhileAnEarlierReadHangs runs again and again on a mount that hangs: each run fails, answers wishes, and starts
// nothing more that could hang. The one that sees the read come back goes on.
func TestRunWhileAnEarlierReadHangs(t *testing.T) {
	h := newHung(t)
	for range 3 {
		h.run()
		if err := h.fails(resultTimeout); !strings.Contains(err.Error(), "in an earlier run") || !strings.Contains(err.Error(), h.path) {
			t.Errorf("error %q", err)
		}
		h.ask()
		h.fails(resultTimeout)
		h.stop()
	}
	if reads, watchers := h.reads.Load(), h.watchers.Load(); reads != 1 || watchers != 1 {
		t.Errorf("%d reads and %d watchers were begun, want one", reads, watchers)
	}
	if n := h.log.count("in an earlier run"); n != 1 {
		t.Errorf("%d lines about it, want one:\n%s", n, h.log)
	}
	h.run()
	h.fails(resultTimeout)
	h.gate.pass()
	h.gate.through()
	h.listed("team-a", "team-b")
	finish(h.harness, h.gate)
}

// TestRunAfterAnEarlierReadCameBack begins at once.
func TestRunAfterAnEarlierReadCameBack(t *testing.T) {
	h := newHung(t)
	h.gate.pass()
	<-h.outstanding
	h.run()
	h.gate.through()
	if in, ok := h.next().(allowlist.Listed); !ok {
		t.Errorf("first reported %+v, want the list", in)
	}
	finish(h.harness, h.gate)
}
