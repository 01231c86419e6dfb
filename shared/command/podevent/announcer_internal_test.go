package podevent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pen is a writer that a test leads, and the log beside it.
type pen struct {
	mu      sync.Mutex
	written []string
	lines   strings.Builder
	err     error
	panics  bool
	hangs   bool // until the context ends
}

func (p *pen) write(ctx context.Context, n notice, _ time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.panics:
		panic("broken")
	case p.hangs:
		<-ctx.Done()
		return context.Cause(ctx)
	case p.err != nil:
		return p.err
	}
	p.written = append(p.written, n.reason+" "+n.message)
	return nil
}

// set changes what becomes of the next writes.
func (p *pen) set(err error, panics bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.panics = err, panics
}

// Write takes a line of the log.
func (p *pen) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.Write(line)
}

// told and log are what was written of either.
func (p *pen) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.written, "\n")
}

func (p *pen) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.String()
}

// announcing runs an announcer inside a bubble of time until stop.
func announcing(t *testing.T, to *pen) (a *Announcer, stop func()) {
	t.Helper()
	a = newAnnouncer(to, zerolog.New(to))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { a.Run(ctx); close(done) }()
	return a, func() { cancel(); <-done }
}

// pass lets time go by.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

func report(checks ...string) daemon.Report { return daemon.Report{Results: failing(checks...)} }

// What an announcer before this one told is ended too.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pen{}
		a, stop := announcing(t, to)
		a.Resume()
		pass(time.Second)
		if got := to.told(); got != "" {
			t.Errorf("told before anything was observed: %s", got)
		}
		a.Observe(report("bucket", ""))
		pass(time.Second)
		stop()
		if got := to.told(); got != "Ready ready again: every readiness check passes" {
			t.Errorf("told %q", got)
		}
	})
}

func TestTellsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pen{}
		a, stop := announcing(t, to)
		a.Observe(report("bucket", "bad"))
		pass(patience - 1)
		if got := to.told(); got != "" {
			t.Errorf("too early: %s", got)
		}
		pass(1)
		a.Observe(daemon.Report{Problem: errors.New("stopping")})
		pass(time.Second)
		if got := to.told(); got != "BucketNotReady bucket: bad" {
			t.Errorf("told at a stop: %s", got)
		}
		a.Observe(report("bucket", ""))
		pass(0)
		stop()
		if got := to.told(); got != "BucketNotReady bucket: bad\nReady ready again: every readiness check passes" || to.log() != "" {
			t.Errorf("told %s; log %s", got, to.log())
		}
		if n := testutil.ToFloat64(a.events.WithLabelValues(resultWritten)); n != 2 {
			t.Errorf("%v are counted", n)
		}
	})
}

// TestFailuresAreSaidOnce: in the log once for each reason why, and counted; what was missed is told when it can be.
func TestFailuresAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pen{err: errors.New("refused")}
		a, stop := announcing(t, to)
		a.Observe(report("bucket", "bad"))
		pass(patience + 2*apart)
		if got := to.log(); strings.Count(got, `"error":"refused"`) != 1 || !strings.Contains(got, `"reason":"BucketNotReady"`) {
			t.Errorf("the log says %s", got)
		}
		to.set(nil, true)
		pass(apart)
		if got := to.log(); strings.Count(got, "the attempt panicked: broken") != 2 {
			t.Errorf("the log says %s", got)
		}
		to.set(nil, false)
		pass(apart)
		if n := testutil.ToFloat64(a.events.WithLabelValues(resultFailed)); n != 4 || to.told() != "BucketNotReady bucket: bad" {
			t.Errorf("%v failures are counted, %q is told", n, to.told())
		}
		stop()
	})
}

// TestNothingWaitsForAWrite: neither who observes nor who stops, and a write that hangs ends.
func TestNothingWaitsForAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pen{hangs: true}
		a, stop := announcing(t, to)
		a.Observe(report("bucket", "bad"))
		pass(patience)
		for range 3 {
			a.Observe(report("bucket", "worse"))
		}
		pass(writeLimit)
		if !strings.Contains(to.log(), context.DeadlineExceeded.Error()) {
			t.Errorf("the log says %s", to.log())
		}
		pass(apart)
		before := time.Now()
		stop()
		if took := time.Since(before); took != 0 {
			t.Errorf("the stop took %s", took)
		}
		if strings.Contains(to.log(), "canceled") {
			t.Errorf("the stop is told as a failure: %s", to.log())
		}
	})
}

// TestMetricsOfEveryTry: each try to start a daemon has a registry of its own.
func TestMetricsOfEveryTry(t *testing.T) {
	a := newAnnouncer(&pen{}, zerolog.Nop())
	for range 2 {
		reg := prometheus.NewRegistry()
		if err := a.Register(reg); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.GatherAndCount(reg, "portcullis_pod_events_total"); n != 2 || err != nil {
			t.Errorf("%d series, %v", n, err)
		}
		if a.Register(reg) == nil {
			t.Error("a registry takes it twice")
		}
	}
}
