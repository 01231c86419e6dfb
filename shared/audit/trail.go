package audit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Origin says whose decisions a Trail records.
type Origin struct {
	// Daemon that decides, a word such as "tokenauth".
	Daemon string
	// GatewayID of the settings.
	GatewayID string
}

func (o Origin) check() error {
	switch {
	case o.Daemon == "" || len(o.Daemon) > maxWord || !isToken(o.Daemon):
		return fmt.Errorf("daemon %q is no word of letters, digits, - and _", identifier(o.Daemon, maxWord))
	case o.GatewayID == "" || len(o.GatewayID) > maxName || !printable(o.GatewayID):
		return fmt.Errorf("gateway id %q is empty, too long or not printable", identifier(o.GatewayID, maxName))
	}
	return nil
}

// Trail records the decisions of one daemon. Make it with New. Record is safe for concurrent use, before, during and
// after Run.
type Trail struct {
	cfg      Config
	origin   Origin
	instance string
	conn     Connection
	log      zerolog.Logger
	// decisions writes what must be written whatever the level of log is.
	decisions zerolog.Logger
	metrics   *metrics
	started   atomic.Bool
	// trouble is why nothing can be published now, a cause; noTrouble, or nothing at first, while something can.
	trouble atomic.Value

	// mu makes the order of the queue the order of the sequence.
	mu  sync.Mutex
	seq uint64
	// queue is nil when nothing is published, and closed, together with closed, when Run stops.
	queue  chan Entry
	closed bool
}

// New checks the settings and registers the metrics. It starts nothing. With publishing switched off, or without a
// connection, events go to the log only; conn is then nil itself, not a nil pointer. Errors name the key and the cause.
func New(cfg Config, origin Origin, conn Connection, log zerolog.Logger, reg prometheus.Registerer) (*Trail, error) {
	problems := cfg.problems()
	if err := origin.check(); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("portcullis.audit: %w", err)
	}
	instance := make([]byte, 8)
	if _, err := rand.Read(instance); err != nil {
		return nil, fmt.Errorf("portcullis.audit: name this process: %w", err)
	}
	t := &Trail{cfg: cfg, origin: origin, instance: hex.EncodeToString(instance), conn: conn, log: log, decisions: log.Level(zerolog.InfoLevel)}
	if cfg.Publish && conn != nil {
		t.queue = make(chan Entry, cfg.Buffer)
	}
	var err error
	t.metrics, err = newMetrics(reg, func() float64 { return float64(len(t.queue)) })
	return t, err
}

// Record keeps one decision: it writes the log line, which says level info and is written whatever level the settings ask
// for, and puts the event into the queue. It never blocks on anything but the log, never fails, and changes nothing. An event that finds the queue full, or Run stopped, is counted as dropped.
func (t *Trail) Record(event Event) {
	e := entry(&event, time.Now())
	e.Instance, e.Daemon, e.Gateway = t.instance, t.origin.Daemon, t.origin.GatewayID
	dropped := t.enqueue(&e)
	e.write(t.decisions.Info())
	if dropped != noTrouble {
		t.metrics.drop(dropped, 1)
	}
}

// enqueue numbers e and queues it, or says why it cannot.
func (t *Trail) enqueue(e *Entry) cause {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	e.Seq = t.seq
	switch {
	case t.queue == nil:
		return noTrouble
	case t.closed:
		return causeStopped
	}
	select {
	case t.queue <- *e:
		return noTrouble
	default:
	}
	// The queue is full because of something, if not just because the stream is slow.
	if why, _ := t.trouble.Load().(cause); why != noTrouble {
		return why
	}
	return causeFull
}

// close lets nothing more into the queue.
func (t *Trail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	close(t.queue)
}

// tellWhere says once where decisions go.
func (t *Trail) tellWhere() {
	line := t.decisions.Info()
	switch {
	case t.queue != nil:
		line.Str(keyStream, Stream).Str(keySubject, Subject(t.origin.GatewayID, t.origin.Daemon)).
			Msg("decisions are recorded in this log and in the stream")
	case !t.cfg.Publish:
		line.Str(telemetry.KeyCause, "publish of portcullis.audit is false").Msg("decisions are recorded in this log only")
	default:
		line.Str(telemetry.KeyCause, "no NATS is configured").Msg("decisions are recorded in this log only")
	}
}

// Run says once where decisions go, and publishes what Record keeps until ctx ends; then it gives what is left FlushTimeout, counts what was not
// acknowledged as dropped, and returns nil. It never returns because NATS is away. It returns an error only when called
// twice. The connection should outlive it.
func (t *Trail) Run(ctx context.Context) error {
	if !t.started.CompareAndSwap(false, true) {
		return errors.New("audit: the trail was started twice")
	}
	t.tellWhere()
	if t.queue == nil {
		<-ctx.Done()
		return nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var flush sync.WaitGroup
	flush.Go(func() {
		<-ctx.Done()
		t.close()
		timer := time.NewTimer(t.cfg.FlushTimeout.Std())
		defer timer.Stop()
		select {
		case <-timer.C:
			end()
		case <-life.Done():
		}
	})
	t.publisher().run(life, ctx.Done())
	end()
	flush.Wait()
	return nil
}
