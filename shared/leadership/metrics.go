package leadership

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Label values of the metrics, closed sets.
const (
	opGet    = "get"
	opCreate = "create"
	opUpdate = "update"

	endStopped = "stopped"
	endLost    = "lost"
	endItself  = "itself"
)

type metrics struct {
	leading prometheus.Gauge
	terms   prometheus.Counter
	ends    *prometheus.CounterVec
	errors  *prometheus.CounterVec
}

// newMetrics registers portcullis_<daemon>_leading and the portcullis_<daemon>_lease_* metrics.
func newMetrics(daemon string, reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("leadership: no metrics registerer was given")
	}
	m := &metrics{
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: daemon,
			Name: "leading",
			Help: "Whether this process has a term now (1) or not (0).",
		}),
		terms: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: daemon,
			Name: "lease_terms_total",
			Help: "Terms that this process has begun.",
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: daemon,
			Name: "lease_term_ends_total",
			Help: "Terms that have ended, by how: stopped (asked to), lost (the Lease), itself.",
		}, []string{"end"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: daemon,
			Name: "lease_errors_total",
			Help: "Requests for the Lease that failed, other than because another process was first, by operation.",
		}, []string{"operation"}),
	}
	for _, op := range []string{opGet, opCreate, opUpdate} {
		m.errors.WithLabelValues(op)
	}
	for _, end := range []string{endStopped, endLost, endItself} {
		m.ends.WithLabelValues(end)
	}
	for _, c := range []prometheus.Collector{m.leading, m.terms, m.ends, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("leadership: register metrics: %w", err)
		}
	}
	return m, nil
}
