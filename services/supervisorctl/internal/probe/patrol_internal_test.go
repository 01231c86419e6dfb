package probe

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// beat is a Patrol whose probes answer what the test wants.
type beat struct {
	*Patrol
	mu      sync.Mutex
	answers map[string]verdict.Decision
	probed  []string
	log     bytes.Buffer
	reg     *prometheus.Registry
	stop    func() error
}

var (
	yes    = verdict.Grant(verdict.Evidence{})
	no     = verdict.Refuse(verdict.FenceEgressOpen, StepEgress, "it reached kubernetes")
	unsure = verdict.Refuse(verdict.ProbePodFailed, StepRan, "it is lost")
)

// walk starts a Patrol of namespaces a and b in a bubble.
func walk(t *testing.T, change func(*Settings), answers map[string]verdict.Decision) *beat {
	t.Helper()
	k, s := stock(), settings()
	k.WorkspaceMode, s.Startup, s.Namespaces = driverconf.ModeOperator, Require, []string{"a", "b"}
	change(&s)
	cluster := newStand()
	prober, err := New(k, s, cluster, cluster.list)
	if err != nil {
		t.Fatal(err)
	}
	b := &beat{answers: answers, reg: prometheus.NewRegistry()}
	if b.Patrol, err = NewPatrol(k, s, prober, zerolog.New(&b.log), b.reg); err != nil {
		t.Fatal(err)
	}
	b.prober = func(ctx context.Context, namespace string) Result {
		began := time.Now()
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return Result{Namespace: namespace}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.probed = append(b.probed, namespace)
		return Result{Namespace: namespace, Decision: b.answers[namespace], Began: began, Took: time.Since(began)}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	b.stop = func() error { cancel(); return <-ended }
	return b
}

// say changes the answers.
func (b *beat) say(answers map[string]verdict.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = answers
}

// after lets time pass and everything come to rest.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// values are the metrics, each by its name and labels.
func (b *beat) values(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

// demand is what a start in a namespace is told; an empty text is a grant.
func (b *beat) demand(t *testing.T, namespace string, outcome verdict.Outcome, want string) {
	t.Helper()
	if d := b.Admit(namespace); d.Outcome() != outcome || !strings.Contains(d.Explain(), want) {
		t.Errorf("in namespace %s: %s, want %s %q", namespace, d.Explain(), outcome, want)
	}
}

func TestPatrolTellsWhatIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := walk(t, func(s *Settings) { s.Interval = driverconf.Duration(time.Hour) }, map[string]verdict.Decision{"a": yes, "b": no})
		after(5 * time.Second)
		b.demand(t, "a", verdict.Unknown, "probe_not_run at probe.ended: fence_probe is \"require\", and it is not proven that namespace a is fenced: no probe has ended yet")
		if v := b.values(t); len(v) != 6 || v["portcullis_supervisorctl_fence_probes_total a granted"] != 0 {
			t.Errorf("something is known before: %v", v)
		}
		after(20 * time.Second)
		b.demand(t, "a", verdict.Granted, "")
		b.demand(t, "b", verdict.Denied, "fence_egress_open at workload.egress: fence_probe is \"require\", and it is not proven that namespace b is fenced (the probe of 2000-01-01T00:00:10Z): it reached kubernetes")
		b.demand(t, "c", verdict.Unknown, "probe_not_run")
		if d, at, probed := b.Verdict("b"); d.Reason != verdict.FenceEgressOpen || !at.Equal(began.Add(10*time.Second)) || !probed {
			t.Errorf("%s at %s, %t", d.Explain(), at, probed)
		}
		if d, at, probed := b.Verdict("c"); d.Outcome() != verdict.Unknown || !at.IsZero() || probed {
			t.Errorf("%s at %s, %t", d.Explain(), at, probed)
		}
		v := b.values(t)
		if v["portcullis_supervisorctl_fence_enforced a"] != 1 || v["portcullis_supervisorctl_fence_enforced b"] != 0 || len(v) != 10 ||
			v["portcullis_supervisorctl_fence_probe_timestamp_seconds b"] != float64(began.Unix()+10) || v["portcullis_supervisorctl_fence_probes_total b denied"] != 1 {
			t.Errorf("%v", slices.Sorted(maps.Keys(v)))
		}
		// A doubt changes nothing of what is proven, and is looked into soon.
		b.say(map[string]verdict.Decision{"a": unsure, "b": unsure})
		after(70 * time.Minute)
		b.demand(t, "a", verdict.Granted, "")
		b.demand(t, "b", verdict.Denied, "it reached kubernetes")
		if v := b.values(t); v["portcullis_supervisorctl_fence_enforced a"] != 1 || v["portcullis_supervisorctl_fence_probes_total a unknown"] < 2 {
			t.Errorf("%v", v)
		}
		// A grant does not outlast doubts for ever, a denial does.
		after(time.Hour)
		b.demand(t, "a", verdict.Unknown, "probe_pod_failed")
		b.demand(t, "b", verdict.Denied, "it reached kubernetes")
		b.say(map[string]verdict.Decision{"a": yes, "b": yes})
		after(2 * time.Hour)
		b.demand(t, "a", verdict.Granted, "")
		b.demand(t, "b", verdict.Granted, "")
		if v := b.values(t); v["portcullis_supervisorctl_fence_enforced b"] != 1 {
			t.Errorf("%v", v)
		}
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		for _, want := range []string{`"level":"warn","namespace":"b","fence":"not enforced","reason":"fence_egress_open"`, `"level":"info","namespace":"a","fence":"enforced"`} {
			if !strings.Contains(b.log.String(), want) {
				t.Errorf("%s is not in\n%s", want, b.log.String())
			}
		}
	})
}

// TestPatrolAsksOnce without an interval, but for what it could not find out.
func TestPatrolAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := walk(t, func(*Settings) {}, map[string]verdict.Decision{"a": unsure, "b": yes})
		after(time.Minute)
		b.demand(t, "a", verdict.Unknown, "probe_pod_failed") // in doubt nothing is started there, and elsewhere it is
		b.demand(t, "b", verdict.Granted, "")
		after(5 * time.Minute)
		b.say(map[string]verdict.Decision{"a": yes, "b": yes})
		after(24 * time.Hour)
		_ = b.stop()
		asked := strings.Join(b.probed, "")
		if n := strings.Count(asked, "b"); n != 1 || strings.Count(asked, "a") < 4 || strings.Count(asked, "a") > 8 {
			t.Errorf("probed %s", asked)
		}
	})
}

// TestANoIsAskedAgain where it keeps runs from being started, and nowhere else.
func TestANoIsAskedAgain(t *testing.T) {
	for when, want := range map[When]verdict.Outcome{Require: verdict.Granted, Report: verdict.Denied} {
		synctest.Test(t, func(t *testing.T) {
			b := walk(t, func(s *Settings) { s.Startup = when }, map[string]verdict.Decision{"a": no, "b": yes})
			after(9 * time.Minute)
			b.say(map[string]verdict.Decision{"a": yes, "b": yes})
			after(3 * time.Minute)
			if d, _, _ := b.Verdict("a"); d.Outcome() != want {
				t.Errorf("%s: %s", when, d.Explain())
			}
			after(24 * time.Hour)
			_ = b.stop()
			if asked := strings.Join(b.probed, ""); asked != map[When]string{Require: "aba", Report: "ab"}[when] {
				t.Errorf("%s: probed %s", when, asked)
			}
		})
	}
}

// TestADoubtHoldsUpNobody: while nothing is found out about a, for as long as each probe may take, b is probed when it is due.
func TestADoubtHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := walk(t, func(s *Settings) { s.Interval = driverconf.Duration(10 * time.Minute) }, map[string]verdict.Decision{"a": unsure, "b": yes})
		after(2 * time.Hour)
		b.say(map[string]verdict.Decision{"a": unsure, "b": no})
		after(12 * time.Minute)
		b.demand(t, "b", verdict.Denied, "it reached kubernetes")
		_ = b.stop()
		asked := strings.Join(b.probed, "")
		if n, m := strings.Count(asked, "a"), strings.Count(asked, "b"); n < 90 || n > 120 || m < 10 || m > 14 {
			t.Errorf("probed %d and %d times: %s", n, m, asked)
		}
	})
}

// TestReportRefusesNobody, and what a stop interrupts is no result.
func TestReportRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := walk(t, func(s *Settings) { s.Startup = Report }, map[string]verdict.Decision{"a": no, "b": no})
		b.demand(t, "a", verdict.Granted, "")
		after(15 * time.Second) // in the middle of the second
		b.demand(t, "a", verdict.Granted, "")
		b.demand(t, "c", verdict.Granted, "")
		if d, _, _ := b.Verdict("a"); d.Outcome() != verdict.Denied {
			t.Errorf("%s", d.Explain())
		}
		if err := b.stop(); err != nil || len(b.probed) != 1 {
			t.Errorf("%v, %v", err, b.probed)
		}
		if v := b.values(t); v["portcullis_supervisorctl_fence_probes_total b unknown"] != 0 || v["portcullis_supervisorctl_fence_probes_total a denied"] != 1 {
			t.Errorf("%v", v)
		}
	})
}

func TestNewPatrolRefuses(t *testing.T) {
	k, s := stock(), settings()
	k.WorkspaceMode, s.Startup = driverconf.ModeOperator, Report
	cluster := newStand()
	prober := cluster.prober(t)
	if _, err := NewPatrol(k, s, prober, zerolog.Nop(), prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "no namespace") {
		t.Error(err)
	}
	if _, err := NewPatrol(stock(), s, nil, zerolog.Nop(), prometheus.NewRegistry()); err == nil {
		t.Error("made without a prober")
	}
	if _, err := NewPatrol(stock(), s, prober, zerolog.Nop(), nil); err == nil {
		t.Error("made without metrics")
	}
}
