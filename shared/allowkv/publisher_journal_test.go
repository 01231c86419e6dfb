package allowkv_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// pubJournal watches every message that a stream stores and checks what no writer may break, in the stream's order.
type pubJournal struct {
	t    testing.TB
	keys allowlist.KeySet

	mu        sync.Mutex
	snapshot  allowlist.Snapshot
	digest    allowlist.Digest
	heartbeat allowlist.Heartbeat
	epochs    []uint64
	strangers int
}

// journal begins to watch; it must do so before there are writers.
func (w *pubWorld) journal() *pubJournal {
	w.t.Helper()
	j := &pubJournal{t: w.t, keys: w.keys}
	ctx, cancel := context.WithTimeout(w.t.Context(), pubPatience)
	defer cancel()
	consumer, err := w.js().OrderedConsumer(ctx, allowkv.Stream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		w.t.Fatal(err)
	}
	consuming, err := consumer.Consume(j.take)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		consuming.Stop()
		<-consuming.Closed()
	})
	return j
}

func (j *pubJournal) take(msg jetstream.Msg) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := strings.TrimPrefix(msg.Subject(), "$KV."+allowkv.Bucket+".")
	header := msg.Headers()
	if key == allowlist.SnapshotKey(pubGateway) {
		s, digest, err := allowlist.OpenSnapshot(msg.Data(), j.keys, pubGateway)
		if err != nil {
			j.strangers++
			return
		}
		if header.Get(jetstream.MsgTTLHeader) != "" {
			j.t.Errorf("snapshot %d.%d has a TTL", s.Epoch, s.Revision)
		}
		j.epoch(s.Epoch, s.Writer, true)
		if s.Epoch == j.snapshot.Epoch && s.Revision == j.snapshot.Revision && digest != j.digest {
			j.t.Errorf("revision %d of epoch %d is two lists", s.Revision, s.Epoch)
		}
		j.snapshot, j.digest = s, digest
	} else {
		h, err := allowlist.OpenHeartbeat(msg.Data(), j.keys, pubGateway)
		if err != nil {
			j.strangers++
			return
		}
		if header.Get(jetstream.MsgTTLHeader) == "" {
			j.t.Errorf("heartbeat %d.%d has no TTL", h.Epoch, h.Beat)
		}
		if h.Epoch < j.snapshot.Epoch {
			// The fencing write is on the other key: the writer before may still store a beat, until it is told by a
			// conflict. Readers refuse it as a rollback.
			return
		}
		j.epoch(h.Epoch, h.Writer, false)
		if h.Epoch == j.heartbeat.Epoch && h.Beat <= j.heartbeat.Beat {
			j.t.Errorf("beat %d of epoch %d after beat %d", h.Beat, h.Epoch, j.heartbeat.Beat)
		}
		if h.Revision != j.snapshot.Revision || h.Digest != j.digest {
			j.t.Errorf("a beat vouches for revision %d while %d is stored", h.Revision, j.snapshot.Revision)
		}
		j.heartbeat = h
	}
	if header.Get(jetstream.ExpectedStreamHeader) != allowkv.Stream || header.Get(jetstream.ExpectedLastSubjSeqHeader) == "" {
		j.t.Errorf("%s was written without its conditions: %v", key, header)
	}
}

// epoch checks rule W2: an epoch begins with a snapshot, is one writer's, and is over when the next one has begun.
func (j *pubJournal) epoch(epoch uint64, writer string, fences bool) {
	switch {
	case epoch < j.snapshot.Epoch:
		j.t.Errorf("a record of epoch %d was stored after one of epoch %d", epoch, j.snapshot.Epoch)
	case epoch > j.snapshot.Epoch && !fences:
		j.t.Errorf("epoch %d begins with a heartbeat", epoch)
	case epoch > j.snapshot.Epoch:
		j.epochs = append(j.epochs, epoch)
	case writer != j.snapshot.Writer:
		j.t.Errorf("epoch %d is written by %s and by %s", epoch, j.snapshot.Writer, writer)
	}
}

// terms waits until so many epochs have begun.
func (j *pubJournal) terms(n int) {
	j.t.Helper()
	pubUntil(j.t, "the fencing writes of all terms", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return len(j.epochs) >= n
	})
}
