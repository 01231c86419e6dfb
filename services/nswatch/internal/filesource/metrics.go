package filesource

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// trouble is why notifications were lost or do not work, as the label of its metric.
type trouble string

// The troubles.
const (
	troubleCreate   trouble = "create"
	troubleWatch    trouble = "watch"
	troubleOverflow trouble = "overflow"
	troubleBroken   trouble = "broken"
)

var troubles = [...]trouble{troubleCreate, troubleWatch, troubleOverflow, troubleBroken}

type metrics struct {
	reads    *prometheus.CounterVec
	last     prometheus.Gauge
	working  prometheus.Gauge
	troubles *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("file source: no metrics registerer was given")
	}
	m := &metrics{
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name: "file_reads_total",
			Help: "Full reads of the file of namespaces, by result.",
		}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name: "file_last_success_timestamp_seconds",
			Help: "Wall clock at the beginning of the last read of the file that gave a list; 0 before the first.",
		}),
		working: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name: "file_notifications_working",
			Help: "Whether changes of the file are notified (1) or only found by polling (0).",
		}),
		troubles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "nswatch",
			Name: "file_notification_failures_total",
			Help: "Failures of the notifications of file changes, by kind.",
		}, []string{"kind"}),
	}
	for _, r := range results {
		m.reads.WithLabelValues(string(r))
	}
	for _, t := range troubles {
		m.troubles.WithLabelValues(string(t))
	}
	for _, c := range []prometheus.Collector{m.reads, m.last, m.working, m.troubles} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("file source: register metrics: %w", err)
		}
	}
	return m, nil
}
