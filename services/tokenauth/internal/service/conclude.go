package service

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Keys of the lines about refusals; those of the audit trail's own line are the same.
const (
	keyReason      = "reason"
	keyStep        = "step"
	keyExplanation = "explanation"
	keyTokenHash   = "token_hash"
	keyRequestID   = "request_id"
	keyCaller      = "caller"
)

// conclude tells the metrics, the audit trail and, for a refusal, the log. The trail writes a line for every decision; what
// it has no room for, the explanation, is in a line of ours.
func (s *Service) conclude(result authenticate.Result, event audit.Event) {
	d := result.Decision
	s.metrics.decided(d, event.Duration.Seconds())
	s.recorder.Record(event)
	if d.Granted() {
		return
	}
	line := s.log.Info().Str(keyReason, reasonLabel(d)).Str(keyStep, d.Step).Str(keyExplanation, d.Explain()).Str(keyCaller, event.Caller)
	if !event.Token.IsZero() {
		line.Str(keyTokenHash, event.Token.Hash())
	}
	if id := audit.RequestID(event.RequestID); id != "" {
		line.Str(keyRequestID, id)
	}
	line.Msg("bearer refused")
}

// noReason is the label of a grant.
const noReason = "none"

// reasonLabel is a registered reason, or the one that stands for all others.
func reasonLabel(d verdict.Decision) string {
	if d.Granted() {
		return noReason
	}
	if spec, ok := d.Reason.Spec(); ok {
		return string(spec.Reason)
	}
	return string(verdict.Unexplained)
}

type metrics struct {
	decisions *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	shared    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, inProgress func() float64) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("service: no metrics registerer was given")
	}
	const subsystem = "tokenauth"
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "decisions_total",
			Help: "Decisions about bearers by outcome and reason; the reason of a grant is none.",
		}, []string{"outcome", "reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "decision_seconds",
			Help:    "Time from the call to its decision, by outcome.",
			Buckets: []float64{.001, .002, .003, .005, .0075, .01, .02, .03, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"outcome"}),
		shared: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "calls_shared_total",
			Help: "Calls that shared a decision with an earlier call for the same credential.",
		}),
	}
	m.decisions.WithLabelValues(verdict.Granted.String(), noReason)
	for _, spec := range verdict.Reasons() {
		m.decisions.WithLabelValues(spec.Outcome.String(), string(spec.Reason))
	}
	for _, outcome := range []verdict.Outcome{verdict.Granted, verdict.Denied, verdict.Unknown} {
		m.seconds.WithLabelValues(outcome.String())
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "calls_in_progress",
		Help: "Authenticate calls that are being worked on.",
	}, inProgress)
	for _, c := range []prometheus.Collector{m.decisions, m.seconds, m.shared, gauge} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("service: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) decided(d verdict.Decision, seconds float64) {
	m.decisions.WithLabelValues(d.Outcome().String(), reasonLabel(d)).Inc()
	m.seconds.WithLabelValues(d.Outcome().String()).Observe(seconds)
}
