package meshrpc

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Keys of log lines that only this package writes.
const (
	keyCaller   = "caller"
	keySerial   = "certificate_serial"
	keyNotAfter = "certificate_not_after"
)

// metrics are portcullis_mesh_*. Every label value is from a closed set: methods that
// are registered, codes, causes, and daemons that a policy or the wiring names.
type metrics struct {
	handled   *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	refused   *prometheus.CounterVec
	called    *prometheus.CounterVec
	retries   *prometheus.CounterVec
	expiry    prometheus.Gauge
	filesGood prometheus.Gauge
	looks     *prometheus.CounterVec
}

const subsystem = "mesh"

func newMetrics(reg prometheus.Registerer, tls bool) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help,
		}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help,
		})
	}
	m := &metrics{
		handled: counter("server_handled_total", "Calls that this daemon's mesh server has ended, by method, gRPC code and caller.", "method", "code", "caller"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "server_handling_seconds",
			Help:    "Time from the first byte of a call to its end.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"method"}),
		refused:   counter("refused_total", "Connections and calls refused because of who is at the other end, by our end and cause.", "end", "cause"),
		called:    counter("client_calls_total", "Unary calls that this daemon made, retries counted as one, by method, gRPC code and server.", "method", "code", "server"),
		retries:   counter("client_retries_total", "Further attempts of idempotent calls.", "method", "server"),
		expiry:    gauge("certificate_expiry_timestamp_seconds", "When the certificate in use ends, in seconds since 1970."),
		filesGood: gauge("certificate_files_good", "1 when the certificate files were usable at the last look, else 0."),
		looks:     counter("certificate_files_checks_total", "Looks at the certificate files, by what they found: good or bad.", "result"),
	}
	all := []prometheus.Collector{m.handled, m.duration, m.refused, m.called, m.retries}
	if tls {
		all = append(all, m.expiry, m.filesGood, m.looks)
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the mesh: %w", err)
		}
	}
	return m, nil
}

// The values of the label "end".
const (
	endServer = "server"
	endClient = "client"
)

func (m *metrics) refuse(end string, cause Cause) {
	m.refused.WithLabelValues(end, string(cause)).Inc()
}

// serverStats counts what grpc itself ends too: an oversized request or an unknown
// method never reaches an interceptor.
type serverStats struct {
	metrics *metrics
	methods map[string]bool // full names; filled before the server serves
	callers map[string]bool
}

var _ stats.Handler = (*serverStats)(nil)

type methodKey struct{}

// TagRPC keeps the method's name for the end of the call.
func (*serverStats) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, info.FullMethodName)
}

// HandleRPC counts the end of a call.
func (s *serverStats) HandleRPC(ctx context.Context, event stats.RPCStats) {
	end, ok := event.(*stats.End)
	if !ok {
		return
	}
	method, _ := ctx.Value(methodKey{}).(string)
	if !s.methods[method] {
		method = "unknown"
	}
	caller := CallerFromContext(ctx).String()
	if !s.callers[caller] {
		caller = "other"
	}
	s.metrics.handled.WithLabelValues(method, status.Code(end.Error).String(), caller).Inc()
	s.metrics.duration.WithLabelValues(method).Observe(seconds(end.EndTime.Sub(end.BeginTime)))
}

// TagConn changes nothing.
func (*serverStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (*serverStats) HandleConn(context.Context, stats.ConnStats) {}

func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }
