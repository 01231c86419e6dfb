package broker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
)

const (
	// history is how many messages of a key the bucket keeps.
	history = 8
	// weight is how large they are here: so that the whole is more than a server sends ahead of its reader.
	weight = 512 << 10
)

// stored is a store with the bucket, of which each key is full, and the audit stream with one event.
var stored struct {
	sync.Mutex
	dir  string
	last map[string]uint64
}

// lastOf is the sequence of the newest message on a subject of the store that stock put in place.
func (b *broker) lastOf(subject string) (uint64, error) {
	last, known := stored.last[subject]
	if !known {
		return 0, fmt.Errorf("nothing is stored on %s", subject)
	}
	return last, nil
}

// fill makes the bucket, the audit stream and what is in them, as those who do that in an installation.
func (b *broker) fill(ctx context.Context) (last map[string]uint64, err error) {
	for _, name := range []string{"bootstrap makes the bucket", "bootstrap makes the audit stream and raises a bound"} {
		if err := empty[name](ctx, b); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	js, err := b.as("nswatch")
	if err != nil {
		return nil, err
	}
	last = map[string]uint64{}
	for range history {
		for _, subject := range []string{snapshot, heartbeat} {
			ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: make([]byte, weight)},
				// Not by compare-and-set: a copy of these could be stored, which TestTheTrickWorks shows.
				jetstream.WithExpectStream(allowkv.Stream))
			if err != nil {
				return nil, err
			}
			last[subject] = ack.Sequence
		}
	}
	return last, tell(ctx, b)
}

// stocked is a server of these files on a copy of the store. The error is why it does not start.
func stocked(t testing.TB, f files) (*broker, error) {
	t.Helper()
	stored.Lock()
	if stored.dir == "" {
		b := start(t, single(t))
		last, err := b.fill(t.Context())
		if err != nil {
			stored.Unlock()
			t.Fatalf("fill a server: %v", err)
		}
		b.stop()
		dir := filepath.Join(scratch, "store")
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.dir, "data"))); err != nil {
			t.Fatal(err)
		}
		stored.dir, stored.last = dir, last
	}
	stored.Unlock()
	b := newBroker(t)
	if err := os.CopyFS(filepath.Join(b.dir, "data"), os.DirFS(stored.dir)); err != nil {
		t.Fatal(err)
	}
	if err := b.run(f); err != nil {
		return nil, err
	}
	return b, nil
}
