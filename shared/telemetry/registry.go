package telemetry

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Namespace begins the name of every metric of ours: portcullis_<what>_<unit>, with
// _total for counters, base units (seconds, bytes), and no label whose values a
// caller can invent.
const Namespace = "portcullis"

// NewRegistry returns a registry of its own (never the default one) with the Go
// runtime and process collectors and portcullis_build_info, a gauge that is always 1
// with the labels daemon, version, commit and go_version.
func NewRegistry(daemon string, build Build) (*prometheus.Registry, error) {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: Namespace,
		Name:      "build_info",
		Help:      "Always 1; the labels say what program runs.",
	}, []string{"daemon", "version", "commit", "go_version"})
	gauge, err := info.GetMetricWithLabelValues(daemon, build.Version, build.Commit, build.GoVersion)
	if err != nil {
		return nil, fmt.Errorf("build info of %q as metric labels: %w", daemon, err)
	}
	gauge.Set(1)

	registry := prometheus.NewRegistry()
	err = errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		registry.Register(info),
	)
	if err != nil {
		return nil, fmt.Errorf("register the metrics that every daemon has: %w", err)
	}
	return registry, nil
}
