package labelsource

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

type metrics struct {
	lists    *prometheus.CounterVec
	duration prometheus.Histogram
	starts   prometheus.Counter
	ends     *prometheus.CounterVec
	events   *prometheus.CounterVec
	ignored  *prometheus.CounterVec
	selected prometheus.Gauge
	last     prometheus.Gauge
	period   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("label source: no metrics registerer was given")
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: "nswatch", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Subsystem: "nswatch", Name: name, Help: help})
	}
	m := &metrics{
		lists: counter("label_lists_total", "Lists of the selected namespaces, by result: changed, unchanged, or why there was none.", "result"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name:    "label_list_duration_seconds",
			Help:    "Time from the request for a list of namespaces to its last byte, or to its failure.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		starts: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name: "label_watch_starts_total",
			Help: "Watches of the selected namespaces that were asked for.",
		}),
		ends:     counter("label_watch_ends_total", "Ends of watches, by reason; behind is one that lists had overtaken.", "reason"),
		events:   counter("label_events_total", "Events of watches, by type.", "type"),
		ignored:  counter("label_ignored_events_total", "Events of watches that changed nothing because they were no news, by reason.", "reason"),
		selected: gauge("label_namespaces", "Namespaces that the selector selects, with those that are never published."),
		last:     gauge("label_last_success_timestamp_seconds", "Wall clock at the request for the last list that was used; 0 before the first."),
		period:   gauge("label_relist_period_seconds", "Time between two lists now; above label_relist when lists cost much."),
	}
	m.preset()
	for _, c := range []prometheus.Collector{m.lists, m.duration, m.starts, m.ends, m.events, m.ignored, m.selected, m.last, m.period} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("label source: register metrics: %w", err)
		}
	}
	return m, nil
}

// preset shows every series from the start.
func (m *metrics) preset() {
	for _, k := range listKinds {
		m.lists.WithLabelValues(string(k))
	}
	for _, k := range watchKinds {
		m.ends.WithLabelValues(string(k))
	}
	for _, o := range []outcome{outcomeChanged, outcomeUnchanged} {
		m.lists.WithLabelValues(string(o))
	}
	for _, o := range []outcome{outcomeNotNewer, outcomeAbandoned} {
		m.ignored.WithLabelValues(string(o))
	}
	for _, f := range []form{upsert, removal, bookmark} {
		m.events.WithLabelValues(f.String())
	}
}

func (m *metrics) listed(result string, took time.Duration) {
	m.lists.WithLabelValues(result).Inc()
	m.duration.Observe(took.Seconds())
}

func (m *metrics) happened(f form, o outcome) {
	m.events.WithLabelValues(f.String()).Inc()
	if o == outcomeNotNewer || o == outcomeAbandoned {
		m.ignored.WithLabelValues(string(o)).Inc()
	}
}
