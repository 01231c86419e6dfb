package command

import (
	"errors"
	"io"
	"net"
	"slices"

	"github.com/go-logr/zerologr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// keyGatewayName is, in the line that tells the start, the name of the gateway instance that the daemon
// works for.
const keyGatewayName = "gateway_name"

// Parts are what a daemon is wired from.
type Parts[S Settings] struct {
	// Config is the stock part of the settings, Settings the daemon's own.
	Config   *driverconf.Config
	Settings S
	// Log carries the daemon's name; make one child per part with telemetry.Component.
	Log zerolog.Logger
	// Registry is where parts register their metrics.
	Registry *prometheus.Registry
	// Tracing's provider and propagator go to what should trace.
	Tracing *telemetry.Tracing
	// Checks and Group take the daemon's parts. The group holds the admin listener, tracing and the
	// checks already, so they outlive what is added.
	Checks *daemon.Checks
	Group  *daemon.Group
	// LookupEnv reads the process's environment: what the orchestrator says about the Pod, no settings.
	LookupEnv func(string) (string, bool)

	name   string
	opened []io.Closer
}

// Opened notes what Wire has opened before it knows that nothing else fails: it is closed if the start fails, in the opposite order. A
// part that runs closes what is its own.
func (p *Parts[S]) Opened(c io.Closer) { p.opened = append(p.opened, c) }

// abandon closes what a start has opened that failed.
func (p *Parts[S]) abandon() (err error) {
	for _, c := range slices.Backward(p.opened) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// logger makes the daemon's log, and has the libraries write to it, which is for the whole process and so done while none is at work.
func (d Daemon[S]) logger(from driverconf.LogLevel, env Environment) (zerolog.Logger, error) {
	level, err := telemetry.ParseLevel(string(from))
	if err != nil {
		return zerolog.Nop(), err
	}
	log := telemetry.NewLogger(env.Stderr, level, d.Name)
	if env.SetGRPCLog != nil {
		env.SetGRPCLog(meshrpc.GRPCLog(telemetry.Component(log, "grpc/library")))
	}
	if env.SetKubeLog != nil {
		library := telemetry.Component(log, "kubernetes/library")
		env.SetKubeLog(zerologr.New(&library))
	}
	if env.SetOTelLog != nil {
		library := telemetry.OTelLog{Log: telemetry.Component(log, "otel/library")}
		env.SetOTelLog(library.Logger(), library)
	}
	return log, nil
}

// prepare makes what every daemon has, for one try to wire the rest. The listener is closed by whoever made it unless the group runs.
func (s *start[S]) prepare(listener net.Listener) (*Parts[S], error) {
	p := &Parts[S]{Config: s.cfg, Settings: s.own, Log: s.log, LookupEnv: s.env.LookupEnv, name: s.daemon.Name}
	build, process := telemetry.ReadBuild(), s.own.Process()
	var err error
	if p.Registry, err = telemetry.NewRegistry(p.name, build); err != nil {
		return nil, err
	}
	if p.Checks, err = daemon.NewChecks(daemon.DefaultProbing(), telemetry.Component(p.Log, "checks"), p.Registry); err != nil {
		return nil, err
	}
	if err = s.countEvents(p.Registry); err != nil {
		return nil, err
	}
	p.Checks.OnRound(s.observe)
	if p.Tracing, err = telemetry.NewTracing(s.tracing, p.name, build, telemetry.Component(p.Log, "tracing")); err != nil {
		return nil, err
	}
	server, err := daemon.NewAdmin(process, listener, p.Checks, p.Registry, telemetry.Component(p.Log, "admin"))
	if err != nil {
		return nil, err
	}
	if p.Group, err = daemon.NewGroup(process.ShutdownGrace.Std(), p.Checks, telemetry.Component(p.Log, "group")); err != nil {
		return nil, err
	}
	p.Group.Add("admin", server.Run)
	p.Group.Add("tracing", p.Tracing.Run)
	p.Group.Add("checks", p.Checks.Run)
	return p, nil
}
