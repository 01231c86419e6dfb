package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	// again is the pause before a namespace is probed anew about which nothing could be found out.
	again = time.Minute
	// barred is the longest pause before one is probed anew where nothing may be started, since it is proven not to be fenced.
	barred = 10 * time.Minute
)

// Patrol probes the daemon's namespaces when it starts, and every Interval from then on, one after the other. Safe for concurrent use.
// Make it with NewPatrol.
type Patrol struct {
	prober   func(ctx context.Context, namespace string) Result
	settings Settings
	spaces   []string
	metrics  *metrics
	log      zerolog.Logger

	mu sync.Mutex
	// known has an entry for each of the namespaces.
	known map[string]*knowledge
}

// knowledge is what is known of one namespace.
type knowledge struct {
	// last is the newest answer, proven the newest that is not unknown. Zero times are those of probes that never were.
	last, proven finding
	// due is when it is probed next; rested says that it is not.
	due    time.Time
	rested bool
}

type finding struct {
	decision verdict.Decision
	at       time.Time
}

// NewPatrol makes a Patrol of the namespaces of the settings; there must be one. It starts nothing.
func NewPatrol(stock *driverconf.Kubernetes, settings Settings, prober *Prober, log zerolog.Logger, reg prometheus.Registerer) (*Patrol, error) {
	if stock == nil || prober == nil {
		return nil, errors.New("probe: settings or prober are missing")
	}
	spaces := settings.spaces(stock)
	if len(spaces) == 0 {
		return nil, errors.New("probe: there is no namespace to probe")
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	p := &Patrol{prober: prober.Probe, settings: settings, spaces: spaces, metrics: m, log: log, known: map[string]*knowledge{}}
	for _, namespace := range spaces {
		m.expect(namespace)
		p.known[namespace] = &knowledge{last: finding{decision: verdict.Refuse(verdict.ProbeNotRun, StepRound, "no probe has ended yet")}}
	}
	return p, nil
}

// Run probes until ctx ends.
func (p *Patrol) Run(ctx context.Context) error {
	for {
		namespace, due := p.next()
		if !wait(ctx, due) {
			return nil
		}
		result := p.prober(ctx, namespace)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the stop was asked for, and what it interrupts says nothing
		}
		p.took(&result)
	}
}

// next is the namespace that is due first; none when no one will be.
func (p *Patrol) next() (namespace string, due *time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.spaces {
		if k := p.known[name]; !k.rested && (due == nil || k.due.Before(*due)) {
			namespace, due = name, new(k.due)
		}
	}
	return namespace, due
}

// wait is false when ctx ends; without a time nothing else ends it.
func wait(ctx context.Context, until *time.Time) bool {
	var passed <-chan time.Time
	if until != nil {
		timer := time.NewTimer(time.Until(*until))
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// note keeps the answer of a probe that has just ended, and when the next one is due. What could not be found out is asked again soon,
// and holds up no other namespace. Replicas that start together drift apart.
func (k *knowledge) note(r *Result, s *Settings, now time.Time) {
	k.last = finding{r.Decision, r.Began}
	pause := s.Interval.Std()
	switch outcome := r.Decision.Outcome(); {
	case outcome == verdict.Unknown:
		pause = again
	case outcome == verdict.Denied && s.Startup == Require && (pause == 0 || pause > barred):
		k.proven, pause = k.last, barred
	default:
		k.proven = k.last
	}
	k.rested = pause == 0
	if !k.rested {
		k.due = now.Add(pause + time.Duration(rand.Int64N(int64(pause/10)))) //nolint:gosec // no secret, a spread
	}
}

// holds is the finding that counts. What is proven stays until something else is; but a proof that the fence is enforced gives way to a
// newer doubt when it is older than two intervals.
func (k *knowledge) holds(interval time.Duration, now time.Time) finding {
	switch proven := k.proven; {
	case proven.decision.Outcome() == verdict.Denied:
		return proven
	case proven.decision.Outcome() == verdict.Granted && (k.last.at.Equal(proven.at) || now.Sub(proven.at) <= 2*interval):
		return proven
	}
	return k.last
}

// took keeps and tells the result of one probe.
func (p *Patrol) took(r *Result) {
	outcome := r.Decision.Outcome()
	p.mu.Lock()
	p.known[r.Namespace].note(r, &p.settings, time.Now())
	p.mu.Unlock()
	p.metrics.took(r)
	line := p.log.Info()
	if outcome != verdict.Granted {
		line = p.log.Warn()
	}
	line.Str("namespace", r.Namespace).Str("fence", r.Enforced()).Str("reason", string(r.Decision.Reason)).Str("step", r.Decision.Step).
		Str("explanation", r.Decision.Explanation).Str("node", r.Node).Strs("policies_made", r.Made).Strs("left_over", r.LeftOver).Dur("took", r.Took)
	if in, known := r.SetIn(); known {
		line.Dur("set_in", in)
	}
	line.Msg("probed the fence")
}

// Verdict is what is known about the fence of a namespace: granted when a probe proved it to be enforced, denied when it proved that it
// is not, unknown else; and when that probe began, zero when none has ended. What is proven stays until something else is, but a proof
// that is older than two intervals gives way to a newer doubt. False for a namespace that is not probed.
func (p *Patrol) Verdict(namespace string) (d verdict.Decision, at time.Time, probed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, probed := p.known[namespace]
	if !probed {
		return verdict.Refuse(verdict.ProbeNotRun, StepRound, fmt.Sprintf("namespace %s is not among fence_probe_namespaces, so nobody probes its fence", namespace)), time.Time{}, false
	}
	f := k.holds(p.settings.Interval.Std(), time.Now())
	return f.decision, f.at, true
}

// Admit is granted when a run may be raised in a namespace: always, unless fence_probe is "require". Then it is what Verdict says.
func (p *Patrol) Admit(namespace string) verdict.Decision {
	if p.settings.Startup != Require {
		return verdict.Grant(verdict.Evidence{})
	}
	d, at, _ := p.Verdict(namespace)
	if d.Granted() {
		return d
	}
	when := ""
	if !at.IsZero() {
		when = " (the probe of " + at.UTC().Format(time.RFC3339) + ")"
	}
	d.Explanation = fmt.Sprintf("fence_probe is %q, and it is not proven that namespace %s is fenced%s: %s", Require, namespace, when, d.Explanation)
	return d
}
