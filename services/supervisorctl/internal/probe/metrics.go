package probe

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const subsystem = "supervisorctl"

// metrics are what the newest proof says of each namespace. What is not known has no value.
type metrics struct {
	enforced, at *prometheus.GaugeVec
	probes       *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("probe: no metrics registerer was given")
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help}, []string{"namespace"})
	}
	m := &metrics{
		enforced: gauge("fence_enforced", "1 when the newest probe with an answer proved that the fence of the namespace is enforced, 0 when it proved that it is not; absent before there is an answer."),
		at:       gauge("fence_probe_timestamp_seconds", "When that probe began, in seconds since 1970; absent before there is an answer."),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "fence_probes_total",
			Help: "Probes of the fence by outcome: granted (enforced), denied (not enforced) or unknown.",
		}, []string{"namespace", "outcome"}),
	}
	for _, c := range []prometheus.Collector{m.enforced, m.at, m.probes} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("probe: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) expect(namespace string) {
	for _, o := range []verdict.Outcome{verdict.Granted, verdict.Denied, verdict.Unknown} {
		m.probes.WithLabelValues(namespace, o.String())
	}
}

func (m *metrics) took(r *Result) {
	outcome := r.Decision.Outcome()
	m.probes.WithLabelValues(r.Namespace, outcome.String()).Inc()
	if outcome == verdict.Unknown {
		return
	}
	value := 0.0
	if outcome == verdict.Granted {
		value = 1
	}
	m.enforced.WithLabelValues(r.Namespace).Set(value)
	m.at.WithLabelValues(r.Namespace).Set(float64(r.Began.UnixMilli()) / 1000)
}
