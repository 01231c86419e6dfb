package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Check says why something is not well, nil when it is. It must return soon after
// its context ends, and its error is shown to anyone who can reach the admin
// listener: a reason, no secrets.
type Check func(ctx context.Context) error

// check runs one Check on demand.
//
// No answer is ever reused for a later question, and yet at most one call runs at a
// time: whoever asks while a call runs waits for the next one, which all who wait
// share. Probes can thus neither see a stale answer nor pile up goroutines behind a
// call that hangs.
type check struct {
	name    string
	call    Check
	timeout time.Duration
	log     zerolog.Logger

	mu      sync.Mutex
	running *attempt
	next    *attempt // begins when running has ended
}

// attempt is one call of a Check. err may be read once done is closed.
type attempt struct {
	done    chan struct{}
	expired chan struct{} // closed when the call is overdue
	err     error
}

var (
	errNoAnswer = errors.New("no answer in time")
	errStuck    = errors.New("an earlier call of this check has not returned")
	errNoReturn = errors.New("the check ended its goroutine without returning")
)

// ask returns the answer of a call that begins after ask did. It takes at most two
// and a half times the timeout: what is left of a running call, and the next, each
// with a quarter of the timeout to return once its context has ended.
func (c *check) ask(ctx context.Context) error {
	a, ahead := c.attempt(ctx)
	if ahead != nil {
		select {
		case <-ahead.done:
		case <-ahead.expired:
			return errStuck
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-a.done:
		return a.err
	case <-a.expired:
		return c.noAnswer()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attempt returns an attempt that has not begun before, and the one that must end
// first, if any.
func (c *check) attempt(ctx context.Context) (a, ahead *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		a = newAttempt()
		c.begin(ctx, a)
		return a, nil
	}
	if c.next == nil {
		c.next = newAttempt()
	}
	return c.next, c.running
}

func newAttempt() *attempt {
	return &attempt{done: make(chan struct{}), expired: make(chan struct{})}
}

// begin starts the attempt; the lock is held. The call takes the values of ctx but
// not its end, since others may wait for the same call.
func (c *check) begin(ctx context.Context, a *attempt) {
	call, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.timeout, errNoAnswer)
	overdue := time.AfterFunc(c.timeout+c.timeout/4, func() { close(a.expired) })
	c.running = a
	go func() {
		defer cancel()
		defer close(a.done) // whoever waits for it finds the next attempt begun
		defer c.proceed(ctx)
		defer overdue.Stop()
		a.err = errNoReturn // stays if the call ends the goroutine
		a.err = c.guarded(call)
	}()
}

// proceed begins the attempt that waited for the running one to end.
func (c *check) proceed(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = nil
	if next := c.next; next != nil {
		c.next = nil
		c.begin(ctx, next)
	}
}

func (c *check) noAnswer() error { return fmt.Errorf("%w (%s)", errNoAnswer, c.timeout) }

// guarded calls the Check; a panic counts as a failure, because a bug in one check
// must not end a daemon that works.
func (c *check) guarded(ctx context.Context) (err error) {
	defer func() {
		if value := recover(); value != nil {
			c.log.Error().Str(telemetry.KeyCheck, c.name).Str(telemetry.KeyPanic, panicText(value)).
				Bytes(telemetry.KeyStack, debug.Stack()).Msg("check panicked")
			err = errors.New("the check panicked; see the log")
		}
	}()
	err = c.call(ctx)
	if err == nil && ctx.Err() != nil {
		return c.noAnswer()
	}
	return err
}

// wait returns when the calls that run or wait to run now have ended.
func (c *check) wait() {
	c.mu.Lock()
	running, next := c.running, c.next
	c.mu.Unlock()
	if running != nil {
		<-running.done
	}
	if next != nil {
		<-next.done
	}
}
