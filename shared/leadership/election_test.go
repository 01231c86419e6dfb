package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/leadership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// TestOneLeadsAtATime: of several, one has a term, however often the others try, and when it ends another one gets its. A
// term that ends by itself is over before its Lease is given up, so that none may begin beside it.
func TestOneLeadsAtATime(t *testing.T) {
	const candidates, terms = 4, 8
	s := newAPIServer(t)
	var count census
	var tries [candidates]atomic.Int32
	s.misbehave(func(client, _ string) fault {
		tries[client[len(client)-1]-'0'].Add(1)
		return healthy
	})
	all := make([]*candidate, candidates)
	for i := range all {
		all[i] = newCounted(t, s, fmt.Sprintf("candidate-%d", i), roomy(), &count)
	}
	for range terms {
		var begun []term
		eventually(t, "one of them leads", func() bool {
			for _, c := range all {
				if len(c.terms) > 0 {
					begun = append(begun, <-c.terms)
				}
			}
			return len(begun) > 0
		})
		var before [candidates]int32
		for i := range tries {
			before[i] = tries[i].Load()
		}
		eventually(t, "each of them talks to the API server during the term", func() bool {
			tried := 0
			for i := range tries {
				if tries[i].Load() >= before[i]+2 {
					tried++
				}
			}
			return tried == candidates
		})
		for _, b := range begun {
			b.end <- nil
		}
	}
	if most := count.most.Load(); most != 1 {
		t.Errorf("%d led at a time", most)
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
	e, err := leadership.New(roomy(), "nswatch", "a", s.client("a"), func(context.Context, <-chan struct{}) error { panic("bug") }, zerolog.Nop(), prometheus.NewRegistry())
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
	e, err := leadership.New(roomy(), "nswatch", "a", s.client("a"), func(context.Context, <-chan struct{}) error { return nil }, zerolog.Nop(), prometheus.NewRegistry())
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
