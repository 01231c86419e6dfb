package audit

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// cause says why an event was not published, as a metric label and in the log.
type cause string

const (
	noTrouble cause = ""
	// causeFull: the stream works, but takes less than is recorded.
	causeFull cause = "full"
	// causeNoStream: nobody listens on the subject, so the stream does not exist or JetStream is off.
	causeNoStream cause = "no_stream"
	// causeRefused: the server or the client said no, for example because the account is full.
	causeRefused cause = "refused"
	// causeUnanswered: no acknowledgement came in time. So does a missing right to publish show.
	causeUnanswered cause = "unanswered"
	// causeDisconnected: there is no connection.
	causeDisconnected cause = "disconnected"
	// causeStopped: the daemon stopped first.
	causeStopped cause = "stopped"
)

var (
	dropCauses    = [...]cause{causeFull, causeNoStream, causeRefused, causeUnanswered, causeDisconnected, causeStopped}
	failureCauses = [...]cause{causeNoStream, causeRefused, causeUnanswered, causeDisconnected}
)

type metrics struct {
	published prometheus.Counter
	dropped   *prometheus.CounterVec
	failures  *prometheus.CounterVec
	seconds   prometheus.Histogram
}

// newMetrics registers the portcullis_audit_* metrics.
func newMetrics(reg prometheus.Registerer, queued func() float64) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("audit: no metrics registerer was given")
	}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: Section, Name: name, Help: help}
	}
	m := &metrics{
		published: prometheus.NewCounter(opts("published_total", "Events that the stream has acknowledged.")),
		dropped:   prometheus.NewCounterVec(opts("dropped_total", "Events given up, by cause; they are in the log only."), []string{"cause"}),
		failures:  prometheus.NewCounterVec(opts("failures_total", "Failed attempts to publish, by cause; the events are kept."), []string{"cause"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: Section, Name: "publish_seconds",
			Help:    "Time from the last sending of an event to its acknowledgement.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}),
	}
	for _, c := range dropCauses {
		m.dropped.WithLabelValues(string(c))
	}
	for _, c := range failureCauses {
		m.failures.WithLabelValues(string(c))
	}
	length := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: telemetry.Namespace, Subsystem: Section, Name: "queue_length",
		Help: "Events that wait to be sent, without those sent and not yet acknowledged.",
	}, queued)
	for _, c := range []prometheus.Collector{m.published, m.dropped, m.failures, m.seconds, length} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("audit: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) drop(why cause, count int) {
	m.dropped.WithLabelValues(string(why)).Add(float64(count))
}

func (m *metrics) publish(took time.Duration) {
	m.published.Inc()
	m.seconds.Observe(took.Seconds())
}
