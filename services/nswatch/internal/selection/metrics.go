package selection

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// causes are all values of the label cause.
var causes = [...]allowlist.RefusalCause{
	allowlist.InvalidName, allowlist.Reserved, allowlist.Terminating, allowlist.InvalidUID, allowlist.AmbiguousUID,
}

type metrics struct {
	total   *prometheus.CounterVec
	current *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("selection: no metrics registerer was given")
	}
	m := &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name: "refused_total",
			Help: "Namespaces of the source that were not published, counted when each appeared, by cause.",
		}, []string{"cause"}),
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name: "refused",
			Help: "Namespaces of the source that are not published now, by cause.",
		}, []string{"cause"}),
	}
	for _, c := range causes {
		m.total.WithLabelValues(c.String())
		m.current.WithLabelValues(c.String())
	}
	for _, c := range []prometheus.Collector{m.total, m.current} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("selection: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) appeared(c allowlist.RefusalCause) { m.total.WithLabelValues(c.String()).Inc() }

func (m *metrics) now(refused []allowlist.Refusal) {
	count := make(map[allowlist.RefusalCause]float64, len(causes))
	for _, r := range refused {
		count[r.Cause]++
	}
	for _, c := range causes {
		m.current.WithLabelValues(c.String()).Set(count[c])
	}
}
