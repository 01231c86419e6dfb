package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// follower keeps one resource of the core fed: a list, then watches from where the former one ended, and a list again when that does
// not go. It never gives up, and never asks twice in a row without a pause for what was just refused (bug corpus W04, W05).
type follower[T any] struct {
	kind    kind
	source  Source[T]
	with    func(change func(c *core, now time.Time))
	replace func(c *core, l Listing[T]) error
	change  func(c *core, ch Change[T])
	report  func(k kind, what string, err error)
	// patience is how long a watch may be silent before it is given up. An idle one of a resource that the API server keeps a cache of
	// hears of the cluster about once a minute.
	patience time.Duration
}

const (
	// listLimit ends a list that takes too long, whatever the source does about it.
	listLimit = 2 * time.Minute
	// eventPatience is longer than any watch lasts: one of events may well hear nothing. That its connection is dead is noticed below it,
	// by pings (package kubeclient).
	eventPatience = mostWatch + 2*overtime
	// steady is how long a watch must have run for its end to be nothing to wait after.
	steady = time.Second
)

var errSilent = errors.New("the watch was silent for too long")

// newPauses are from 100 ms to 5 s, doubled with each failure, half of it by chance.
func newPauses() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0),
	)
}

func (f *follower[T]) run(ctx context.Context) {
	pauses := newPauses()
	for ctx.Err() == nil {
		from, err := f.list(ctx)
		if ctx.Err() != nil {
			return
		}
		f.report(f.kind, "list", err)
		if err == nil {
			f.watches(ctx, from, pauses)
		}
		pause(ctx, pauses.NextBackOff())
	}
}

// list takes in everything, and says from which version on to watch.
func (f *follower[T]) list(ctx context.Context) (from uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	var began time.Time
	var after uint64
	f.with(func(c *core, now time.Time) { began, after = now, c.newest[f.kind] })
	listing, err := f.source.List(ctx, after)
	f.with(func(c *core, now time.Time) {
		h := &c.health[f.kind]
		if err == nil {
			before := h.proof
			h.proof = began // what the list leads to is told by it
			if err = f.replace(c, listing); err != nil {
				h.proof = before
			}
		}
		if h.broken.IsZero() {
			h.broken = now
		}
		h.failure = err
		from = c.newest[f.kind]
	})
	return from, err
}

// watches goes on from a version until a list is needed.
func (f *follower[T]) watches(ctx context.Context, from uint64, pauses *backoff.ExponentialBackOff) {
	for ctx.Err() == nil {
		began := time.Now()
		moved, err := f.watch(ctx, &from)
		if ctx.Err() != nil {
			return
		}
		f.with(func(c *core, now time.Time) {
			h := &c.health[f.kind]
			if h.broken.IsZero() {
				h.broken = now
			}
			if err != nil && !errors.Is(err, ErrRelist) {
				h.failure = err
			}
		})
		if moved || err == nil && time.Since(began) >= steady {
			pauses.Reset()
		}
		f.report(f.kind, "watch", err)
		switch {
		case errors.Is(err, ErrRelist), errors.Is(err, errSilent):
			return
		case err == nil && time.Since(began) >= steady: // it ended as it does in the normal course of things
		default:
			pause(ctx, pauses.NextBackOff())
		}
	}
}

// watch tells the core what happens, and moves from. moved says that something did happen.
func (f *follower[T]) watch(ctx context.Context, from *uint64) (moved bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(f.patience, func() { cancel(errSilent) })
	defer alarm.Stop()
	err = f.source.Watch(ctx, *from, func(ch Change[T]) bool {
		if ctx.Err() != nil {
			return false
		}
		alarm.Reset(f.patience)
		if ch.Form != Opened {
			moved, *from = true, max(*from, ch.Version)
		}
		f.with(func(c *core, now time.Time) {
			h := &c.health[f.kind]
			h.broken, h.failure = time.Time{}, nil
			if ch.Form == Opened {
				return
			}
			h.proof = now
			f.change(c, ch)
		})
		return true
	})
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = fmt.Errorf("%w (%s)", errSilent, f.patience)
	}
	return moved, err
}

// pause ends with ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
