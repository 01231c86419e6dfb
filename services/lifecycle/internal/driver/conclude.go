package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Log keys of this package.
const (
	keyCall      = "call"
	keySandboxID = "sandbox_id"
	keyNamespace = "namespace"
	keyName      = "name"
	keyUID       = "uid"
	keyReason    = "reason"
)

type metrics struct {
	refusals  *prometheus.CounterVec
	steps     *prometheus.HistogramVec
	abandoned *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const of = "lifecycle"
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: of, Name: "refusals_total",
			Help: "Calls of the gateway that were refused, by method, reason and whether the answer was no (denied) or could not be found out (unknown).",
		}, []string{"method", "reason", "outcome"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: of, Name: "step_seconds",
			Help:    "Time of the steps of a create, start, stop and delete.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"method", "step"}),
		abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: of, Name: "abandoned_total",
			Help: "Sandboxes of creates that were never answered, by what became of them: deleted, or failed (to be tried again).",
		}, []string{"result"}),
	}
	for _, c := range []prometheus.Collector{m.refusals, m.steps, m.abandoned} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("driver: %w", err)
		}
	}
	return m, nil
}

// step times one step of a call.
func (d *Driver) step(in call, name string) func() {
	began := d.now()
	return func() { d.metrics.steps.WithLabelValues(string(in), name).Observe(d.now().Sub(began).Seconds()) }
}

// conclude makes an answer of an error: the log and the metrics get all of it, the gateway its code and its safe text.
func (d *Driver) conclude(ctx context.Context, in call, sandboxID string, err error) error {
	if err == nil {
		return nil
	}
	decision := notEnded(ctx, in, decisionOf(err, "driver"))
	code := codeOf(in, decision)
	if ctx.Err() != nil && decision.Reason == verdict.CallEnded && errors.Is(context.Cause(ctx), context.Canceled) {
		code = codes.Canceled // nobody is there to hear it
	}
	daemon.AccountedAs(ctx, code) // by the line below
	d.metrics.refusals.WithLabelValues(string(in), reasonLabel(decision), decision.Outcome().String()).Inc()
	line := d.log.Warn()
	switch {
	case code == codes.Internal:
		line = d.log.Error()
	case decision.Outcome() == verdict.Denied:
		line = d.log.Info()
	}
	line.Str(keyCall, string(in)).Str(keySandboxID, bounded(sandboxID)).Str(keyReason, string(decision.Reason)).
		Str(telemetry.KeyGRPCCode, code.String()).Str(telemetry.KeyError, excerpt.Of(decision.Explain(), longestText)).Msg("refused")
	return answer(decision, code)
}

// answer is the refusal with a code. A code of another class is not taken by the verdict; codeOf has none.
func answer(decision verdict.Decision, code codes.Code) error {
	if code == codes.Canceled {
		return status.Error(code, decision.Message())
	}
	return decision.WithCode(code).SafeErr()
}

// reasonLabel is the reason if we know it: another daemon may be newer, and its reasons are not ours to make series of.
func reasonLabel(d verdict.Decision) string {
	if _, known := d.Reason.Spec(); known {
		return string(d.Reason)
	}
	return "other"
}

// longestID is how much of an id is logged, and longestText how much of an explanation, in bytes.
const (
	longestID   = 64
	longestText = 2048
)

func bounded(id string) string {
	if len(id) > longestID {
		return id[:longestID]
	}
	return id
}

// limit bounds a call of which the gateway sets no end (contract 2.12).
func limit(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, by)
}
