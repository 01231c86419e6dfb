package natsconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNotConnected is in every error that says there is no connection now, whatever the cause.
var ErrNotConnected = errors.New("not connected to NATS")

// Session is the connection as it was at one instant. The zero value is not connected.
type Session struct {
	// Generation counts the connections established so far; it tells two sessions apart and is never reused.
	Generation uint64
	// NATS is the connection, nil when there is none. It belongs to Conn: do not close or drain it. It may break at
	// any time; then all calls on it fail and its successor is in a later Session.
	NATS *nats.Conn
	// JetStream speaks over NATS, under the configured API prefix; nil when NATS is.
	JetStream jetstream.JetStream
	// Server is the URL of the server, empty when not connected.
	Server string
	// Since is when the session became what it is, by the local wall clock.
	Since time.Time
	// Err says why there is no connection, nil when there is one.
	Err error
}

// Connected reports whether the session had a connection.
func (s Session) Connected() bool { return s.NATS != nil }

// Session returns the newest session and a channel that is closed when a connection has been established or lost
// since. It never blocks. Nothing is queued per caller: who is slow sees fewer changes and the newest state.
func (c *Conn) Session() (s Session, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.changed
}

// Await returns the current session as soon as there is a connection. When ctx ends first, the error says why there
// was none and contains ErrNotConnected and ctx's cause.
func (c *Conn) Await(ctx context.Context) (Session, error) {
	for {
		s, changed := c.Session()
		if s.Connected() {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err := c.Ready(ctx); err != nil {
				return Session{}, fmt.Errorf("%w (%w while waiting)", err, context.Cause(ctx))
			}
		}
	}
}

// Ready is a readiness check: nil while there is a connection, else an error with ErrNotConnected, since when, and
// why. It does no I/O and ignores ctx; how fast it turns false is the ping settings' matter.
func (c *Conn) Ready(context.Context) error {
	s, _ := c.Session()
	if s.Connected() {
		return nil
	}
	since := s.Since.UTC().Format(time.RFC3339)
	if s.Generation == 0 {
		return fmt.Errorf("%w: never connected since %s: %w", ErrNotConnected, since, s.Err)
	}
	return fmt.Errorf("%w: disconnected since %s: %w", ErrNotConnected, since, s.Err)
}

var (
	errNotStarted = errors.New("the connection has not been started")
	errConnecting = errors.New("the first attempt is under way")
	errStopped    = errors.New("the connection has been stopped")
)

// up publishes a new connection.
func (c *Conn) up(l *link) Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = Session{
		Generation: c.session.Generation + 1, NATS: l.nats, JetStream: l.jetStream, Server: l.server, Since: c.now(),
	}
	c.announce()
	return c.session
}

// down publishes that there is no connection, or, when there was none before, only renews the reason: that is no
// change that anyone acts on.
func (c *Conn) down(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.Connected() {
		c.session.Err = err
		return
	}
	c.session = Session{Generation: c.session.Generation, Since: c.now(), Err: err}
	c.announce()
}

// announce wakes everyone who waits. Called with the lock held.
func (c *Conn) announce() {
	connected := 0.0
	if c.session.Connected() {
		connected = 1
	}
	c.metrics.connected.Set(connected)
	close(c.changed)
	c.changed = make(chan struct{})
}
