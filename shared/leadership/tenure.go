package leadership

import (
	"context"
	"errors"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

var (
	errRenewDeadline = errors.New("the Lease was not renewed within renew_deadline")
	errElectorOver   = errors.New("the Lease could not be renewed, or another process took it")
	errNotReleased   = errors.New("the process stops and the Lease could not be released")
)

// tenure is one term, from the moment the Lease is held.
type tenure struct {
	*Election
	lock     *lock
	lose     context.CancelCauseFunc // ends the term's context
	stop     context.CancelFunc      // ends the elector
	over     <-chan struct{}         // closed when the elector has ended
	done     chan struct{}           // closed when lead has returned
	released chan struct{}
}

// run leads in the caller's goroutine, whose panics have an owner, and watches the Lease beside it.
func (t *tenure) run(ctx, term context.Context) (end string) {
	t.metrics.leading.Set(1)
	t.metrics.terms.Inc()
	t.log.Info().Msg("holds the Lease; the term begins")
	watched := make(chan string, 1)
	go func() { watched <- t.watch(ctx, term) }()
	var err error
	defer func() { // after a panic, too
		close(t.done)
		end = <-watched
		t.metrics.leading.Set(0)
		t.metrics.ends.WithLabelValues(end).Inc()
		t.report(term, end, err)
	}()
	err = t.lead(term, t.released)
	return end // set above
}

// watch ends the term when the Lease is lost, releases the Lease when a stop is asked for or the term has ended by
// itself, and returns how the term ended.
func (t *tenure) watch(ctx, term context.Context) string {
	select {
	case <-t.over:
	case <-term.Done():
	case <-t.done:
	}
	stopping := ctx.Err() != nil
	t.stop()
	<-t.over
	switch {
	case term.Err() != nil:
		return endLost
	case isClosed(t.done):
		_ = t.giveUp(ctx) // logged; the Lease runs out
		return endItself
	case !stopping:
		t.lose(errElectorOver)
		return endLost
	}
	if err := t.giveUp(ctx); err != nil {
		t.lose(errNotReleased)
		return endLost
	}
	t.lock.disarm()
	close(t.released)
	return endStopped
}

// giveUp releases the Lease, within a time.
func (t *tenure) giveUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.releaseTimeout())
	defer cancel()
	err := t.lock.release(ctx)
	if err != nil {
		t.log.Warn().Err(err).Msg("cannot release the Lease; others wait until it runs out")
		return err
	}
	t.log.Info().Msg("released the Lease")
	return nil
}

func (t *tenure) report(term context.Context, end string, err error) {
	switch end {
	case endLost:
		t.log.Warn().AnErr(telemetry.KeyCause, context.Cause(term)).Msg("lost the Lease; the term is over, nothing more is written")
	case endItself:
		t.log.Warn().Err(err).Msg("the term ended by itself; competing again after a pause")
	default:
		t.log.Info().Msg("the term is over, as asked")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
