package natsconn

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

type metrics struct {
	connected   prometheus.Gauge
	connections prometheus.Counter
	reconnects  prometheus.Counter
	errors      *prometheus.CounterVec
}

// newMetrics registers the portcullis_nats_* metrics. Two connections in one process need registerers that label
// them apart (prometheus.WrapRegistererWith).
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("nats: no metrics registerer was given")
	}
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: Section,
			Name: "connected",
			Help: "Whether there is a connection to NATS now (1) or not (0).",
		}),
		connections: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: Section,
			Name: "connect_attempts_total",
			Help: "Attempts to connect to a NATS server.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: Section,
			Name: "reconnects_total",
			Help: "Connections to NATS established after the first one.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: Section,
			Name: "errors_total",
			Help: "Errors of the NATS connection by kind.",
		}, []string{"kind"}),
	}
	for _, k := range kinds {
		m.errors.WithLabelValues(string(k))
	}
	for _, c := range []prometheus.Collector{m.connected, m.connections, m.reconnects, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("nats: register metrics: %w", err)
		}
	}
	return m, nil
}
