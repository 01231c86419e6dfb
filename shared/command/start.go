package command

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// The waits between two tries of a start.
const (
	firstRetry = time.Second
	lastRetry  = 15 * time.Second
)

// start is the way of one process from its settings to its parts.
type start[S Settings] struct {
	daemon  Daemon[S]
	cfg     *driverconf.Config
	own     S
	tracing telemetry.Config
	env     Environment
	log     zerolog.Logger
	// address is where the admin listener is, once it was bound: a port that was chosen freely stays.
	address string
	// told is why the start waits, as the log has it.
	told string
}

func (d Daemon[S]) run(ctx context.Context, cfg *driverconf.Config, own S, tracing telemetry.Config, env Environment) error {
	ctx, release := daemon.SignalContext(ctx, env.Exit)
	defer release()
	log, err := d.logger(cfg, env)
	if err != nil {
		return err
	}
	s := &start[S]{daemon: d, cfg: cfg, own: own, tracing: tracing, env: env, log: log, address: own.Process().HTTPAddress}
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRetry), backoff.WithMaxInterval(lastRetry), backoff.WithMaxElapsedTime(0))
	for {
		why, err := s.try(ctx)
		if why == nil || ctx.Err() != nil {
			return err
		}
		if !own.Process().WaitAtStart {
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
	checks, err := daemon.NewChecks(daemon.DefaultProbing(), quiet, registry)
	if err != nil {
		return nil, err
	}
	if err := checks.AddReadiness("start", func(context.Context) error { return why }); err != nil {
		return nil, err
	}
	return daemon.NewAdmin(s.own.Process(), listener, checks, registry, quiet)
}
