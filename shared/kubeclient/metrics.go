package kubeclient

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Values of the label client.
const (
	labelCalls   = "calls"
	labelWatches = "watches"
)

type metrics struct {
	waited   *prometheus.HistogramVec
	requests *prometheus.CounterVec
	reloads  *prometheus.CounterVec
}

// newMetrics registers the portcullis_kube_client_* metrics.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, errors.New("no metrics registerer was given")
	}
	m := &metrics{
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: "kube_client",
			Name:    "throttle_wait_seconds",
			Help:    "Time that requests to the Kubernetes API waited for the client's own rate limit.",
			Buckets: prometheus.DefBuckets,
		}, []string{"client"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "kube_client",
			Name: "requests_total",
			Help: "Requests to the Kubernetes API by method and status code, or error when there was no answer.",
		}, []string{"client", "method", "code"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: "kube_client",
			Name: "credential_reloads_total",
			Help: "Changed or unusable token and certificate files found when looking at them again.",
		}, []string{"client", "result"}),
	}
	for _, client := range []string{labelCalls, labelWatches} {
		m.waited.WithLabelValues(client)
		m.reloads.WithLabelValues(client, resultChanged)
		m.reloads.WithLabelValues(client, resultFailed)
	}
	for _, c := range []prometheus.Collector{m.waited, m.requests, m.reloads} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Values of the label result.
const (
	resultChanged = "changed"
	resultFailed  = "failed"
)

// counted counts the answers of a transport.
type counted struct {
	next     http.RoundTripper
	client   string
	requests *prometheus.CounterVec
}

// RoundTrip fulfils http.RoundTripper.
func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	c.requests.WithLabelValues(c.client, req.Method, code).Inc()
	return resp, err
}

// CloseIdleConnections passes on.
func (c *counted) CloseIdleConnections() { closeIdle(c.next) }
