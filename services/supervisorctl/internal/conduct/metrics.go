package conduct

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

const subsystem = "supervisorctl"

// Values of the label result.
const (
	resultDone    = "done"
	resultMoved   = "moved"
	resultFailed  = "failed"
	resultRefused = "refused"
)

// Values of the label result of Events.
const (
	eventSent    = "sent"
	eventFailed  = "failed"
	eventDropped = "dropped"
)

type metrics struct {
	steps *prometheus.HistogramVec
	goals *prometheus.CounterVec
	// events are those on Sandboxes.
	events *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("conduct: no metrics registerer was given")
	}
	m := &metrics{
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "step_seconds",
			Help:    "Time that one step took, by action and result: done, moved (it rests on what is no longer so), refused or failed.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"action", "result"}),
		goals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "goals_total",
			Help: "Goals by result: done or refused.",
		}, []string{"goal", "result"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "events_total",
			Help: "Kubernetes Events on Sandboxes by result: sent, failed, or dropped because there were too many or the daemon ended.",
		}, []string{"result"}),
	}
	for _, result := range [...]string{eventSent, eventFailed, eventDropped} {
		m.events.WithLabelValues(result)
	}
	for _, goal := range []plan.Goal{plan.Provision, plan.Restart, plan.Release, plan.Remove, plan.Keep} {
		m.goals.WithLabelValues(goal.String(), resultDone)
		m.goals.WithLabelValues(goal.String(), resultRefused)
	}
	for _, c := range []prometheus.Collector{m.steps, m.goals, m.events} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("conduct: register metrics: %w", err)
		}
	}
	return m, nil
}

// stepped notes a step, and returns its result.
func (m *metrics) stepped(action plan.Action, refused plan.Step, err error, took time.Duration) string {
	result := resultDone
	switch {
	case refused.Reason != "" || errors.Is(err, cluster.ErrRefused):
		result = resultRefused
	case err != nil && moved(err):
		result = resultMoved
	case err != nil:
		result = resultFailed
	}
	m.steps.WithLabelValues(action.String(), result).Observe(took.Seconds())
	return result
}

func (m *metrics) ended(goal plan.Goal, last plan.Step) {
	result := resultRefused
	if last.Action == plan.Done {
		result = resultDone
	}
	m.goals.WithLabelValues(goal.String(), result).Inc()
}
