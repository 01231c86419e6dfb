package natsconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Conn keeps the connection. Make it with New; all methods are safe for concurrent use.
type Conn struct {
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	now     func() time.Time
	started atomic.Bool
	limit   logLimit

	mu      sync.Mutex
	session Session
	changed chan struct{}
}

// New checks the settings and the files they name and registers the metrics. It starts nothing and connects to
// nothing. Errors name the key or the file and the cause; several are joined, one per line.
func New(cfg Config, log zerolog.Logger, reg prometheus.Registerer) (*Conn, error) {
	cfg.Required = true
	var problems []error
	cfg.Validate(func(key, problem string) {
		problems = append(problems, fmt.Errorf("portcullis.nats.%s: %s", key, problem))
	})
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if err := cfg.CheckFiles(); err != nil {
		return nil, fmt.Errorf("portcullis.nats: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	return &Conn{
		cfg: cfg, log: log, metrics: m, now: time.Now,
		session: Session{Since: time.Now(), Err: errNotStarted},
		changed: make(chan struct{}),
	}, nil
}

// Run connects, and connects again whenever the connection is lost, until ctx ends; then it drains the connection
// within DrainTimeout and returns nil. It returns an error only when called twice.
func (c *Conn) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("nats: the connection was started twice")
	}
	defer c.down(errStopped)
	c.down(errConnecting)
	wait := c.backoff()
	for ctx.Err() == nil {
		if c.serve(ctx) {
			wait.Reset()
		}
		sleep(ctx, wait.NextBackOff())
	}
	return nil
}

// serve makes one connection and stays with it. It reports whether the connection lasted, so that the next one may
// come quickly: a server that accepts and drops at once must not be hammered (bug corpus J12).
func (c *Conn) serve(ctx context.Context) (lasted bool) {
	l, err := c.connect(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.down(err)
			c.fault(err, "no connection to NATS")
		}
		return false
	}
	s := c.up(l)
	if s.Generation > 1 {
		c.metrics.reconnects.Inc()
	}
	c.log.Info().Str(telemetry.KeyEndpoint, l.server).Uint64(telemetry.KeyGeneration, s.Generation).Msg("connected to NATS")
	select {
	case <-ctx.Done():
		c.drain(l)
		return false
	case <-l.closed:
	}
	err = l.cause()
	c.down(fmt.Errorf("%s: %w", l.server, err))
	c.fault(err, "connection to NATS lost")
	return c.now().Sub(s.Since) > c.cfg.ReconnectWaitMax.Std()
}

// drain lets what is under way finish, within the limit, and closes.
func (c *Conn) drain(l *link) {
	if err := l.nats.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		c.fault(err, "drain of the NATS connection failed")
	}
	timer := time.NewTimer(c.cfg.DrainTimeout.Std())
	defer timer.Stop()
	select {
	case <-l.closed:
	case <-timer.C:
		c.fault(nats.ErrDrainTimeout, "drain of the NATS connection was cut short")
		l.nats.Close()
		<-l.closed
	}
	c.log.Info().Str(telemetry.KeyEndpoint, l.server).Msg("disconnected from NATS")
}

// fault counts an error and logs it, unless its kind was logged a moment ago. The count in the line is how many of its
// kind were not logged since the last.
func (c *Conn) fault(err error, what string) {
	k := classify(err)
	c.metrics.errors.WithLabelValues(string(k)).Inc()
	held, ok := c.limit.allow(c.now(), k)
	if !ok {
		return
	}
	line := c.log.Warn().Err(err).Str(telemetry.KeyKind, string(k))
	if held > 0 {
		line = line.Int(telemetry.KeyCount, held)
	}
	line.Msg(what)
}

func (c *Conn) backoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(c.cfg.ReconnectWait.Std()),
		backoff.WithMaxInterval(c.cfg.ReconnectWaitMax.Std()),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0),
	)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
