package podevent

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// writeLimit bounds one attempt to write an Event.
const writeLimit = 10 * time.Second

// What became of an attempt, as the label of its metric.
const (
	resultWritten = "written"
	resultFailed  = "failed"
)

// writer writes Events.
type writer interface {
	write(ctx context.Context, n notice, now time.Time) error
}

// Announcer tells what it observes. Make it with New. Observe is safe for concurrent use.
type Announcer struct {
	to      writer
	log     zerolog.Logger
	events  *prometheus.CounterVec
	changed chan struct{} // holds one: there is something new to look at

	mu     sync.Mutex
	ledger ledger
}

func newAnnouncer(to writer, log zerolog.Logger) *Announcer {
	a := &Announcer{
		to: to, log: log, changed: make(chan struct{}, 1), ledger: newLedger(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Name: "pod_events_total",
			Help: "Attempts to write an Event on the daemon's own Pod, by result: written or failed.",
		}, []string{"result"}),
	}
	for _, result := range []string{resultWritten, resultFailed} {
		a.events.WithLabelValues(result)
	}
	return a
}

// Register adds portcullis_pod_events_total{result}. Several registries of one process may have it, one after another.
func (a *Announcer) Register(reg prometheus.Registerer) error {
	if err := reg.Register(a.events); err != nil {
		return fmt.Errorf("register the metrics of Events: %w", err)
	}
	return nil
}

// Resume has it say that all is well once that is so, as if it had told of trouble: a former announcer of the same process may have.
func (a *Announcer) Resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.open = true
}

// Observe notes the answer of all readiness checks and returns at once. That of a daemon that stops is no news.
func (a *Announcer) Observe(ready daemon.Report) {
	if ready.Problem != nil {
		return
	}
	a.mu.Lock()
	a.ledger.observe(ready.Results, time.Now())
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default: // it is known that there is something
	}
}

// Run tells until ctx ends. It returns soon then: an attempt in progress is given up.
func (a *Announcer) Run(ctx context.Context) {
	said := ""
	for ctx.Err() == nil {
		a.mu.Lock()
		n, when, none := a.ledger.next(time.Now())
		a.mu.Unlock()
		wait := time.Until(when)
		if none || wait > 0 {
			a.await(ctx, none, wait)
			continue
		}
		err := a.attempt(ctx, n)
		if err != nil && ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		a.ledger.tried(n, err == nil, time.Now())
		a.mu.Unlock()
		said = a.report(n, err, said)
	}
}

// await waits for something new, or until what is known is due.
func (a *Announcer) await(ctx context.Context, none bool, wait time.Duration) {
	var due <-chan time.Time
	if !none {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-a.changed:
	case <-due:
	}
}

// attempt writes one Event. A panic of a library is a failure like others: nothing rests on Events.
func (a *Announcer) attempt(ctx context.Context, n notice) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the attempt panicked: %v", value)
			a.log.Error().Err(err).Bytes(telemetry.KeyStack, debug.Stack()).Msg("writing an Event panicked")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	return a.to.write(ctx, n, time.Now())
}

// report counts what became of an attempt, and says why one failed unless that was said last.
func (a *Announcer) report(n notice, err error, said string) string {
	if err == nil {
		a.events.WithLabelValues(resultWritten).Inc()
		return ""
	}
	a.events.WithLabelValues(resultFailed).Inc()
	if text := err.Error(); text != said {
		said = text
		a.log.Warn().Err(err).Str("reason", n.reason).Msg("why this Pod is not ready could not be told by an Event")
	}
	return said
}
