package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Keys of the line about a call.
const (
	keyCall        = "call"
	keyNamespace   = "namespace"
	keySandbox     = "sandbox"
	keySandboxID   = "sandbox_id"
	keyOutcome     = "outcome"
	keyReason      = "reason"
	keyExplanation = "explanation"
	keyRequestID   = "request_id"
	keyDuration    = "duration_ms"
)

// callStatus is the call that changes nothing.
const callStatus = "status"

// conclude tells the metrics and the log. A line of gRPC's about what was refused would say nothing more.
func (s *Service) conclude(ctx context.Context, call, id string, ref plan.Ref, d verdict.Decision, took time.Duration) {
	s.metrics.seconds.WithLabelValues(call, d.Outcome().String()).Observe(took.Seconds())
	line := s.log.Info()
	switch {
	case d.Granted() && call == callStatus:
		line = s.log.Debug() // it changes nothing and is made often
	case !d.Granted() && d.Code() == codes.Internal:
		line = s.log.Error()
	case !d.Granted():
		line = s.log.Warn()
	}
	if !d.Granted() {
		daemon.AccountedAs(ctx, d.Code())
		line.Str(keyReason, string(d.Reason)).Str(keyExplanation, d.Explain())
	}
	if len(id) <= longestRequest && id != "" && printable(id) {
		line.Str(keyRequestID, id)
	}
	const longest = 64
	short := func(text string) string { return text[:min(len(text), longest)] }
	line.Str(keyCall, call).Str(keyNamespace, short(ref.Namespace)).Str(keySandbox, short(ref.Name)).Str(keySandboxID, short(ref.SandboxID)).
		Str(keyOutcome, d.Outcome().String()).Int64(keyDuration, took.Milliseconds()).Msg("call")
}

type metrics struct{ seconds *prometheus.HistogramVec }

func newMetrics(reg prometheus.Registerer, inProgress func() float64) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("service: no metrics registerer was given")
	}
	const subsystem = "supervisorctl"
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "call_seconds",
		Help:    "Time that one call took, with its wait for a turn, by call and outcome.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 240},
	}, []string{"call", "outcome"})}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "calls_in_progress",
		Help: "Calls that are being worked on.",
	}, inProgress)
	for _, c := range []prometheus.Collector{m.seconds, gauge} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("service: register metrics: %w", err)
		}
	}
	return m, nil
}
