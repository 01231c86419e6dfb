package command

import (
	"context"

	"github.com/cenkalti/backoff/v4"
	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// flagWaitingAddress is for an orchestrator that starts a process again and again. It is a flag since the settings, where everything else
// is, are what cannot be read.
const flagWaitingAddress = "waiting-address"

// settled are settings that could be read.
type settled[S Settings] struct {
	cfg     *driverconf.Config
	own     S
	tracing telemetry.Config
	// waited says that they could not be read at first.
	waited bool
}

// settle reads the settings, and when they are wrong, at once and for good if there is no address. Else probes are answered there: alive,
// and not ready with what is wrong, which is looked at again until it is right. Nothing and no error: a stop came first.
func (d Daemon[S]) settle(ctx context.Context, cmd *cobra.Command, file string, env Environment, address string) (*settled[S], error) {
	found, wrong := d.load(cmd, file, env)
	if wrong == nil || address == "" {
		return found, wrong
	}
	log, err := d.logger(driverconf.LogInfo, env)
	if err != nil {
		return nil, err
	}
	s := &start[S]{settled: settled[S]{own: d.Settings()}, daemon: d, env: env, log: log, address: address}
	stop := s.tellOnPod(ctx)
	defer stop()
	for pause := retries(); wrong != nil; found, wrong = d.load(cmd, file, env) {
		if err := s.wait(ctx, wrong, pause.NextBackOff()); err != nil || ctx.Err() != nil {
			return nil, err
		}
	}
	found.waited = true
	return found, nil
}

// retries are the pauses between two tries of a start.
func retries() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRetry), backoff.WithMaxInterval(lastRetry), backoff.WithMaxElapsedTime(0))
}

// serve is the whole life of the daemon.
func (d Daemon[S]) serve(cmd *cobra.Command, file string, env Environment, address string) error {
	ctx, release := daemon.SignalContext(cmd.Context(), env.Exit)
	defer release()
	found, err := d.settle(ctx, cmd, file, env, address)
	if err != nil || found == nil {
		return err
	}
	return d.run(ctx, found, env)
}
