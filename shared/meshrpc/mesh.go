package meshrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Deps is what the mesh needs from the daemon around it.
type Deps struct {
	// Daemon is the name of this daemon, such as "lifecycle": one path segment of a
	// SPIFFE id. Its certificate must carry it.
	Daemon string
	// Log gets refusals (at most ten in ten seconds) and changes of the certificate.
	Log zerolog.Logger
	// Registerer gets the metrics portcullis_mesh_*; required.
	Registerer prometheus.Registerer
	// TracerProvider makes the spans of calls; nil records none but passes the trace
	// context on.
	TracerProvider trace.TracerProvider
	// Now is the clock by which our own certificate is judged; nil is the system's.
	// Handshakes use the system's.
	Now func() time.Time
}

// Mesh is one daemon's membership: its certificate, and what its server and clients
// share.
type Mesh struct {
	cfg     Config
	deps    Deps
	log     zerolog.Logger
	metrics *metrics
	certs   *certificates // nil: plaintext on loopback
	resolve resolve
}

// New checks cfg and loads the certificate files. It starts nothing. The error is one
// line that names the setting or file and the cause; keys are never quoted.
func New(cfg Config, deps Deps) (*Mesh, error) {
	m, err := newMesh(cfg, deps)
	if err != nil {
		return nil, fmt.Errorf("join the mesh: %w", err)
	}
	return m, nil
}

func newMesh(cfg Config, deps Deps) (*Mesh, error) {
	var problems []string
	cfg.Validate(func(key, problem string) { problems = append(problems, key+" "+problem) })
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	if err := checkDaemonName(deps.Daemon); err != nil {
		return nil, err
	}
	if deps.Registerer == nil {
		return nil, errors.New("no registerer for the metrics")
	}
	if deps.TracerProvider == nil {
		deps.TracerProvider = noop.NewTracerProvider()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	metrics, err := newMetrics(deps.Registerer, !cfg.AllowPlaintextLoopback)
	if err != nil {
		return nil, err
	}
	m := &Mesh{
		cfg: cfg, deps: deps, metrics: metrics, resolve: systemResolve,
		// Anyone who reaches the port can cause refusals; the counter has them all.
		log: deps.Log.Sample(&zerolog.BurstSampler{Burst: 10, Period: 10 * time.Second}),
	}
	if !cfg.AllowPlaintextLoopback {
		if m.certs, err = newCertificates(cfg, deps.Daemon, deps.Now, deps.Log, metrics); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Run keeps the certificate current until ctx ends. Without it the set that New loaded
// stays in use.
func (m *Mesh) Run(ctx context.Context) error {
	if m.certs == nil {
		<-ctx.Done()
		return nil
	}
	return m.certs.run(ctx)
}

// Ready is a readiness check: nil while peers can accept the certificate in use. Files
// that have become unusable do not fail it as long as the last good certificate is
// valid, since the daemon still does its work; they show in
// portcullis_mesh_certificate_files_good, in the log and in FilesFault.
func (m *Mesh) Ready(context.Context) error {
	if m.certs == nil {
		return nil
	}
	return m.certs.ready()
}

// FilesFault is why the certificate files were unusable when Run last looked at them,
// or nil.
func (m *Mesh) FilesFault() error {
	if m.certs == nil {
		return nil
	}
	return m.certs.fault()
}
