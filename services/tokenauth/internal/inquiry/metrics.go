package inquiry

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Values of the label use.
const (
	useUsed   = "used"
	useUnused = "unused"
)

var (
	subjects = []authenticate.Subject{
		authenticate.SubjectReview, authenticate.SubjectList, authenticate.SubjectNamespace,
		authenticate.SubjectPod, authenticate.SubjectSandbox, authenticate.SubjectListAgain,
	}
	aheadSubjects = []authenticate.Subject{authenticate.SubjectNamespace, authenticate.SubjectPod, authenticate.SubjectSandbox}
)

type metrics struct {
	steps *prometheus.HistogramVec
	ahead *prometheus.CounterVec
	// skipped is beside ahead.
	skipped prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("inquiry: no metrics registerer was given")
	}
	m := &metrics{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: "tokenauth",
			Name:    "step_seconds",
			Help:    "Time that a decision waited for the answer to one question; near zero for what was read ahead.",
			Buckets: []float64{.00001, .0001, .001, .002, .003, .005, .0075, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"subject"}),
		ahead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "tokenauth",
			Name: "reads_ahead_total",
			Help: "Reads begun on the word of unverified claims, by whether the decision asked for what they read.",
		}, []string{"subject", "use"}),
	}
	m.skipped = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: telemetry.Namespace, Subsystem: "tokenauth",
		Name: "reads_ahead_skipped_total",
		Help: "Decisions that read one thing after the other because as many as may read ahead already did.",
	})
	for _, s := range subjects {
		m.steps.WithLabelValues(s.String())
	}
	for _, s := range aheadSubjects {
		m.ahead.WithLabelValues(s.String(), useUsed)
		m.ahead.WithLabelValues(s.String(), useUnused)
	}
	for _, c := range []prometheus.Collector{m.steps, m.ahead, m.skipped} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("inquiry: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) answered(s authenticate.Subject, took time.Duration) {
	m.steps.WithLabelValues(s.String()).Observe(took.Seconds())
}

func (m *metrics) readAhead(s authenticate.Subject, used bool) {
	use := useUnused
	if used {
		use = useUsed
	}
	m.ahead.WithLabelValues(s.String(), use).Inc()
}
