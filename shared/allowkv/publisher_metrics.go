package allowkv

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// writerSubsystem is in the names of a Publisher's metrics.
const writerSubsystem = "allowlist_writer"

// writeLabel is what became of a write, as a metric label.
type writeLabel string

// The labels. Refused and unsent are known not to be stored, doubtful may be.
const (
	writeLabelStored   writeLabel = "stored"
	writeLabelConflict writeLabel = "conflict"
	writeLabelTooLarge writeLabel = "too_large"
	writeLabelRefused  writeLabel = "refused"
	writeLabelUnsent   writeLabel = "unsent"
	writeLabelDoubtful writeLabel = "doubtful"
)

// The values of other labels.
const (
	labelSnapshot  = "snapshot"
	labelHeartbeat = "heartbeat"
	labelOK        = "ok"
	labelFailed    = "failed"
)

var (
	writeLabels = [...]writeLabel{
		writeLabelStored, writeLabelConflict, writeLabelTooLarge, writeLabelRefused, writeLabelUnsent, writeLabelDoubtful,
	}
	// writerFindings are the kinds that a Writer finds; FoundRejected has a cause besides.
	writerFindings = [...]allowlist.FindingKind{
		allowlist.FoundGone, allowlist.FoundStall, allowlist.FoundSleep, allowlist.FoundClockStep, allowlist.FoundClockBack,
		allowlist.FoundForeign, allowlist.FoundOldList, allowlist.FoundTooLarge, allowlist.FoundUnproven, allowlist.FoundDoubt,
		allowlist.FoundKeyGone,
	}
	rejectionCauses = [...]allowlist.Cause{
		allowlist.Oversize, allowlist.Malformed, allowlist.UnknownKey, allowlist.BadSignature, allowlist.ForeignGateway,
	}
	endCauses = [...]allowlist.EndCause{
		allowlist.EndStopped, allowlist.EndLeaseLost, allowlist.EndSuperseded, allowlist.EndSplit, allowlist.EndClock, allowlist.EndDefect,
		allowlist.EndIdle, allowlist.EndKeyGone,
	}
)

type publisherMetrics struct {
	findings *prometheus.CounterVec
	writes   *prometheus.CounterVec
	looks    *prometheus.CounterVec
	terms    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	keysUsable prometheus.Gauge
}

// newPublisherMetrics registers the portcullis_allowlist_writer_* metrics; the gauges ask status when they are read.
func newPublisherMetrics(reg prometheus.Registerer, status func() allowlist.WriterStatus) (*publisherMetrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: writerSubsystem, Name: name, Help: help,
		}, labels)
	}
	m := &publisherMetrics{
		findings: counter("findings_total", "What the writer found, by kind; the cause is of records that do not count.", "kind", "cause"),
		writes:   counter("writes_total", "Records sent to the bucket, by key and by what became of them.", "key", "result"),
		looks:    counter("looks_total", "Leader-reads of the bucket, by result.", "result"),
		terms:    counter("terms_total", "Terms that are over, by cause.", "cause"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: writerSubsystem, Name: "write_seconds",
			Help:    "Time from sending a record to its acknowledgement, for those that were stored, by key.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2},
		}, []string{"key"}),
		keysUsable: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: writerSubsystem, Name: "keys_usable",
			Help: "Whether the file with the public keys could be read the last time (1) or the ones read before are used (0).",
		}),
	}
	m.fill()
	collectors := append([]prometheus.Collector{m.findings, m.writes, m.looks, m.terms, m.seconds, m.keysUsable}, writerGauges(status)...)
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("allowlist publisher: register metrics: %w", err)
		}
	}
	return m, nil
}

// fill makes every series exist from the start, so that the first count is seen as an increase.
func (m *publisherMetrics) fill() {
	for _, k := range writerFindings {
		m.findings.WithLabelValues(k.String(), allowlist.Cause(0).String())
	}
	for _, c := range rejectionCauses {
		m.findings.WithLabelValues(allowlist.FoundRejected.String(), c.String())
	}
	for _, key := range []string{labelSnapshot, labelHeartbeat} {
		for _, l := range writeLabels {
			m.writes.WithLabelValues(key, string(l))
		}
		m.seconds.WithLabelValues(key)
	}
	for _, result := range []string{labelOK, labelFailed} {
		m.looks.WithLabelValues(result)
	}
	m.keysUsable.Set(1)
	for _, c := range endCauses {
		m.terms.WithLabelValues(c.String())
	}
}

func writerGauges(status func() allowlist.WriterStatus) []prometheus.Collector {
	gauge := func(name, help string, value func(allowlist.WriterStatus) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: writerSubsystem, Name: name, Help: help,
		}, func() float64 { return value(status()) })
	}
	yes := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	return []prometheus.Collector{
		gauge("leading", "Whether this process has taken over and publishes (1) or not (0).",
			func(s allowlist.WriterStatus) float64 { return yes(s.Leading) }),
		gauge("epoch", "Epoch of the term that is under way; 0 when there is none.",
			func(s allowlist.WriterStatus) float64 { return float64(s.Epoch) }),
		gauge("revision", "Newest revision that the bucket is known to hold; 0 when no term is under way.",
			func(s allowlist.WriterStatus) float64 { return float64(s.Revision) }),
		gauge("namespaces", "Namespaces in that revision.",
			func(s allowlist.WriterStatus) float64 { return float64(s.Namespaces) }),
		gauge("proof_age_seconds", "Age of the newest proof that heartbeats may rest on; 0 when there is none.",
			func(s allowlist.WriterStatus) float64 { return s.ProofAge.Seconds() }),
		gauge("withdrawn", "Whether the term under way has withdrawn the list (1) or not (0).",
			func(s allowlist.WriterStatus) float64 { return yes(s.Withdrawn != "") }),
	}
}

func (m *publisherMetrics) wrote(gatewayID, key string, result writeLabel, took time.Duration) {
	label := labelHeartbeat
	if key == allowlist.SnapshotKey(gatewayID) {
		label = labelSnapshot
	}
	m.writes.WithLabelValues(label, string(result)).Inc()
	if result == writeLabelStored {
		m.seconds.WithLabelValues(label).Observe(took.Seconds())
	}
}

func (m *publisherMetrics) looked(err error) {
	result := labelOK
	if err != nil {
		result = labelFailed
	}
	m.looks.WithLabelValues(result).Inc()
}
