package filesource

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/selection"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

func TestConfig(t *testing.T) {
	valid := Config{Path: "/etc/portcullis/namespaces.json", Poll: 2 * time.Second}
	for _, c := range []struct {
		name  string
		spoil func(*Config)
		text  string
	}{
		{"valid", func(*Config) {}, ""},
		{"zero", func(c *Config) { *c = Config{} }, "must be an absolute path"},
		{"relative", func(c *Config) { c.Path = "namespaces.json" }, "must be an absolute path"},
		{"long", func(c *Config) { c.Path = "/" + strings.Repeat("x", 4096) }, "has 4097 bytes"},
		{"two lines", func(c *Config) { c.Path = "/a\nb" }, "control character"},
		{"not UTF-8", func(c *Config) { c.Path = "/\xff" }, "not valid UTF-8"},
		{"poll too often", func(c *Config) { c.Poll = time.Millisecond }, "a poll every 1ms"},
		{"poll too rare", func(c *Config) { c.Poll = time.Hour }, "a poll every 1h"},
		{"timeout too short", func(c *Config) { c.ReadTimeout = 1 }, "a read timeout of 1ns"},
		{"timeout too long", func(c *Config) { c.ReadTimeout = time.Hour }, "a read timeout of 1h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := valid
			c.spoil(&cfg)
			reg := prometheus.NewRegistry()
			selected, err := selection.New(allowlist.Refusals{}, zerolog.Nop(), reg)
			must(t, err)
			_, err = New(cfg, selected, allowkv.NewClock(), zerolog.Nop(), reg)
			switch {
			case c.text == "" && err != nil:
				t.Error(err)
			case c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)):
				t.Errorf("error %v does not contain %q", err, c.text)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	h := newHarness(t, rarely)
	if got := h.Describe(); got != (allowlist.Source{Kind: allowlist.SourceFile, Path: h.path}) {
		t.Errorf("%+v", got)
	}
}

// TestListed checks everything in what is reported.
func TestListed(t *testing.T) {
	h := newHarness(t, often)
	write(t, h.path, `["b","kube-system","a","a"]`)
	before := h.clock().Mono
	h.run()
	first := h.listed("a", "b")
	if first.Version != fingerprint([]byte(`["b","kube-system","a","a"]`)) {
		t.Errorf("version %q", first.Version)
	}
	if first.Kind != allowlist.ProofFile || first.ProvenAt < before || first.ProvenAt > h.clock().Mono {
		t.Errorf("proof %v at %s, begun after %s", first.Kind, first.ProvenAt, before)
	}
	proof := h.proved()
	if proof.Kind != allowlist.ProofFile || proof.At <= first.ProvenAt {
		t.Errorf("proof %v at %s after %s", proof.Kind, proof.At, first.ProvenAt)
	}
	if second := h.proved(); second.At <= proof.At {
		t.Errorf("proof at %s after %s", second.At, proof.At)
	}
	write(t, h.path, `[]`)
	last := h.listed()
	if last.Order <= first.Order || last.ProvenAt <= proof.At {
		t.Errorf("order %d after %d, proof at %s after %s", last.Order, first.Order, last.ProvenAt, proof.At)
	}
	if n := h.log.count(`"cause":"reserved"`); n != 1 {
		t.Errorf("the refused namespace is in %d lines, want one:\n%s", n, h.log)
	}
	if at := testutil.ToFloat64(h.metrics.last); at < float64(time.Now().Add(-time.Hour).Unix()) || at > float64(time.Now().Unix()+1) {
		t.Errorf("last success at %v", at)
	}
}

// TestRealWriter gives what is reported to the pure writer: it must take it for what it is.
func TestRealWriter(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, base)
	h.run()
	listed := h.listed("team-a", "team-b")
	source := h.Describe()
	source.Version = listed.Version
	signer, err := allowlist.GenerateSigner(zeroes{})
	must(t, err)
	_, _, err = allowlist.SealSnapshot(allowlist.Snapshot{
		GatewayID: "g", Epoch: 1, Revision: 1, Writer: "w", PublishedAt: time.UnixMilli(1).UTC(), Source: source,
		Namespaces: listed.List, Changes: allowlist.Diff(allowlist.List{}, listed.List).Changes(),
	}, signer)
	must(t, err)
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestWish asks for lists of a file that does not change.
func TestWish(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, base)
	h.run()
	last := h.listed("team-a", "team-b")
	for range 5 {
		before := h.clock().Mono
		h.ask()
		in := h.listed("team-a", "team-b")
		if in.ProvenAt < before || in.Order <= last.Order || in.Version != last.Version {
			t.Errorf("asked at %s, listed %+v after %+v", before, in, last)
		}
		last = in
	}
}

// TestWishDuringRead asks while a read is under way that began before: its outcome must not pass for the answer.
func TestWishDuringRead(t *testing.T) {
	for _, bad := range []bool{false, true} {
		h := newHarness(t, often)
		g := newGate(h)
		write(t, h.path, base)
		h.run()
		g.through()
		h.listed("team-a", "team-b")
		g.enter() // the poll's read
		if bad {
			write(t, h.path, `nothing`)
		}
		before := h.clock().Mono
		h.ask()
		g.pass()
		g.enter()
		write(t, h.path, `["team-c"]`)
		g.pass()
		in, ok := h.next().(allowlist.Listed)
		if !ok || in.ProvenAt < before || namesOf(in.List)[0] != "team-c" {
			t.Errorf("first reported %+v (a list: %v), asked at %s", in, ok, before)
		}
		finish(h, g)
	}
}

// TestTwoWishes asks again while the first wish is being answered: each has an answer of its own.
func TestTwoWishes(t *testing.T) {
	h := newHarness(t, rarely)
	g := newGate(h)
	write(t, h.path, base)
	h.run()
	g.through()
	h.listed("team-a", "team-b")
	h.ask()
	g.enter()
	between := h.clock().Mono
	h.ask()
	g.pass()
	g.through()
	if first, ok := h.next().(allowlist.Listed); !ok || first.ProvenAt > between {
		t.Errorf("the first answer is %+v", first)
	}
	if second, ok := h.next().(allowlist.Listed); !ok || second.ProvenAt < between {
		t.Errorf("the second answer is %+v", second)
	}
	finish(h, g)
}

// finish stops a source whose reads a gate holds.
func finish(h *harness, g *gate) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		h.stop()
	}()
	for {
		select {
		case <-g.entered:
			g.release <- struct{}{}
		case <-stopped:
			return
		}
	}
}

// TestHang is a file system that does not answer: the source fails after the deadline, answers wishes, starts no second
// read, and works again when the file system does.
func TestHang(t *testing.T) {
	h := newHarness(t, often)
	g := newGate(h)
	h.cfg.ReadTimeout = 50 * time.Millisecond
	write(t, h.path, base)
	h.run()
	g.enter()
	if err := h.fails(resultTimeout); !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("error %q", err)
	}
	for range 3 {
		h.ask()
		h.fails(resultTimeout)
	}
	if n := h.reads(resultTimeout); n != 1 {
		t.Errorf("%v reads timed out, want one that hangs", n)
	}
	if n := h.log.count(`"kind":"timeout"`); n != 1 {
		t.Errorf("%d lines about it, want one:\n%s", n, h.log)
	}
	// The read comes back with what was true long ago; it must not be used.
	h.cfg.ReadTimeout = patience
	g.pass()
	g.enter()
	before := h.clock().Mono
	g.pass()
	if in := h.listed("team-a", "team-b"); in.ProvenAt > before || in.Order < 2 {
		t.Errorf("listed %+v", in)
	}
	finish(h, g)
}

// TestHangWithWishes has a wish in the read that hangs and another behind it: both are answered.
func TestHangWithWishes(t *testing.T) {
	h := newHarness(t, rarely)
	g := newGate(h)
	write(t, h.path, base)
	h.run()
	g.through()
	h.listed("team-a", "team-b")
	h.cfg.ReadTimeout = 500 * time.Millisecond // the loop reads it when it begins the next read, which ask starts
	h.ask()
	g.enter()
	h.ask()
	h.fails(resultTimeout)
	h.fails(resultTimeout)
	g.pass()
	finish(h, g)
}

// TestStopWhileHanging stops during a read that the system does not end. Run returns; the goroutine ends with the read.
func TestStopWhileHanging(t *testing.T) {
	h := newHarness(t, rarely)
	g := newGate(h)
	h.stopWait = 10 * time.Millisecond
	write(t, h.path, base)
	h.run()
	g.enter()
	h.stop()
	g.pass() // the leak check waits for the goroutine and the watcher
	if len(h.inputs) != 0 {
		t.Errorf("reported %v", h.inputs)
	}
}

// TestRunAgain ends a run and begins another: it lists anew, in order. Two at a time are refused.
func TestRunAgain(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, base)
	h.run()
	first := h.listed("team-a", "team-b")
	if err := h.Run(t.Context(), nil, h.report); err == nil {
		t.Error("a second run was not refused")
	}
	h.until("notifications", h.working)
	h.stop()
	if h.working() {
		t.Error("notifications are said to work in a source that does not run")
	}
	h.run()
	if again := h.listed("team-a", "team-b"); again.Order <= first.Order {
		t.Errorf("order %d after %d", again.Order, first.Order)
	}
}

// TestWishesEnd is a publisher that is gone: a closed channel must not spin.
func TestWishesEnd(t *testing.T) {
	h := newHarness(t, often)
	write(t, h.path, base)
	close(h.wish)
	h.run()
	h.listed("team-a", "team-b")
	h.proved()
	h.proved()
}

func TestStopBeforeStart(t *testing.T) {
	h := newHarness(t, rarely)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Run(ctx, h.wish, h.report); err != nil {
		t.Error(err)
	}
}
