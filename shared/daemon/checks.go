package daemon

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Probing says how checks are run. Both values must be positive.
type Probing struct {
	// Timeout is how long one call of a check may take. The probe of an orchestrator
	// must allow two and a half times as much.
	Timeout time.Duration
	// Interval is the pause between the rounds of Checks.Run, and so the delay with
	// which metrics, log and gRPC health follow a change.
	Interval time.Duration
}

// DefaultProbing allows a check 2 seconds, and polls every 2: a check is to be
// cheap, and a load balancer learns of a change within about one kubelet period.
func DefaultProbing() Probing {
	return Probing{Timeout: 2 * time.Second, Interval: 2 * time.Second}
}

// Checks holds the named liveness and readiness checks of a daemon.
//
// It answers questions by running the checks, and keeps no answers. Its Run polls
// them for those who cannot ask: metrics, the log, gRPC health.
type Checks struct {
	probing Probing
	log     zerolog.Logger
	up      *prometheus.GaugeVec
	ready   prometheus.Gauge

	draining chan struct{} // closed by Drain

	mu        sync.Mutex
	liveness  []*check
	readiness []*check
	cause     error        // of the drain
	isReady   bool         // as last told to listeners
	listeners []func(bool) // called with mu held
	followers []func(Report)
}

// NewChecks returns a set without checks, which is not ready. It registers
// portcullis_check_up{check} and portcullis_ready; both are 0 until Run has seen
// otherwise, and after it has ended.
func NewChecks(probing Probing, log zerolog.Logger, registerer prometheus.Registerer) (*Checks, error) {
	if probing.Timeout <= 0 || probing.Interval <= 0 {
		return nil, fmt.Errorf("make checks: timeout %s and interval %s must be positive", probing.Timeout, probing.Interval)
	}
	c := &Checks{
		probing: probing,
		log:     log,
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace,
			Name:      "check_up",
			Help:      "1 when the check passed in the last round, else 0.",
		}, []string{"check"}),
		ready: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace,
			Name:      "ready",
			Help:      "1 when every readiness check passed in the last round and no stop is in progress, else 0.",
		}),
		draining: make(chan struct{}),
	}
	if err := errors.Join(registerer.Register(c.up), registerer.Register(c.ready)); err != nil {
		return nil, fmt.Errorf("register the metrics of checks: %w", err)
	}
	return c, nil
}

// checkName keeps names usable as path segments and label values.
var checkName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// AddLiveness adds a check whose failure means that only a restart can help. Most
// daemons need none: the answer of the listener itself proves that the process
// lives, and a failing dependency is a matter of readiness.
//
// Names consist of a-z, 0-9 and dashes, at most 63, and are unique among all checks.
func (c *Checks) AddLiveness(name string, call Check) error {
	return c.add(&c.liveness, name, call)
}

// AddReadiness adds a check whose failure means that the daemon must get no work
// now. For names see AddLiveness.
func (c *Checks) AddReadiness(name string, call Check) error {
	return c.add(&c.readiness, name, call)
}

func (c *Checks) add(to *[]*check, name string, call Check) error {
	if !checkName.MatchString(name) {
		return fmt.Errorf("add check %q: a name consists of a-z, 0-9 and inner dashes, at most 63", name)
	}
	if call == nil {
		return fmt.Errorf("add check %q: it has no function", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range [][]*check{c.liveness, c.readiness} {
		for _, other := range list {
			if other.name == name {
				return fmt.Errorf("add check %q: there is one of that name", name)
			}
		}
	}
	*to = append(*to, &check{name: name, call: call, timeout: c.probing.Timeout, log: c.log})
	c.up.WithLabelValues(name).Set(0)
	return nil
}

// Drain begins the stop: from now on the answer to readiness is no, with cause as
// the reason, and never changes back. Listeners are told before Drain returns.
// Liveness is not affected. Only the first call counts.
func (c *Checks) Drain(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	if cause == nil {
		cause = errors.New("no cause was given")
	}
	c.cause = cause
	close(c.draining)
	c.tell(false)
}

// Draining is closed when Drain is called. Long calls, such as watch streams, end
// themselves then.
func (c *Checks) Draining() <-chan struct{} { return c.draining }

// onReady calls f with the state of readiness now and whenever it changes, in order
// and one at a time. f must not block and must not call c.
func (c *Checks) onReady(f func(ready bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, f)
	f(c.isReady)
}

// OnRound calls f after each round of Run with the answer to readiness, one call at a time. A round that the stop
// cuts short is none. f must not block. It is for wiring, before Run.
func (c *Checks) OnRound(f func(ready Report)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followers = append(c.followers, f)
}

// tell records a change of readiness; the lock is held. It keeps "no" once drained.
func (c *Checks) tell(ready bool) {
	ready = ready && c.cause == nil
	value := 0.0
	if ready {
		value = 1
	}
	c.ready.Set(value)
	if ready == c.isReady {
		return
	}
	c.isReady = ready
	for _, f := range c.listeners {
		f(ready)
	}
}

// sayAgain is how long a check that fails for another reason than was logged waits until
// the log says so: some reasons are never twice the same.
const sayAgain = 10 * time.Second

// said is what the log has of a check.
type said struct {
	passed bool
	reason string
	at     time.Time
}

// news reports whether a failure is to be logged: it is the first, or for another reason.
func (s said) news(seen bool, reason string, now time.Time) bool {
	return !seen || s.passed || s.reason != reason && now.Sub(s.at) >= sayAgain
}

// Run polls all checks until ctx ends, and then waits for the calls in progress. It
// updates the metrics, tells gRPC health, and logs every check that begins to fail
// or to pass, or fails for another reason.
func (c *Checks) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.probing.Interval)
	defer ticker.Stop()
	defer c.finish()
	known := map[string]said{} // by check
	for {
		c.round(ctx, known)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// round runs all checks once.
func (c *Checks) round(ctx context.Context, known map[string]said) {
	live, ready := c.Live(ctx), c.Ready(ctx)
	if ctx.Err() != nil {
		return // the answers say only that we stop
	}
	for _, result := range append(live.Results, ready.Results...) {
		value := 0.0
		if result.Err == nil {
			value = 1
		}
		c.up.WithLabelValues(result.Name).Set(value)
		last, seen := known[result.Name]
		switch now := time.Now(); {
		case result.Err != nil && last.news(seen, result.Err.Error(), now):
			known[result.Name] = said{reason: result.Err.Error(), at: now}
			c.log.Warn().Str(telemetry.KeyCheck, result.Name).Err(result.Err).Msg("check fails")
		case result.Err == nil && !last.passed:
			known[result.Name] = said{passed: true}
			c.log.Info().Str(telemetry.KeyCheck, result.Name).Msg("check passes")
		}
	}
	c.mu.Lock()
	c.tell(ready.OK())
	followers := c.followers
	c.mu.Unlock()
	for _, f := range followers {
		f(ready)
	}
}

// finish leaves "no" behind, since nobody looks any more.
func (c *Checks) finish() {
	c.mu.Lock()
	c.tell(false)
	all := append(append([]*check{}, c.liveness...), c.readiness...)
	c.mu.Unlock()
	for _, one := range all {
		one.wait()
		c.up.WithLabelValues(one.name).Set(0)
	}
}
