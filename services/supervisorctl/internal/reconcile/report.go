package reconcile

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const subsystem = "supervisorctl"

// Keys of log lines.
const (
	keyNamespace   = "namespace"
	keySandbox     = "sandbox"
	keySandboxID   = "sandbox_id"
	keyReason      = "reason"
	keyFormer      = "former_reason"
	keyExplanation = "explanation"
	keyResource    = "resource"
	keyPolicy      = "policy"
	keyMore        = "more"
)

// tellEvery is how often it is said of a watch that it still does not work.
const tellEvery = time.Minute

// reporter tells people: one log line per change of a sandbox's state, not per look.
type reporter struct {
	log     zerolog.Logger
	looks   *prometheus.CounterVec
	stops   *prometheus.CounterVec
	watches *prometheus.CounterVec
	// desk is that of the present term; nil between terms.
	desk atomic.Pointer[desk]

	mu sync.Mutex
	// told is when it was last said of a watch that it does not work; the zero time when it works.
	told [kinds]time.Time
}

var (
	descSandboxes = prometheus.NewDesc(prometheus.BuildFQName(telemetry.Namespace, subsystem, "reconcile_sandboxes"),
		"Sandboxes of this gateway that the reconcile loop keeps; none where it does not lead.", nil, nil)
	descRefused = prometheus.NewDesc(prometheus.BuildFQName(telemetry.Namespace, subsystem, "reconcile_refused_sandboxes"),
		"Sandboxes whose last look by the reconcile loop ended in a refusal, by reason.", []string{"reason"}, nil)
	descReopened = prometheus.NewDesc(prometheus.BuildFQName(telemetry.Namespace, subsystem, "reconcile_reopened_sandboxes"),
		"Sandboxes whose fence a policy of somebody else opens again, as of the last look at each.", nil, nil)
	descReopening = prometheus.NewDesc(prometheus.BuildFQName(telemetry.Namespace, subsystem, "reconcile_reopening_policies"),
		"Policies of others that open the fence of a sandbox again, as of the last look at each.", nil, nil)
	descWatching = prometheus.NewDesc(prometheus.BuildFQName(telemetry.Namespace, subsystem, "reconcile_watch_works"),
		"Whether a watch of the reconcile loop was listed and works (1) or not (0), by resource.", []string{"resource"}, nil)
)

func newReporter(log zerolog.Logger, reg prometheus.Registerer) (*reporter, error) {
	if reg == nil {
		return nil, errors.New("reconcile: no metrics registerer was given")
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help}, []string{label})
	}
	r := &reporter{
		log:     log,
		looks:   counter("reconcile_looks_total", "Looks of the reconcile loop by how they ended: settled, waiting, refused, failed or busy.", "ending"),
		stops:   counter("reconcile_stops_total", "Runs that the reconcile loop began to stop, by reason.", "reason"),
		watches: counter("reconcile_watch_errors_total", "Lists and watches of the reconcile loop that failed, by resource.", "resource"),
	}
	for e := settled; e <= busy; e++ {
		r.looks.WithLabelValues(e.String())
	}
	for k := range kinds {
		r.watches.WithLabelValues(k.String())
	}
	for _, c := range []prometheus.Collector{r.looks, r.stops, r.watches, r} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("reconcile: register metrics: %w", err)
		}
	}
	return r, nil
}

// Describe fulfils prometheus.Collector.
func (r *reporter) Describe(out chan<- *prometheus.Desc) {
	out <- descSandboxes
	out <- descRefused
	out <- descReopened
	out <- descReopening
	out <- descWatching
}

// Collect fulfils prometheus.Collector.
func (r *reporter) Collect(out chan<- prometheus.Metric) {
	var s census
	if d := r.desk.Load(); d != nil {
		d.mu.Lock()
		s = d.ledger.census()
		d.mu.Unlock()
	}
	out <- prometheus.MustNewConstMetric(descSandboxes, prometheus.GaugeValue, float64(s.sandboxes))
	out <- prometheus.MustNewConstMetric(descReopened, prometheus.GaugeValue, float64(s.reopened))
	out <- prometheus.MustNewConstMetric(descReopening, prometheus.GaugeValue, float64(s.reopening))
	for reason, n := range s.refused {
		out <- prometheus.MustNewConstMetric(descRefused, prometheus.GaugeValue, float64(n), string(reason))
	}
	for k := range kinds {
		works := 0.0
		if s.works[k] {
			works = 1
		}
		out <- prometheus.MustNewConstMetric(descWatching, prometheus.GaugeValue, works, k.String())
	}
}

// census is what the ledger has now.
type census struct {
	sandboxes int
	refused   map[verdict.Reason]int
	// reopened are sandboxes, reopening policies.
	reopened, reopening int
	works               [kinds]bool
}

func (l *ledger) census() census {
	s := census{refused: map[verdict.Reason]int{}, reopening: len(l.opened)}
	for _, space := range l.spaces {
		for _, e := range space {
			if !e.ours {
				continue
			}
			if e.box != nil {
				s.sandboxes++
			}
			if e.reason != "" {
				s.refused[e.reason]++
			}
			if len(e.openers) > 0 {
				s.reopened++
			}
		}
	}
	for k := range kinds {
		s.works[k] = l.listed[k] && !l.broken[k]
	}
	return s
}

// panicked reports a look that did.
func (r *reporter) panicked(t *task, p *conduct.Panic) {
	r.log.Error().Str(keyNamespace, t.ref.Namespace).Str(keySandbox, t.ref.Name).Str(keySandboxID, t.ref.SandboxID).
		Str(telemetry.KeyPanic, p.Kind).Bytes(telemetry.KeyStack, p.Stack).Msg("a look panicked")
}

// looked reports the end of a look.
func (r *reporter) looked(t *task, f *finding, c change) {
	r.looks.WithLabelValues(f.ending.String()).Inc()
	line := func(e *zerolog.Event) *zerolog.Event {
		return e.Str(keyNamespace, t.ref.Namespace).Str(keySandbox, t.ref.Name).Str(keySandboxID, t.ref.SandboxID)
	}
	if f.stopped != "" {
		r.stops.WithLabelValues(string(f.stopped)).Inc()
		line(r.log.Warn()).Str(keyReason, string(f.stopped)).Str(keyExplanation, f.explanation).Msg("a run is being stopped")
	}
	switch {
	case c.from == c.to:
	case c.to == "":
		line(r.log.Info()).Str(keyFormer, string(c.from)).Msg("what was refused before is in order")
	default:
		line(r.log.Warn()).Str(keyReason, string(c.to)).Str(keyExplanation, f.explanation).Msg("a sandbox cannot be kept as it should be")
	}
}

// mostLines is how many policies are named of one change.
const mostLines = 16

// reopened reports, once per change, the policies of a namespace that open a fence. Nothing is done about them: they are somebody's.
func (r *reporter) reopened(n *news) {
	for i, o := range n.opened {
		line := r.log.Warn().Str(keyNamespace, n.namespace).Str(keyReason, string(verdict.FenceReopened))
		if i == mostLines {
			line.Int(keyMore, len(n.opened)-i).Msg("more policies of somebody else open the fence of sandboxes")
			break
		}
		line.Str(keyPolicy, o.Policy).Str(keyExplanation, o.Opens).Msg("a policy of somebody else opens the fence of sandboxes; it is only reported")
	}
	for i, policy := range n.closed {
		line := r.log.Info().Str(keyNamespace, n.namespace).Str(keyFormer, string(verdict.FenceReopened))
		if i == mostLines {
			line.Int(keyMore, len(n.closed)-i).Msg("more policies do not open the fence of any sandbox any more")
			break
		}
		line.Str(keyPolicy, policy).Msg("a policy does not open the fence of any sandbox any more")
	}
}

// watched reports the outcome of a list or watch.
func (r *reporter) watched(k kind, err error) {
	if err != nil {
		r.watches.WithLabelValues(k.String()).Inc()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, former := time.Now(), r.told[k]
	switch {
	case err == nil && former.IsZero(), err != nil && !former.IsZero() && now.Sub(former) < tellEvery:
	case err != nil:
		r.told[k] = now
		r.log.Warn().Err(err).Str(keyResource, k.String()).
			Msg("a watch does not work; settled sandboxes are looked at more often meanwhile. See the permissions to list and watch, and the API server")
	default:
		r.told[k] = time.Time{}
		r.log.Info().Str(keyResource, k.String()).Msg("the watch works again")
	}
}
