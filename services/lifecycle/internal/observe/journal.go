package observe

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

const subsystem = "lifecycle"

// Keys of log lines.
const (
	keyResource  = "resource"
	keySandboxID = "sandbox_id"
	keyTask      = "task"
)

// tellEvery is how often it is said of a watch that it still does not work.
const tellEvery = time.Minute

// journal tells people: log lines and metrics.
type journal struct {
	log      zerolog.Logger
	observer *Observer
	failures *prometheus.CounterVec
	lists    *prometheus.CounterVec

	mu sync.Mutex
	// told is when it was last said of a resource that it cannot be followed; the zero time when it can.
	told [kinds]time.Time
}

func metricName(name string) string {
	return prometheus.BuildFQName(telemetry.Namespace, subsystem, "watch_"+name)
}

var (
	descObjects = prometheus.NewDesc(metricName("objects"), "Objects in the view of the cluster, by resource; of events those that are remembered.", []string{"resource"}, nil)
	descCurrent = prometheus.NewDesc(metricName("current"), "Whether the view of a resource is the cluster's present state (1) or not (0).", []string{"resource"}, nil)
	descPassed  = prometheus.NewDesc(metricName("passed_over_objects"), "Objects that are passed over now since they are foreign, misplaced or malformed, by resource and reason.", []string{"resource", "reason"}, nil)
	descPassedT = prometheus.NewDesc(metricName("passed_over_total"), "Objects that came to be passed over, by resource.", []string{"resource"}, nil)
	descStale   = prometheus.NewDesc(metricName("stale_changes_total"), "Changes that were dropped since they were older than what was known, by resource.", []string{"resource"}, nil)
	descDouble  = prometheus.NewDesc(metricName("ambiguous_sandboxes"), "Sandbox ids that more than one Sandbox object has.", nil, nil)
	descUnknown = prometheus.NewDesc(metricName("unmapped_events_total"), "Events that were dropped since they are about no sandbox that is known; most are of other workloads.", nil, nil)
	descSent    = prometheus.NewDesc(metricName("messages_total"), "Messages taken by callers of the watch, by kind.", []string{"kind"}, nil)
	descCallers = prometheus.NewDesc(metricName("callers"), "Open streams of the watch.", nil, nil)
	descResets  = prometheus.NewDesc(metricName("resets_total"), "Streams of the watch that were reset since the caller was behind.", nil, nil)
)

func newJournal(log zerolog.Logger, o *Observer, reg prometheus.Registerer) (*journal, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricName(name), Help: help}, labels)
	}
	j := &journal{
		log: log, observer: o,
		failures: counter("errors_total", "Lists and watches that failed, by resource and task.", "resource", "task"),
		lists:    counter("lists_total", "Lists that were taken in, by resource.", "resource"),
	}
	for k := range kinds {
		j.lists.WithLabelValues(k.String())
		j.failures.WithLabelValues(k.String(), "list")
		j.failures.WithLabelValues(k.String(), "watch")
	}
	for _, c := range []prometheus.Collector{j.failures, j.lists, j} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("observe: register metrics: %w", err)
		}
	}
	return j, nil
}

// Describe fulfils prometheus.Collector.
func (j *journal) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descObjects, descCurrent, descPassed, descPassedT, descStale, descDouble, descUnknown, descSent, descCallers, descResets} {
		out <- d
	}
}

// Collect fulfils prometheus.Collector.
func (j *journal) Collect(out chan<- prometheus.Metric) {
	o := j.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.present()
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	total := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	unowned := c.unowned()
	held := [kinds]int{boxes: len(c.boxes), pods: len(c.pods) - unowned, events: c.seen.Len()}
	for k := range kinds {
		gauge(descObjects, held[k], k.String())
		current := 0
		if c.current(k) {
			current = 1
		}
		gauge(descCurrent, current, k.String())
		total(descPassedT, c.counts.passed[k], k.String())
		total(descStale, c.counts.stale[k], k.String())
		reasons := map[string]int{}
		for _, reason := range c.skipped[k] {
			reasons[reason]++
		}
		if k == pods && unowned > 0 {
			reasons[reasonForeign] += unowned
		}
		for reason, n := range reasons {
			gauge(descPassed, n, k.String(), reason)
		}
	}
	gauge(descDouble, c.ambiguous())
	total(descUnknown, c.counts.unmapped)
	total(descSent, c.counts.snapshots, "sandbox")
	total(descSent, c.counts.deletions, "deleted")
	total(descSent, c.counts.platform, "platform_event")
	gauge(descCallers, len(c.callers))
	total(descResets, c.counts.resets)
}

// reasonForeign is that an object is another gateway's.
const reasonForeign = "foreign"

func reasonOf(problem error) string {
	switch {
	case errors.Is(problem, snapshot.ErrForeign):
		return reasonForeign
	case errors.Is(problem, snapshot.ErrMisplaced):
		return "misplaced"
	}
	return "malformed"
}

// noted says what is wrong with an object.
func (j *journal) noted(n note) {
	line := j.log.Warn().Err(n.problem)
	if n.id != "" {
		line = line.Str(keySandboxID, n.id)
	}
	line.Msg("a Sandbox object is not told to the gateway")
}

// watched says how a list or a watch ended. What ends a watch in the normal course of things is no news.
func (j *journal) watched(k kind, task string, err error) {
	if err == nil || errors.Is(err, ErrRelist) {
		if task == "list" && err == nil {
			j.lists.WithLabelValues(k.String()).Inc()
			j.works(k)
		}
		return
	}
	j.failures.WithLabelValues(k.String(), task).Inc()
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := time.Now(); j.told[k].IsZero() || now.Sub(j.told[k]) >= tellEvery {
		j.told[k] = now
		j.log.Warn().Err(err).Str(keyResource, k.String()).Str(keyTask, task).
			Msg("the cluster cannot be followed; what is known stays, and counts as stale after a while. See the permissions to list and watch, and the API server")
	}
}

func (j *journal) works(k kind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.told[k].IsZero() {
		j.told[k] = time.Time{}
		j.log.Info().Str(keyResource, k.String()).Msg("the cluster can be followed again")
	}
}
