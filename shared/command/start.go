package command

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/command/podevent"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// The waits between two tries of a start.
const (
	firstRetry = time.Second
	lastRetry  = 15 * time.Second
)

// checkStart is the one check of a daemon that waits at its start.
const checkStart = "start"

// start is the way of one process from its settings to its parts.
type start[S Settings] struct {
	settled[S]

	daemon Daemon[S]
	env    Environment
	log    zerolog.Logger
	// address is where the admin listener is, once it was bound: a port that was chosen freely stays.
	address string
	// told is why the start waits, as the log has it.
	told string
	// events tells on the daemon's own Pod why it is not ready; nil where nobody can be told.
	events *podevent.Announcer
}

func (d Daemon[S]) run(ctx context.Context, found *settled[S], env Environment) error {
	log, err := d.logger(found.cfg.Portcullis.LogLevel, env)
	if err != nil {
		return err
	}
	s := &start[S]{settled: *found, daemon: d, env: env, log: log, address: found.own.Process().HTTPAddress}
	stop := s.tellOnPod(ctx)
	defer stop()
	if s.events != nil && s.waited {
		s.events.Resume()
	}
	for pause := retries(); ; {
		why, err := s.try(ctx)
		if why == nil || ctx.Err() != nil {
			return err
		}
		if !found.own.Process().WaitAtStart {
			return why
		}
		if err := s.wait(ctx, why, pause.NextBackOff()); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// try makes the parts and runs them to their end, which is err. Or it says why they cannot be made.
func (s *start[S]) try(ctx context.Context) (why, err error) {
	listener, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	p, why := s.prepare(listener)
	if why == nil {
		if why = s.daemon.Wire(ctx, p); why != nil {
			why = errors.Join(why, p.abandon())
		}
	}
	if why != nil {
		return errors.Join(why, listener.Close()), nil
	}
	build := telemetry.ReadBuild()
	starting := p.Log.Info().Str(telemetry.KeyVersion, build.Version).Str(telemetry.KeyCommit, build.Commit).Str(telemetry.KeyAddress, s.address)
	if name := s.cfg.Standalone.GatewayName; name != "" {
		starting = starting.Str(keyGatewayName, name)
	}
	starting.Msg("starting")
	return nil, p.Group.Run(ctx)
}

func (s *start[S]) listen(ctx context.Context) (net.Listener, error) {
	listener, err := daemon.Listen(ctx, s.address)
	if err == nil {
		s.address = listener.Addr().String()
	}
	return listener, err
}

// wait answers probes for some time: alive, and not ready with why. The error is that it could not.
func (s *start[S]) wait(ctx context.Context, why error, pause time.Duration) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	admin, err := s.waiting(listener, why)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if text := why.Error(); text != s.told { // it is said once, and again when it is another
		s.told = text
		s.log.Error().Err(why).Str(telemetry.KeyAddress, s.address).Msg("the start waits: not ready until what is said here is mended")
	}
	s.observe(daemon.Report{Results: []daemon.Result{{Name: checkStart, Err: why}}})
	limited, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	return admin.Run(limited)
}

// waiting is an admin listener without the daemon's parts.
func (s *start[S]) waiting(listener net.Listener, why error) (*daemon.Admin, error) {
	registry, err := telemetry.NewRegistry(s.daemon.Name, telemetry.ReadBuild())
	if err != nil {
		return nil, err
	}
	quiet := zerolog.Nop()
	if err := s.countEvents(registry); err != nil {
		return nil, err
	}
	checks, err := daemon.NewChecks(daemon.DefaultProbing(), quiet, registry)
	if err != nil {
		return nil, err
	}
	if err := checks.AddReadiness(checkStart, func(context.Context) error { return why }); err != nil {
		return nil, err
	}
	return daemon.NewAdmin(s.own.Process(), listener, checks, registry, quiet)
}
