package allowkv

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Operations on the marks file, as a metric label.
const (
	marksRead  = "read"
	marksWrite = "write"
)

// readerStates are all states, so that each has a series from the start.
var readerStates = []allowlist.State{
	allowlist.Unsynced, allowlist.Fresh, allowlist.Stale, allowlist.Withdrawn, allowlist.Invalid,
}

type readerMetrics struct {
	state       *prometheus.GaugeVec
	epoch       prometheus.Gauge
	revision    prometheus.Gauge
	namespaces  prometheus.Gauge
	age         prometheus.Gauge
	aging       prometheus.Gauge
	late        prometheus.Gauge
	marksStored prometheus.Gauge
	keysUsable  prometheus.Gauge
	findings    *prometheus.CounterVec
	consumers   prometheus.Counter
	generations *prometheus.CounterVec
	marksErrors *prometheus.CounterVec

	all []prometheus.Collector
}

func newReaderMetrics() *readerMetrics {
	var all []prometheus.Collector
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Subsystem: readerSubsystem, Name: name, Help: help})
		all = append(all, g)
		return g
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: readerSubsystem, Name: name, Help: help}
		c := prometheus.NewCounterVec(opts, labels)
		all = append(all, c)
		return c
	}
	m := &readerMetrics{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: readerSubsystem,
			Name: "state",
			Help: "Whether the allowlist is in this state now (1) or not (0). Only fresh grants.",
		}, []string{"state"}),
		epoch:       gauge("epoch", "Epoch of the newest list held, 0 when none is."),
		revision:    gauge("revision", "Revision of the newest list held, 0 when none is."),
		namespaces:  gauge("namespaces", "Namespaces in the newest list held."),
		age:         gauge("age_seconds", "Time since the issue of the newest heartbeat that proved the list; since the reader was made when there was none."),
		aging:       gauge("aging", "Whether the list is fresh and its newest proof so old that something is wrong (1), or not (0): the state tells the rest."),
		late:        gauge("late_seconds", "How much longer than the quickest of its epoch the newest heartbeat was on its way."),
		marksStored: gauge("marks_stored", "Whether the high-water marks are stored (1) or could not be (0)."),
		keysUsable:  gauge("keys_usable", "Whether the file with the public keys could be read the last time (1) or the ones read before are used (0)."),
		findings:    counters("findings_total", "What was found in the bucket and the clocks, by kind, and by cause for rejected records.", "kind", "cause"),
		generations: counters("consumers_ended_total", "Consumers, and attempts to make one, that were thrown away, by cause.", "cause"),
		marksErrors: counters("marks_errors_total", "Failures to read or write the high-water marks.", "operation"),
		consumers: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: readerSubsystem,
			Name: "consumers_total",
			Help: "Consumers made.",
		}),
	}
	all = append(all, m.state, m.consumers)
	m.all = all
	m.prepare()
	return m
}

func (m *readerMetrics) register(reg prometheus.Registerer) error {
	for _, c := range m.all {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("allowlist reader: register metrics: %w", err)
		}
	}
	return nil
}

// readerSubsystem stands before the name of every metric of a Reader.
const readerSubsystem = "allowlist_reader"

// prepare makes every series, so that a rate over the first event is not lost.
func (m *readerMetrics) prepare() {
	for kind := allowlist.FoundRollback; kind <= allowlist.FoundDrift; kind++ {
		m.findings.WithLabelValues(kind.String(), allowlist.Cause(0).String())
	}
	m.findings.WithLabelValues(allowlist.FoundKeyGone.String(), allowlist.Cause(0).String())
	for cause := allowlist.Oversize; cause <= allowlist.ForeignGateway; cause++ {
		m.findings.WithLabelValues(allowlist.FoundRejected.String(), cause.String())
	}
	for _, cause := range doubtCauses {
		m.generations.WithLabelValues(string(cause))
	}
	m.marksErrors.WithLabelValues(marksRead)
	m.marksErrors.WithLabelValues(marksWrite)
	m.showKeys(true)
}

func (m *readerMetrics) show(c allowlist.Condition, s allowlist.Status, age time.Duration, aging bool) {
	for _, state := range readerStates {
		m.state.WithLabelValues(state.String()).Set(truth(state == c.State))
	}
	m.epoch.Set(float64(s.Epoch))
	m.revision.Set(float64(s.Revision))
	m.namespaces.Set(float64(s.Namespaces))
	m.age.Set(age.Seconds())
	m.aging.Set(truth(aging))
	m.late.Set(s.Late.Seconds())
}

func (m *readerMetrics) showKeys(usable bool) { m.keysUsable.Set(truth(usable)) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
