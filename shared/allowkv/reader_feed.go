package allowkv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

const (
	// feedWaitMax bounds the wait before a new consumer, and is how long one must at least have lasted for the next to
	// come quickly: a server that takes consumers and drops them must not be hammered (bug corpus J12).
	feedWaitMax = 5 * time.Second
	// feedQueue is how many events may wait for their owner. When it is full the client library is not asked for more.
	feedQueue = 16
)

// feedEvent is what a feed tells its owner: with a message, that it was delivered; with an end, that the generation
// is over, or without a generation that there is no connection; with neither, that a generation has begun.
type feedEvent struct {
	generation *generation
	at         allowlist.Instant
	message    *message
	end        *doubt
}

// message is a message of the bucket, out of the client library's hands.
type message struct {
	key       string
	operation allowlist.Operation
	value     []byte
	sequence  uint64
	stored    time.Time // by the server's clock
	pending   uint64    // messages that the consumer has still to deliver
}

// feed keeps one consumer after the other on the two keys of a gateway, each on one connection, and each from the last
// message per key (rule R7). It is the same for all who read.
type feed struct {
	conn   Connection
	filter string
	clock  Clock
	// events is never closed: the client library may deliver a message after it was told to stop. done is closed when
	// run has ended.
	events chan feedEvent
	done   chan struct{}
}

func newFeed(conn Connection, gatewayID string, clock Clock) *feed {
	return &feed{
		conn: conn, filter: filterOf(gatewayID), clock: clock, events: make(chan feedEvent, feedQueue), done: make(chan struct{}),
	}
}

// run ends with ctx, and then so has all that it started.
func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	var deletions sync.WaitGroup
	defer deletions.Wait()
	wait := feedBackoff()
	for ctx.Err() == nil {
		s, changed := f.conn.Session()
		if !s.Connected() {
			f.tell(ctx, feedEvent{end: &doubt{doubtSession, s.Err}})
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		began := time.Now()
		g := newGeneration(f.filter, jetstream.DeliverLastPerSubjectPolicy)
		end := f.serve(ctx, g, s, changed)
		deletions.Go(func() { g.remove(s.JetStream) })
		if ctx.Err() != nil {
			return
		}
		f.tell(ctx, feedEvent{generation: g, end: &end})
		if g.worked(time.Since(began)) {
			wait.Reset()
		}
		pause(ctx, wait.NextBackOff())
	}
}

// serve runs one generation until there is any doubt about it.
func (f *feed) serve(ctx context.Context, g *generation, s natsconn.Session, changed <-chan struct{}) doubt {
	if err := g.create(ctx, s.JetStream); err != nil {
		return doubt{doubtCreate, err}
	}
	// Before the first message, which must not be taken for one of an earlier generation.
	f.tell(ctx, feedEvent{generation: g})
	stop, err := g.consume(func(m *message) { f.deliver(g, m) })
	if err != nil {
		return doubt{doubtCreate, err}
	}
	defer stop()
	select {
	case d := <-g.doubts:
		return d
	case <-changed:
		return doubt{doubtSession, errors.New("the connection to NATS has changed")}
	case <-ctx.Done():
		return doubt{doubtSession, context.Cause(ctx)}
	}
}

// deliver hands on a message, at any time: one that comes late is of a generation that its reader has thrown away.
func (f *feed) deliver(g *generation, m *message) {
	select {
	case f.events <- feedEvent{generation: g, at: f.clock(), message: m}:
	case <-g.over:
	}
}

// tell waits for the owner, who waits for nothing of the feed.
func (f *feed) tell(ctx context.Context, e feedEvent) {
	e.at = f.clock()
	select {
	case f.events <- e:
	case <-ctx.Done():
	}
}

// feedBackoff draws each wait from zero to twice the interval, which grows to feedWaitMax (full jitter).
func feedBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(feedWaitMax/2),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxElapsedTime(0),
	)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// doubt is why a generation was thrown away.
type doubt struct {
	cause doubtCause
	err   error
}

func (d doubt) Error() string { return fmt.Sprintf("no consumer (%s): %v", d.cause, d.err) }
func (d doubt) Unwrap() error { return d.err }

// doubtCause classes doubts for the metric. The set is closed.
type doubtCause string

const (
	doubtSession   doubtCause = "session"   // there is no connection, or it is another one
	doubtCreate    doubtCause = "create"    // the consumer could not be made
	doubtHeartbeat doubtCause = "heartbeat" // the server fell silent
	doubtDeleted   doubtCause = "deleted"   // the consumer, or the bucket with it, is gone
	doubtServer    doubtCause = "server"    // the server stops, or another one leads
	doubtGap       doubtCause = "gap"       // a message was lost, doubled or not the consumer's
	doubtSilence   doubtCause = "silence"   // the server lives, and no message came for several beats
	doubtResync    doubtCause = "resync"    // the reader asked for it (Effects.Resync)
	doubtOther     doubtCause = "other"     // anything else that the client library reported
)

var doubtCauses = []doubtCause{
	doubtSession, doubtCreate, doubtHeartbeat, doubtDeleted, doubtServer, doubtGap, doubtSilence, doubtResync, doubtOther,
}

// classifyConsumeError takes what the client library reports about a consumer.
func classifyConsumeError(err error) doubt {
	cause := doubtOther
	switch {
	case errors.Is(err, jetstream.ErrNoHeartbeat):
		cause = doubtHeartbeat
	case errors.Is(err, jetstream.ErrConsumerDeleted):
		cause = doubtDeleted
	case errors.Is(err, jetstream.ErrServerShutdown), errors.Is(err, jetstream.ErrConsumerLeadershipChanged):
		cause = doubtServer
	case errors.Is(err, jetstream.ErrConnectionClosed):
		cause = doubtSession
	}
	return doubt{cause, err}
}
