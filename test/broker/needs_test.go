package broker_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// subjectOf is where a key of the bucket is stored.
func subjectOf(key string) string { return "$KV." + allowkv.Bucket + "." + key }

var (
	snapshot  = subjectOf(allowlist.SnapshotKey(gatewayID))
	heartbeat = subjectOf(allowlist.HeartbeatKey(gatewayID))
)

// need is something that an identity must be able to do. It is an error that it cannot.
type need func(ctx context.Context, b *broker) error

// empty are the needs that begin on an empty server.
var empty = map[string]need{
	"bootstrap makes the bucket": func(ctx context.Context, b *broker) error {
		js, err := b.as("bootstrap")
		if err != nil {
			return err
		}
		created, err := allowkv.Bootstrap(ctx, js, 1)
		if err == nil && !created {
			err = errors.New("it was there")
		}
		return err
	},
	"bootstrap makes the audit stream and raises a bound": func(ctx context.Context, b *broker) error {
		js, err := b.as("bootstrap")
		if err != nil {
			return err
		}
		for _, age := range []time.Duration{time.Hour, 2 * time.Hour} {
			cfg := audit.DefaultConfig()
			cfg.MaxAge = driverconf.Duration(age)
			if _, err := audit.Bootstrap(ctx, js, cfg); err != nil {
				return err
			}
		}
		return nil
	},
}

// filled are the needs that begin on a server with the bucket, of which each key is full, and the audit stream.
var filled = map[string]need{
	"nswatch writes the snapshot":  write(snapshot),
	"nswatch writes the heartbeat": write(heartbeat),
	"nswatch reads what the leader of the stream has": func(ctx context.Context, b *broker) error {
		js, err := b.as("nswatch")
		if err != nil {
			return err
		}
		_, err = newest(ctx, js, allowkv.Stream, snapshot)
		return err
	},
	"tokenauth reads the list":                readList("tokenauth"),
	"lifecycle reads the list":                readList("lifecycle"),
	"gateway reads the list":                  readList("gateway"),
	"operator reads the list":                 readList("operator"),
	"tokenauth removes its consumer":          tidy("tokenauth", allowkv.Stream, subjectOf(gatewayID+".*")),
	"lifecycle removes its consumer":          tidy("lifecycle", allowkv.Stream, subjectOf(gatewayID+".*")),
	"gateway removes its consumer":            tidy("gateway", allowkv.Stream, subjectOf(gatewayID+".*")),
	"operator removes a consumer of the list": tidy("operator", allowkv.Stream, subjectOf(">")),
	"operator removes a consumer of events":   tidy("operator", audit.Stream, "portcullis.audit.>"),
	"tokenauth tells of a decision":           tell,
	"operator gets a key": ofBucket(func(ctx context.Context, kv jetstream.KeyValue) error {
		return entry(kv.Get(ctx, allowlist.SnapshotKey(gatewayID)))
	}),
	"operator gets a revision": ofBucket(func(ctx context.Context, kv jetstream.KeyValue) error {
		return entry(kv.GetRevision(ctx, allowlist.SnapshotKey(gatewayID), 3))
	}),
	"operator lists the keys":    ofBucket(listKeys),
	"operator reads the history": ofBucket(readHistory),
	"operator sees the newest as the leader of the stream has it": func(ctx context.Context, b *broker) error {
		js, err := b.as("operator")
		if err != nil {
			return err
		}
		_, err = newest(ctx, js, allowkv.Stream, snapshot)
		return err
	},
	"operator looks at the audit stream": ofEvents(func(ctx context.Context, stream jetstream.Stream) error {
		_, err := stream.Info(ctx)
		return err
	}),
	"operator gets an event": func(ctx context.Context, b *broker) error {
		js, err := b.as("operator")
		if err != nil {
			return err
		}
		_, err = newest(ctx, js, audit.Stream, audit.Subject(gatewayID, "tokenauth"))
		return err
	},
	"operator follows the events": followEvents,
}

// write is that nswatch stores a value, by compare-and-set and in the named stream, as it does.
func write(subject string) need {
	return func(ctx context.Context, b *broker) error {
		js, err := b.as("nswatch")
		if err != nil {
			return err
		}
		last, err := b.lastOf(subject)
		if err != nil {
			return err
		}
		_, err = js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte("x")},
			jetstream.WithExpectStream(allowkv.Stream), jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithRetryAttempts(0))
		return err
	}
}

// newest is the last message on a subject of a stream, as its leader has it.
func newest(ctx context.Context, js jetstream.JetStream, stream, subject string) (sequence uint64, err error) {
	reply, err := js.Conn().RequestWithContext(ctx, apiPrefix+".STREAM.MSG.GET."+stream, fmt.Appendf(nil, `{"last_by_subj":%q}`, subject))
	if err != nil {
		return 0, err
	}
	var answer struct {
		Message struct {
			Sequence uint64 `json:"seq"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return 0, err
	}
	if answer.Error != nil {
		return 0, answer.Error
	}
	return answer.Message.Sequence, nil
}

// readList is that an identity sees every message of the gateway's keys, as a reader and nswatch allowlist show do.
func readList(who string) need {
	return func(ctx context.Context, b *broker) error {
		js, err := b.as(who)
		if err != nil {
			return err
		}
		signer, err := allowlist.GenerateSigner(rand.Reader)
		if err != nil {
			return err
		}
		keys, err := allowlist.NewKeySet(signer.Public())
		if err != nil {
			return err
		}
		found, err := allowkv.Inspect(ctx, js, keys, gatewayID)
		for errors.Is(err, jetstream.ErrNoHeartbeat) && ctx.Err() == nil { // on a machine that has no time for the server
			found, err = allowkv.Inspect(ctx, js, keys, gatewayID)
		}
		if err == nil && (len(found.Snapshots) != history || len(found.Heartbeats) != history) {
			err = fmt.Errorf("saw %d snapshots and %d heartbeats", len(found.Snapshots), len(found.Heartbeats))
		}
		return err
	}
}

// tidy is that an identity removes a consumer that it made.
func tidy(who, stream, filter string) need {
	return func(ctx context.Context, b *broker) error {
		js, err := b.as(who)
		if err != nil {
			return err
		}
		c, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
			Name: "own-" + rand.Text(), FilterSubject: filter, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Minute,
		})
		if err != nil {
			return err
		}
		return js.DeleteConsumer(ctx, stream, c.CachedInfo().Name)
	}
}

// tell is that an event of tokenauth is acknowledged by the stream.
func tell(ctx context.Context, b *broker) error {
	js, err := b.as("tokenauth")
	if err != nil {
		return err
	}
	_, err = js.PublishMsg(ctx, &nats.Msg{Subject: audit.Subject(gatewayID, "tokenauth"), Data: []byte("{}")},
		jetstream.WithExpectStream(audit.Stream), jetstream.WithRetryAttempts(0))
	return err
}

// ofBucket is what the operator does with the bucket.
func ofBucket(do func(context.Context, jetstream.KeyValue) error) need {
	return func(ctx context.Context, b *broker) error {
		js, err := b.as("operator")
		if err != nil {
			return err
		}
		kv, err := js.KeyValue(ctx, allowkv.Bucket)
		if err != nil {
			return err
		}
		return do(ctx, kv)
	}
}

func entry(e jetstream.KeyValueEntry, err error) error {
	if err == nil && len(e.Value()) == 0 {
		err = errors.New("it is empty")
	}
	return err
}

func listKeys(ctx context.Context, kv jetstream.KeyValue) error {
	keys, err := kv.Keys(ctx)
	slices.Sort(keys)
	if err == nil && !slices.Equal(keys, []string{allowlist.HeartbeatKey(gatewayID), allowlist.SnapshotKey(gatewayID)}) {
		err = fmt.Errorf("it sees %q", keys)
	}
	return err
}

// readHistory gets so much at once that the server waits for the reader on the way.
func readHistory(ctx context.Context, kv jetstream.KeyValue) error {
	watch, err := kv.WatchAll(ctx, jetstream.IncludeHistory())
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }()
	for seen := 0; ; seen++ {
		select {
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return errors.New("the watch has ended")
			case e != nil:
				continue
			case seen != 2*history:
				return fmt.Errorf("it saw %d messages", seen)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("it hangs after %d messages: %w", seen, ctx.Err())
		}
	}
}

// ofEvents is what the operator does with the audit stream.
func ofEvents(do func(context.Context, jetstream.Stream) error) need {
	return func(ctx context.Context, b *broker) error {
		js, err := b.as("operator")
		if err != nil {
			return err
		}
		stream, err := js.Stream(ctx, audit.Stream)
		if err != nil {
			return err
		}
		return do(ctx, stream)
	}
}

func followEvents(ctx context.Context, b *broker) error {
	js, err := b.as("operator")
	if err != nil {
		return err
	}
	c, err := js.CreateConsumer(ctx, audit.Stream, jetstream.ConsumerConfig{
		Name: "own-" + rand.Text(), FilterSubject: "portcullis.audit.>", AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	batch, err := c.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		return err
	}
	for range batch.Messages() {
		return nil
	}
	return errors.Join(errors.New("no event came"), batch.Error())
}
