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

// keyAgainIn is, in the line that tells of a start that waits, how long.
const keyAgainIn = "again_in"

// The waits between two tries of a start.
const (
	firstRetry = time.Second
	lastRetry  = 15 * time.Second
)

// errTryAgain ends a wait.
var errTryAgain = errors.New("the start is tried again")

// start is the way of one process from its settings to its parts.
type start[S Settings] struct {
	daemon  Daemon[S]
	cfg     *driverconf.Config
	own     S
	tracing telemetry.Config
	env     Environment
	// address is where the admin listener is, once it was bound: a port that was chosen freely stays.
	address string
}

func (d Daemon[S]) run(ctx context.Context, cfg *driverconf.Config, own S, tracing telemetry.Config, env Environment) error {
	ctx, release := daemon.SignalContext(ctx, env.Exit)
	defer release()
	s := &start[S]{daemon: d, cfg: cfg, own: own, tracing: tracing, env: env, address: own.Process().HTTPAddress}
	var pause backoff.BackOff = backoff.NewExponentialBackOff(
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
	var admin *daemon.Admin
	p, why := s.daemon.prepare(s.cfg, s.own, s.tracing, func(ctx context.Context) error { return admin.Run(ctx) }, s.env)
	if why == nil {
		why = s.daemon.Wire(ctx, p)
	}
	if why == nil {
		admin, why = daemon.NewAdmin(s.own.Process(), listener, p.Checks, p.Registry, telemetry.Component(p.Log, "admin"))
	}
	if why != nil {
		if p != nil {
			why = errors.Join(why, p.abandon())
		}
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

// wait answers probes for some time: alive, and not ready with why. The error is that it could not, or that of a stop.
func (s *start[S]) wait(ctx context.Context, why error, pause time.Duration) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	waiting := &Daemon[S]{Name: s.daemon.Name}
	var admin *daemon.Admin
	p, err := waiting.prepare(s.cfg, s.own, telemetry.DefaultConfig(), func(ctx context.Context) error { return admin.Run(ctx) }, s.env)
	if err == nil {
		err = p.Checks.AddReadiness("start", func(context.Context) error { return why })
	}
	if err == nil {
		admin, err = daemon.NewAdmin(s.own.Process(), listener, p.Checks, p.Registry, telemetry.Component(p.Log, "admin"))
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.tell(&p.Log, why, pause)
	limited, cancel := context.WithTimeoutCause(ctx, pause, errTryAgain)
	defer cancel()
	return p.Group.Run(limited)
}

func (s *start[S]) tell(log *zerolog.Logger, why error, pause time.Duration) {
	log.Error().Err(why).Str(telemetry.KeyAddress, s.address).Str(keyAgainIn, pause.Round(time.Millisecond).String()).
		Msg("the start waits: not ready until what is said here is mended")
}
