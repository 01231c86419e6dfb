// Package clock is the time that the reference gateway waits by: the system's, or one that a test moves.
//
// Invariant of Manual: a timer fires in the call of Advance that reaches its time, in the order of times, each seeing Now at
// its own time; nothing fires by itself.
//
// Callers: package gateway and its tests, package driver.
package clock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Clock tells the time and calls back.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own, once, when d has passed. stop prevents it and reports whether it did.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// System is the machine's clock.
type System struct{}

// Now returns the time.
func (System) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (System) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// Sleep waits until d has passed or ctx ends, whose cause it then returns.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	passed := make(chan struct{})
	stop := c.AfterFunc(d, func() { close(passed) })
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		stop()
		return context.Cause(ctx)
	}
}

// Limit returns a context that ends when d has passed by the clock, with a cause that matches context.DeadlineExceeded. The peer
// of a call sees a cancellation, no deadline: contract 2.12 has the gateway set none.
func Limit(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := c.AfterFunc(d, func() { cancel(fmt.Errorf("gave up after %s: %w", d, context.DeadlineExceeded)) })
	return ctx, func() {
		stop()
		cancel(errors.New("finished"))
	}
}
