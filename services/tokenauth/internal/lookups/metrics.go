package lookups

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Values of the label outcome.
const (
	outcomeFound  = "found"
	outcomeAbsent = "absent"
	outcomeFailed = "failed"
)

// codes are the statuses that have a label of their own; the others are counted by their class.
var codes = []int{200, 201, 400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504}

// Values of the label code beside those: another status of a class, one that is no status, and none at all.
var classes = []string{"1xx", "2xx", "3xx", "4xx", "5xx", "other", "none"}

type metrics struct {
	seconds *prometheus.HistogramVec
	reviews *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("lookups: no metrics registerer was given")
	}
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: "tokenauth",
			Name:    "lookup_seconds",
			Help:    "Time of one read from the API server, with the waits for rate limits, by subject and outcome.",
			Buckets: []float64{.001, .002, .003, .005, .0075, .01, .02, .03, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"subject", "outcome"}),
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "tokenauth",
			Name: "tokenreviews_total",
			Help: "TokenReviews by the HTTP status of their answer; none when there was no answer.",
		}, []string{"code"}),
	}
	for _, subject := range []string{subjectReview, subjectNamespace, subjectPod, subjectSandbox} {
		for _, outcome := range []string{outcomeFound, outcomeAbsent, outcomeFailed} {
			m.seconds.WithLabelValues(subject, outcome)
		}
	}
	for _, code := range codes {
		m.reviews.WithLabelValues(strconv.Itoa(code))
	}
	for _, class := range classes {
		m.reviews.WithLabelValues(class)
	}
	for _, c := range []prometheus.Collector{m.seconds, m.reviews} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("lookups: register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) read(subject string, err error, took time.Duration) {
	outcome := outcomeFound
	switch {
	case errors.Is(err, ErrAbsent):
		outcome = outcomeAbsent
	case err != nil:
		outcome = outcomeFailed
	}
	m.seconds.WithLabelValues(subject, outcome).Observe(took.Seconds())
}

func (m *metrics) reviewed(code int) { m.reviews.WithLabelValues(label(code)).Inc() }

func label(code int) string {
	switch {
	case slices.Contains(codes, code):
		return strconv.Itoa(code)
	case code == 0:
		return "none"
	case code < 100 || code > 599:
		return "other"
	default:
		return classes[code/100-1]
	}
}
