package command

import (
	"context"
	"errors"
	"net"

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

	name string
}

func (d Daemon[S]) run(ctx context.Context, cfg *driverconf.Config, own S, tracing telemetry.Config, env Environment) error {
	ctx, release := daemon.SignalContext(ctx, env.Exit)
	defer release()
	process := own.Process()
	listener, err := daemon.Listen(ctx, process.HTTPAddress)
	if err != nil {
		return err
	}
	p, err := d.prepare(cfg, own, tracing, listener, env)
	if err == nil {
		err = d.Wire(ctx, p)
	}
	if err != nil && ctx.Err() != nil {
		return listener.Close() // asked to stop while it started: that is why, and no failure
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	build := telemetry.ReadBuild()
	starting := p.Log.Info().Str(telemetry.KeyVersion, build.Version).Str(telemetry.KeyCommit, build.Commit).
		Str(telemetry.KeyAddress, listener.Addr().String())
	if name := cfg.Standalone.GatewayName; name != "" {
		starting = starting.Str(keyGatewayName, name)
	}
	starting.Msg("starting")
	return p.Group.Run(ctx)
}

func (d Daemon[S]) prepare(cfg *driverconf.Config, own S, tracing telemetry.Config, admin net.Listener, env Environment) (*Parts[S], error) {
	build := telemetry.ReadBuild()
	level, err := telemetry.ParseLevel(string(cfg.Portcullis.LogLevel))
	if err != nil {
		return nil, err
	}
	p := &Parts[S]{Config: cfg, Settings: own, Log: telemetry.NewLogger(env.Stderr, level, d.Name), LookupEnv: env.LookupEnv, name: d.Name}
	if env.SetGRPCLog != nil {
		env.SetGRPCLog(meshrpc.GRPCLog(telemetry.Component(p.Log, "grpc/library")))
	}
	if env.SetKubeLog != nil {
		log := telemetry.Component(p.Log, "kubernetes/library")
		env.SetKubeLog(zerologr.New(&log))
	}
	if env.SetOTelLog != nil {
		log := telemetry.OTelLog{Log: telemetry.Component(p.Log, "otel/library")}
		env.SetOTelLog(log.Logger(), log)
	}
	if p.Registry, err = telemetry.NewRegistry(d.Name, build); err != nil {
		return nil, err
	}
	if p.Checks, err = daemon.NewChecks(daemon.DefaultProbing(), telemetry.Component(p.Log, "checks"), p.Registry); err != nil {
		return nil, err
	}
	if p.Tracing, err = telemetry.NewTracing(tracing, d.Name, build, telemetry.Component(p.Log, "tracing")); err != nil {
		return nil, err
	}
	process := own.Process()
	server, err := daemon.NewAdmin(process, admin, p.Checks, p.Registry, telemetry.Component(p.Log, "admin"))
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
