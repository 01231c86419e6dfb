package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/leadership"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends a wait for something that will never happen.
const patience = 60 * time.Second

// settings has times that suit a test: renewals come often, and what must not happen has a wide margin.
func settings(lease, renew, retry time.Duration) leadership.Settings {
	return leadership.Settings{
		LeaseName: "portcullis-nswatch-blue", LeaseNamespace: "mesh",
		LeaseDuration: driverconf.Duration(lease), RenewDeadline: driverconf.Duration(renew), RetryPeriod: driverconf.Duration(retry),
	}
}

func roomy() leadership.Settings {
	return settings(60*time.Second, 30*time.Second, 50*time.Millisecond)
}

// term is one call of Lead.
type term struct {
	ctx      context.Context
	released <-chan struct{}
	end      chan<- error
}

// candidate is one process of the election.
type candidate struct {
	t     *testing.T
	name  string
	terms chan term
	reg   *prometheus.Registry
	log   *transcript
	stop  context.CancelFunc
	done  chan error
}

type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// newCandidate starts an election whose terms the test gets and ends.
func newCandidate(t *testing.T, s *apiServer, name string, cfg leadership.Settings) *candidate {
	t.Helper()
	c := &candidate{t: t, name: name, terms: make(chan term, 64), reg: prometheus.NewRegistry(), log: &transcript{}, done: make(chan error, 1)}
	lead := func(ctx context.Context, released <-chan struct{}) error {
		end := make(chan error, 1)
		c.terms <- term{ctx, released, end}
		select {
		case err := <-end:
			return err
		case <-ctx.Done():
		case <-released:
		}
		return nil
	}
	e, err := leadership.New(cfg, name, s.client(name), lead, zerolog.New(c.log), c.reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.stop = cancel
	go func() { c.done <- e.Run(ctx) }()
	t.Cleanup(func() {
		c.halt()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, c.log)
		}
	})
	return c
}

// halt asks for the stop and waits for it.
func (c *candidate) halt() {
	c.t.Helper()
	c.stop()
	select {
	case err := <-c.done:
		c.done <- err
		if err != nil {
			c.t.Errorf("%s: a requested stop ends with %v", c.name, err)
		}
	case <-time.After(patience):
		c.t.Fatalf("%s does not stop:\n%s", c.name, c.log)
	}
}

func (c *candidate) term() term {
	c.t.Helper()
	select {
	case begun := <-c.terms:
		return begun
	case <-time.After(patience):
		c.t.Fatalf("%s gets no term:\n%s", c.name, c.log)
		return term{}
	}
}

// metric is the sum of a metric's series, those with the label value when one is given.
func (c *candidate) metric(name, label string) float64 {
	c.t.Helper()
	families, err := c.reg.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "portcullis_nswatch_"+name || (label != "" && m.GetLabel()[0].GetValue() != label) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestCleanStopReleasesFirst: rule W10. When the term is told, the Lease has no holder, and the term's context lives.
func TestCleanStopReleasesFirst(t *testing.T) {
	s := newAPIServer(t)
	a := newCandidate(t, s, "a", roomy())
	first := a.term()
	if holder, _ := s.holder(); holder != "a" || a.metric("leading", "") != 1 {
		t.Errorf("the Lease is %q's, leading is %v", holder, a.metric("leading", ""))
	}
	a.stop()
	await(t, "the term is told", first.released)
	if holder, _ := s.holder(); holder != "" {
		t.Errorf("the term was told while %q held the Lease", holder)
	}
	if first.ctx.Err() != nil && len(a.done) == 0 {
		t.Error("the term's context ended on a clean stop")
	}
	a.halt()
	if a.metric("leading", "") != 0 || a.metric("lease_term_ends_total", "stopped") != 1 {
		t.Errorf("leading is %v after the stop, stops %v", a.metric("leading", ""), a.metric("lease_term_ends_total", "stopped"))
	}
	// A lease of 60 s does not hold the successor up.
	newCandidate(t, s, "b", roomy()).term()
}

// TestOneLeadsAtATime: of several, one has a term, and when it stops another one gets its.
func TestOneLeadsAtATime(t *testing.T) {
	s := newAPIServer(t)
	var leading, most atomic.Int32
	all := map[string]*candidate{}
	for i := range 4 {
		name := fmt.Sprintf("candidate-%d", i)
		all[name] = newCandidate(t, s, name, roomy())
	}
	for len(all) > 0 {
		var leader string
		eventually(t, "one of them leads", func() bool { leader, _ = s.holder(); return all[leader] != nil })
		c := all[leader]
		c.term()
		most.Store(max(most.Load(), leading.Add(1)))
		for name, other := range all {
			if name != leader && len(other.terms) > 0 {
				t.Errorf("%s has a term beside %s", name, leader)
			}
		}
		delete(all, leader)
		leading.Add(-1)
		c.halt()
	}
}

// TestReplayE01: a holder that cannot renew stops to act before another one can take the Lease, whether the API server
// refuses or hangs.
func TestReplayE01(t *testing.T) {
	for name, what := range map[string]fault{"refused": refused, "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t)
			cfg := settings(6*time.Second, time.Second, 50*time.Millisecond)
			old := newCandidate(t, s, "old", cfg)
			first := old.term()
			s.misbehave(func(client, _ string) fault {
				if client == "old" {
					return what
				}
				return healthy
			})
			next := newCandidate(t, s, "next", cfg)
			next.term()
			select {
			case <-first.ctx.Done():
			default:
				t.Error("the old leader still leads when the next one begins")
			}
			if isClosed(first.released) {
				t.Error("a term whose Lease is lost was told that it is released")
			}
			s.misbehave(nil)
			next.halt()
			old.term() // it competes again, and gets the Lease when that is free
			if old.metric("lease_term_ends_total", "lost") != 1 || old.metric("lease_errors_total", "") == 0 {
				t.Errorf("%v lost terms, %v errors", old.metric("lease_term_ends_total", "lost"), old.metric("lease_errors_total", ""))
			}
		})
	}
}

// TestLossIsNotReleased: what is known to be another's is left alone.
func TestLossIsNotReleased(t *testing.T) {
	s := newAPIServer(t)
	a := newCandidate(t, s, "a", roomy())
	first := a.term()
	s.mu.Lock()
	thief := "thief"
	s.lease.Spec.HolderIdentity = &thief
	s.version++
	s.lease.ResourceVersion = fmt.Sprint(s.version)
	s.mu.Unlock()
	a.stop()
	await(t, "the term ends", first.ctx.Done())
	a.halt()
	if isClosed(first.released) {
		t.Error("the term was told that the Lease is released")
	}
	if holder, _ := s.holder(); holder != "thief" {
		t.Errorf("the Lease is %q's", holder)
	}
}

// TestStopWithoutAPIServer: a Lease that cannot be released counts as lost, and the stop ends.
func TestStopWithoutAPIServer(t *testing.T) {
	for name, what := range map[string]fault{"refused": refused, "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t)
			a := newCandidate(t, s, "a", settings(60*time.Second, 4*time.Second, 50*time.Millisecond))
			first := a.term()
			s.misbehave(func(string, string) fault { return what })
			a.stop()
			await(t, "the term ends", first.ctx.Done())
			a.halt()
			if isClosed(first.released) {
				t.Error("the term was told that the Lease is released")
			}
		})
	}
}

// TestReplayE04: one request that hangs is given up in time for another, and the term goes on. The server may have
// done what the lost request asked for.
func TestReplayE04(t *testing.T) {
	for name, what := range map[string]fault{"without effect": hanging, "with effect": mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t)
			a := newCandidate(t, s, "a", settings(20*time.Second, 8*time.Second, 50*time.Millisecond))
			first := a.term()
			var hung atomic.Bool
			s.misbehave(func(_, method string) fault {
				if method == http.MethodPut && hung.CompareAndSwap(false, true) {
					return what
				}
				return healthy
			})
			eventually(t, "the hanging request is given up", func() bool { return s.abandoned() == 1 })
			_, before := s.holder()
			eventually(t, "renewals go on", func() bool { _, now := s.holder(); return len(now) > len(before)+1 })
			if first.ctx.Err() != nil || len(a.terms) != 0 {
				t.Error("the term ended")
			}
			if a.metric("lease_errors_total", "update") != 1 {
				t.Errorf("%v errors", a.metric("lease_errors_total", "update"))
			}
		})
	}
}

// TestTermThatEndsByItself gives the Lease up, and competes again.
func TestTermThatEndsByItself(t *testing.T) {
	s := newAPIServer(t)
	a := newCandidate(t, s, "a", roomy())
	first := a.term()
	b := newCandidate(t, s, "b", roomy())
	first.end <- errors.New("superseded by a newer writer")
	eventually(t, "the Lease is released", func() bool {
		_, writes := s.holder()
		for _, w := range writes {
			if w == (write{"a", ""}) {
				return true
			}
		}
		return false
	})
	leader, other := a, b
	select {
	case <-a.terms:
	case <-b.terms:
		leader, other = b, a
	case <-time.After(patience):
		t.Fatal("nobody leads")
	}
	leader.halt()
	other.term()
	if !strings.Contains(a.log.String(), "superseded by a newer writer") || a.metric("lease_term_ends_total", "itself") != 1 {
		t.Errorf("the end is not told: %v ends in\n%s", a.metric("lease_term_ends_total", "itself"), a.log)
	}
}

// TestStopWhileStandingBy leaves the Lease alone.
func TestStopWhileStandingBy(t *testing.T) {
	s := newAPIServer(t)
	a := newCandidate(t, s, "a", roomy())
	a.term()
	b := newCandidate(t, s, "b", roomy())
	eventually(t, "b stands by", func() bool { return strings.Contains(b.log.String(), `"holder":"a"`) })
	b.halt()
	if _, writes := s.holder(); len(writes) == 0 || writes[0].client != "a" {
		t.Errorf("writes: %v", writes)
	}
	if b.metric("lease_terms_total", "") != 0 || len(b.terms) != 0 {
		t.Error("the standby had a term")
	}
}

// TestPanicEndsTheElection: it reaches the caller, and nothing stays behind.
func TestPanicEndsTheElection(t *testing.T) {
	s := newAPIServer(t)
	e, err := leadership.New(roomy(), "a", s.client("a"), func(context.Context, <-chan struct{}) error { panic("bug") }, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
		if holder, _ := s.holder(); holder != "" {
			t.Errorf("%q still holds the Lease", holder)
		}
	}()
	_ = e.Run(t.Context())
}

func TestElectionRunsOnce(t *testing.T) {
	s := newAPIServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := leadership.New(roomy(), "a", s.client("a"), func(context.Context, <-chan struct{}) error { return nil }, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(ctx); err != nil {
		t.Errorf("a stopped election ends with %v", err)
	}
	if err := e.Run(ctx); err == nil {
		t.Error("it ran twice")
	}
}

func TestMetricsAreSound(t *testing.T) {
	s := newAPIServer(t)
	a := newCandidate(t, s, "a", roomy())
	a.term()
	problems, err := testutil.GatherAndLint(a.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
