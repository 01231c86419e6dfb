package filesource

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/selection"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

const (
	patience = 30 * time.Second
	// rarely is a poll that no test waits for: what is seen under it was notified, or asked for.
	rarely = time.Minute
	often  = 100 * time.Millisecond
)

// harness is a Source on a real file, with everything that it reported.
type harness struct {
	*Source
	t     *testing.T
	path  string
	clock allowkv.Clock
	log   *syncBuffer
	wish  chan struct{}
	stop  func()

	mu     sync.Mutex
	inputs []allowlist.Input
	// seen is how many of them a test has looked at.
	seen  int
	moved chan struct{}
	// hold, when set, is called inside report.
	hold func()
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// count is how many log lines contain the text.
func (b *syncBuffer) count(text string) (n int) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// newHarness makes a Source that does not run yet, for a file that does not exist yet.
func newHarness(t *testing.T, poll time.Duration) *harness {
	t.Helper()
	known := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		// The kernel may take its time to close a watcher, longer than goleak waits.
		var left error
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if left = goleak.Find(known); left == nil {
				return
			}
		}
		t.Error(left)
	})
	h := &harness{
		t: t, path: filepath.Join(t.TempDir(), "namespaces.json"), clock: allowkv.NewClock(), log: &syncBuffer{},
		wish: make(chan struct{}), moved: make(chan struct{}, 1),
	}
	refusals, err := allowlist.ParseRefusals("kube-*")
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	selected, err := selection.New(refusals, zerolog.New(h.log), reg)
	if err != nil {
		t.Fatal(err)
	}
	h.Source, err = New(Config{Path: h.path, Poll: poll, ReadTimeout: patience}, selected, h.clock, zerolog.New(h.log), reg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// at moves the source to another path.
func (h *harness) at(path string) { h.path, h.cfg.Path = path, path }

func (h *harness) run() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, h.wish, h.report) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				h.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			h.t.Error("Run does not end")
		}
	})
	h.t.Cleanup(h.stop)
}

func (h *harness) report(in allowlist.Input) {
	if h.hold != nil {
		h.hold()
	}
	h.mu.Lock()
	h.inputs = append(h.inputs, in)
	h.mu.Unlock()
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// next is the next input that a test has not looked at.
func (h *harness) next() allowlist.Input {
	h.t.Helper()
	limit := time.After(patience)
	for {
		h.mu.Lock()
		if h.seen < len(h.inputs) {
			in := h.inputs[h.seen]
			h.seen++
			h.mu.Unlock()
			return in
		}
		h.mu.Unlock()
		select {
		case <-h.moved:
		case <-limit:
			h.t.Fatalf("nothing more was reported after %d inputs\nlog:\n%s", h.seen, h.log)
		}
	}
}

// listed waits for a list, which must have exactly these names. With notifications, what is reported before depends on
// how far a change had come when it was read: a proof or a failure, but never another list.
func (h *harness) listed(names ...string) allowlist.Listed {
	h.t.Helper()
	for {
		in, ok := h.next().(allowlist.Listed)
		if !ok {
			continue
		}
		if got := namesOf(in.List); !slices.Equal(got, names) {
			h.t.Fatalf("listed %q, want %q", got, names)
		}
		return in
	}
}

// fails waits for a failure with this result. No list may come before it.
func (h *harness) fails(want result) error {
	h.t.Helper()
	for {
		switch in := h.next().(type) {
		case allowlist.Listed:
			h.t.Fatalf("listed %q, want a failure with result %s", namesOf(in.List), want)
		case allowlist.SourceFailed:
			if resultOf(in.Err) == want {
				return in.Err
			}
		}
	}
}

// proved waits for a proof of the last list.
func (h *harness) proved() allowlist.Proved {
	h.t.Helper()
	for {
		switch in := h.next().(type) {
		case allowlist.Listed:
			h.t.Fatalf("listed %q, want a proof", namesOf(in.List))
		case allowlist.Proved:
			return in
		}
	}
}

func (h *harness) ask() {
	h.t.Helper()
	select {
	case h.wish <- struct{}{}:
	case <-time.After(patience):
		h.t.Fatal("nobody takes the wish")
	}
}

func (h *harness) until(what string, holds func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("never saw %s\nlog:\n%s", what, h.log)
		}
	}
}

func (h *harness) reads(r result) float64 {
	return testutil.ToFloat64(h.metrics.reads.WithLabelValues(string(r)))
}

func (h *harness) troubles(k trouble) float64 {
	return testutil.ToFloat64(h.metrics.troubles.WithLabelValues(string(k)))
}

func (h *harness) working() bool { return testutil.ToFloat64(h.metrics.working) == 1 }

func namesOf(l allowlist.List) []string {
	names := []string{}
	for e := range l.All() {
		names = append(names, e.Name)
	}
	return names
}

// must ends the test for an error of its own preparations.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// write puts content in place at once, as a careful writer does.
func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path))
}

// gate lets a test hold reads: each waits until the test lets it go.
type gate struct {
	t       *testing.T
	entered chan struct{}
	release chan struct{}
}

// newGate puts a gate in front of the reads of h, whose clock is then so far ahead that each opens the file once.
func newGate(h *harness) *gate {
	g := &gate{t: h.t, entered: make(chan struct{}), release: make(chan struct{})}
	h.open = g.open
	clock := h.clock
	h.Source.clock = func() allowlist.Instant {
		at := clock()
		at.Wall = at.Wall.Add(time.Hour)
		return at
	}
	return g
}

func (g *gate) open(path string) (file, error) {
	g.entered <- struct{}{}
	<-g.release
	return openFile(path)
}

// enter waits for a read to come to the gate.
func (g *gate) enter() {
	g.t.Helper()
	select {
	case <-g.entered:
	case <-time.After(patience):
		g.t.Fatal("no read begins")
	}
}

func (g *gate) pass() { g.release <- struct{}{} }

// through lets one whole read pass.
func (g *gate) through() {
	g.t.Helper()
	g.enter()
	g.pass()
}

// altered is a file with something that happens while it is read.
type altered struct {
	file
	read   func(p []byte, n int, err error) (int, error)
	closed func()
}

func (a *altered) Read(p []byte) (int, error) {
	n, err := a.file.Read(p)
	if a.read != nil {
		return a.read(p, n, err)
	}
	return n, err
}

func (a *altered) Close() error {
	if a.closed != nil {
		defer a.closed()
	}
	return a.file.Close()
}
