package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// Patience bounds how the supervisor tries again.
type Patience struct {
	First time.Duration // the first interval
	Most  time.Duration // the longest
	Total time.Duration // how long to try without any success

	clock backoff.Clock // nil for the system's
}

// DefaultPatience outlasts a gateway that restarts, a runtime whose image is being pulled, and a namespace that is closed while somebody
// works at it: a run whose supervisor gave up is over.
func DefaultPatience() Patience {
	return Patience{First: 250 * time.Millisecond, Most: 15 * time.Second, Total: 2 * time.Hour}
}

// keep calls hold again and again until ctx ends, a refusal is final, or patience ends. hold calls
// its argument when it succeeded, and returns when what it held is lost; from then on patience counts anew.
func (p Patience) keep(ctx context.Context, log zerolog.Logger, hold func(ctx context.Context, succeeded func()) error) error {
	clock := p.clock
	if clock == nil {
		clock = backoff.SystemClock
	}
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.First), backoff.WithMaxInterval(p.Most), backoff.WithMaxElapsedTime(p.Total), backoff.WithClockProvider(clock))
	for {
		held := false
		err := hold(ctx, func() { held = true })
		if ctx.Err() != nil {
			return nil //nolint:nilerr // whatever was held is lost because we are asked to stop
		}
		if held {
			policy.Reset()
		}
		if final(err) {
			return err
		}
		next := policy.NextBackOff()
		if next == backoff.Stop {
			return err
		}
		log.Warn().Err(err).Dur("next_try_in", next).Msg("lost or not there yet")
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// final reports whether a refusal would be the same again.
func final(err error) bool {
	var f *boundary.Failure
	return errors.As(err, &f) && f.Kind != boundary.Unavailable
}
