package allowkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

const (
	// inspectTimeout bounds one Inspect.
	inspectTimeout = 10 * time.Second
	// inspectMessages and inspectBytes bound what one Inspect reads: many times what the bucket keeps of two keys.
	inspectMessages = 256
	inspectBytes    = 64 << 20
	// inspectQuiet is how long nothing may come before what has come is doubted.
	inspectQuiet = 2 * time.Second
)

// KeptRecord is one message of a key as the bucket keeps it, judged by itself: by its signature and form, not by what
// came before it.
type KeptRecord struct {
	Key string
	// Sequence of the message in the stream, and when it was stored, by the server's clock.
	Sequence uint64
	Stored   time.Time
	// Operation is what the message does to its key; only a put has a value.
	Operation allowlist.Operation
	// Size of the value in bytes.
	Size int
	// Err is why the record does not count; nil when it is verified, and when the message is no put.
	Err error
	// Snapshot and its Digest, or Heartbeat, of a verified record; nil otherwise.
	Snapshot  *allowlist.Snapshot
	Digest    allowlist.Digest
	Heartbeat *allowlist.Heartbeat
}

// Verified reports that the record is one that a reader could accept.
func (r *KeptRecord) Verified() bool { return r.Snapshot != nil || r.Heartbeat != nil }

// PublishedAt is the writer's wall clock in a verified record; zero otherwise.
func (r *KeptRecord) PublishedAt() time.Time {
	switch {
	case r.Snapshot != nil:
		return r.Snapshot.PublishedAt
	case r.Heartbeat != nil:
		return r.Heartbeat.PublishedAt
	default:
		return time.Time{}
	}
}

// Inspection is what the bucket holds of one gateway. It is for people: no decision rests on it, and it says nothing of
// what a Reader, which has seen more and waits for beats, would answer.
type Inspection struct {
	GatewayID string
	// Snapshots and Heartbeats are the kept messages of the two keys, newest first: the list with its earlier
	// revisions, as far as the bucket's history goes. Empty when nothing was ever written.
	Snapshots, Heartbeats []KeptRecord
	// ServerTime and LocalTime are the server's and the local wall clock when the reading began.
	ServerTime, LocalTime time.Time
}

// ServerAge is how long before the inspection a record was stored, all by the server's clock.
func (i *Inspection) ServerAge(r *KeptRecord) time.Duration { return i.ServerTime.Sub(r.Stored) }

// LocalAge is how long before the inspection a verified record was published, by the clocks of the writer and of this
// machine, which may disagree.
func (i *Inspection) LocalAge(r *KeptRecord) time.Duration { return i.LocalTime.Sub(r.PublishedAt()) }

// Inspect reads everything that the bucket keeps of one gateway. It needs the rights of a reader and no more (NATS
// reference 5.2). A bucket without records of the gateway is no error and gives an empty Inspection; ErrNoBucket and
// ErrRefused are in the errors of the other two. It gives everything or an error, and takes 10 seconds at most.
func Inspect(ctx context.Context, js jetstream.JetStream, keys allowlist.KeySet, gatewayID string) (Inspection, error) {
	if err := allowlist.CheckGatewayID(gatewayID); err != nil {
		return Inspection{}, fmt.Errorf("inspect the allowlist: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	for {
		found, err := inspectOnce(ctx, js, keys, gatewayID)
		if errors.Is(err, errIncomplete) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return Inspection{}, fmt.Errorf("inspect the allowlist of gateway %s: %w", gatewayID, err)
		}
		return found, nil
	}
}

// errIncomplete says that a message that was announced did not come; it may have expired meanwhile.
var errIncomplete = errors.New("the bucket announced a message and did not deliver it")

func inspectOnce(ctx context.Context, js jetstream.JetStream, keys allowlist.KeySet, gatewayID string) (Inspection, error) {
	found := Inspection{GatewayID: gatewayID, LocalTime: time.Now()}
	g := newGeneration(filterOf(gatewayID), jetstream.DeliverAllPolicy)
	defer g.remove(js)
	if err := g.create(ctx, js); err != nil {
		return Inspection{}, err
	}
	info := g.consumer.CachedInfo()
	found.ServerTime = info.TimeStamp
	if info.NumPending == 0 {
		return found, nil
	}
	if info.NumPending > inspectMessages {
		return Inspection{}, fmt.Errorf("%d messages are kept, more than %d: this is not the bucket that bootstrap makes", info.NumPending, inspectMessages)
	}
	messages, err := collect(ctx, g)
	if err != nil {
		return Inspection{}, err
	}
	for _, m := range messages {
		switch r := judge(m, keys, gatewayID); r.Key {
		case allowlist.SnapshotKey(gatewayID):
			found.Snapshots = append(found.Snapshots, r)
		case allowlist.HeartbeatKey(gatewayID):
			found.Heartbeats = append(found.Heartbeats, r)
		}
	}
	slices.Reverse(found.Snapshots)
	slices.Reverse(found.Heartbeats)
	return found, nil
}

// collect returns all messages of a consumer, up to the first that has none after it.
func collect(ctx context.Context, g *generation) ([]*message, error) {
	came := make(chan *message)
	stop, err := g.consume(func(m *message) {
		select {
		case came <- m:
		case <-g.over:
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	quiet := time.NewTimer(inspectQuiet)
	defer quiet.Stop()
	var all []*message
	for size := 0; ; {
		select {
		case m := <-came:
			all = append(all, m)
			if size += len(m.value); size > inspectBytes || len(all) > inspectMessages {
				return nil, fmt.Errorf("more than %d messages or %d bytes are kept: this is not the bucket that bootstrap makes", inspectMessages, inspectBytes)
			}
			if m.pending == 0 {
				return all, nil
			}
			quiet.Reset(inspectQuiet)
		case <-quiet.C:
			return nil, errIncomplete
		case d := <-g.doubts:
			return nil, d
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// judge opens a message by itself.
func judge(m *message, keys allowlist.KeySet, gatewayID string) KeptRecord {
	r := KeptRecord{Key: m.key, Sequence: m.sequence, Stored: m.stored, Operation: m.operation, Size: len(m.value)}
	if m.operation != allowlist.OperationPut {
		return r
	}
	switch m.key {
	case allowlist.SnapshotKey(gatewayID):
		s, digest, err := allowlist.OpenSnapshot(m.value, keys, gatewayID)
		if r.Err = err; err == nil {
			r.Snapshot, r.Digest = &s, digest
		}
	case allowlist.HeartbeatKey(gatewayID):
		h, err := allowlist.OpenHeartbeat(m.value, keys, gatewayID)
		if r.Err = err; err == nil {
			r.Heartbeat = &h
		}
	default:
		r.Err = errors.New("it is on a key that is none of the gateway's")
	}
	return r
}
