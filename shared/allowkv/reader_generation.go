package allowkv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// requestTimeout bounds one request to JetStream. A refused one has no answer (NATS reference 3.4).
	requestTimeout = 2 * time.Second
	// deleteTimeout bounds the removal of a consumer, which is a courtesy: inactiveThreshold removes it too.
	deleteTimeout = time.Second
	// inactiveThreshold is how long a server keeps a consumer that nobody pulls from (bug corpus J12).
	inactiveThreshold = 15 * time.Second

	// idleHeartbeat is how often a server shows that it lives; after two without one it is taken for dead.
	idleHeartbeat = 500 * time.Millisecond
	pullExpiry    = 2 * time.Second
	// pullBatch bounds what lies between the server and the owner. A key has one message per beat.
	pullBatch = 32
	// stopTimeout bounds the wait for the client library to let go of a consumer.
	stopTimeout = 2 * time.Second
)

// filterOf selects the keys of one gateway, and those of no other whose id it begins: keys end in one word without
// dots. It is one filter, so that it stands in the request's subject and a permission can be narrowed to it (NATS
// reference 5.2).
func filterOf(gatewayID string) string { return subject(gatewayID + ".*") }

// generation is one consumer from its creation to the first doubt about it. It does what the client library's ordered
// consumer does, which needs the same permissions, without that one's recovery: an ordered consumer that misses
// something makes another that goes on after the last sequence it has seen, and so overlooks a stream that was
// recreated or restored (NATS reference 2.7). A generation never goes on.
type generation struct {
	name   string
	filter string
	policy jetstream.DeliverPolicy

	consumer jetstream.Consumer
	asked    bool // the server may have the consumer
	// doubts has room for the first; later ones change nothing.
	doubts chan doubt
	// over is closed when messages must not be waited for any more.
	over chan struct{}

	delivered, sequence uint64 // of the newest message: in the consumer, and in the stream
	// loaded says that everything that was there at the beginning has come, live that a message came after that.
	loaded bool
	live   atomic.Bool
}

func newGeneration(filter string, policy jetstream.DeliverPolicy) *generation {
	return &generation{
		name: "allowlist-" + rand.Text(), filter: filter, policy: policy,
		doubts: make(chan doubt, 1), over: make(chan struct{}),
	}
}

// worked reports that a generation that lasted for so long has delivered something new, so that the next may come
// quickly. While the writer is silent none has: then every reader would download the whole list again and again, all in
// step.
func (g *generation) worked(lasted time.Duration) bool { return lasted > feedWaitMax && g.live.Load() }

// suspect ends the generation. It never blocks, and may be called by anyone at any time.
func (g *generation) suspect(d doubt) {
	select {
	case g.doubts <- d:
	default:
	}
}

func (g *generation) create(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	g.asked = true
	before := js.Conn().LastError()
	consumer, err := js.CreateConsumer(ctx, Stream, jetstream.ConsumerConfig{
		Name:              g.name,
		Description:       "allowlist reader",
		DeliverPolicy:     g.policy,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     g.filter,
		InactiveThreshold: inactiveThreshold,
		Replicas:          1,
		MemoryStorage:     true,
	})
	if err != nil {
		err = explainRequest(g.filter, err, refusedSince(before, js.Conn().LastError()))
		// An answer that did not come in time may still mean a consumer; a refusal does not.
		g.asked = !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNoBucket)
		return err
	}
	g.consumer = consumer
	g.loaded = consumer.CachedInfo().NumPending == 0
	return nil
}

// consume hands every message to deliver, one at a time, until stop is called or the connection ends. What is wrong
// goes to doubts.
func (g *generation) consume(deliver func(*message)) (stop func(), err error) {
	running, err := g.consumer.Consume(
		func(msg jetstream.Msg) {
			m, err := g.accept(msg)
			if err != nil {
				g.suspect(doubt{doubtGap, err})
				return
			}
			deliver(m)
		},
		jetstream.PullMaxMessages(pullBatch),
		jetstream.PullExpiry(pullExpiry),
		jetstream.PullHeartbeat(idleHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { g.suspect(classifyConsumeError(err)) }),
	)
	if err != nil {
		return nil, fmt.Errorf("pull from the consumer on %s: %w", g.filter, err)
	}
	return func() {
		close(g.over)
		running.Stop()
		timer := time.NewTimer(stopTimeout)
		defer timer.Stop()
		select {
		case <-running.Closed():
		case <-timer.C:
		}
	}, nil
}

// accept takes a message if it is the next one of this consumer. The proof is in the reply subject, which the server
// makes.
func (g *generation) accept(msg jetstream.Msg) (*message, error) {
	meta, err := msg.Metadata()
	switch {
	case err != nil:
		return nil, fmt.Errorf("a message that no consumer delivered: %w", err)
	case meta.Stream != Stream || meta.Consumer != g.name:
		return nil, fmt.Errorf("a message of consumer %q of stream %q", meta.Consumer, meta.Stream)
	case meta.Sequence.Consumer != g.delivered+1:
		return nil, fmt.Errorf("delivery %d came after delivery %d", meta.Sequence.Consumer, g.delivered)
	case meta.Sequence.Stream <= g.sequence:
		return nil, fmt.Errorf("message %d of the stream came after message %d", meta.Sequence.Stream, g.sequence)
	}
	g.delivered, g.sequence = meta.Sequence.Consumer, meta.Sequence.Stream
	if g.loaded {
		g.live.Store(true)
	}
	g.loaded = g.loaded || meta.NumPending == 0
	return &message{
		key: keyOf(msg.Subject()), operation: operation(msg.Headers(), msg.Data()), value: msg.Data(),
		sequence: meta.Sequence.Stream, stored: meta.Timestamp, pending: meta.NumPending,
	}, nil
}

// remove takes the consumer off the server, if it can. A reader needs no permission for it.
func (g *generation) remove(js jetstream.JetStream) {
	if !g.asked || js.Conn().IsClosed() || isRefusal(js.Conn().LastError(), "DELETE") {
		return
	}
	// Not that of Run: the courtesy is due after it too.
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	_ = js.DeleteConsumer(ctx, Stream, g.name)
}

var (
	// ErrNoBucket is in errors that say that the bucket does not exist.
	ErrNoBucket = errors.New("bucket " + Bucket + " does not exist: run the bootstrap, or look whether this is the right account")
	// ErrRefused is in errors that say that the server refused a request, or that nothing answers it.
	ErrRefused = errors.New("the NATS server does not let this user read the allowlist")
)

// explainRequest says what an error of a request about the bucket means. A refused request just has no answer; refusal is
// the reason, which comes aside, or nil.
func explainRequest(filter string, err, refusal error) error {
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return ErrNoBucket
	case errors.Is(err, context.DeadlineExceeded) && refusal != nil:
		return fmt.Errorf("consumer on %s: %w: %w", filter, ErrRefused, refusal)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("consumer on %s: %w: %w: JetStream is off, or the API prefix is not that of an import", filter, ErrRefused, err)
	default:
		return fmt.Errorf("consumer on %s: %w", filter, err)
	}
}

// refusedSince is the newest error of a connection, after a request, if that is why there was no answer; else nil: a refusal
// to create a consumer that was not there before the request, or one of the inbox, which a connection asks for once. A
// connection keeps its newest error for life, and each is a value of its own.
func refusedSince(before, after error) error {
	if refusesInbox(after) || !errors.Is(after, before) && isRefusal(after, "CREATE") {
		return after
	}
	return nil
}

// refusesInbox reports whether an error of a connection refuses it the subscription to which answers come.
func refusesInbox(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to ")
}

// isRefusal reports whether an error of a connection refuses this operation on consumers.
func isRefusal(err error, operation string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), ".CONSUMER."+operation+".")
}
