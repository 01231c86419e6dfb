package allowkv_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// TestInspectWatchStartsAfreshInSilence: when no record comes for some seconds, another consumer is made, and nobody is
// bothered with it.
func TestInspectWatchStartsAfreshInSilence(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, s.URL(), signer)
	d.bucket(1)
	d.publish("team-a")
	conn, _ := connect(t, s.URL())
	var records, interruptions atomic.Int64
	inBackground(t, "the watch", func(ctx context.Context) error {
		return allowkv.InspectWatch(ctx, conn, keySet(t, signer), readerGateway, func(c allowkv.Change) {
			switch {
			case c.Record != nil:
				records.Add(1)
			case records.Load() > 0: // before that, there was no connection yet
				interruptions.Add(1)
			}
		})
	})
	seen := map[string]bool{}
	poll(t, "a second consumer", func() bool {
		stream, err := d.js.Stream(t.Context(), allowkv.Stream)
		if err != nil {
			return false
		}
		for name := range stream.ConsumerNames(t.Context()).Name() {
			seen[name] = true
		}
		return len(seen) > 1
	})
	d.publish("team-b")
	poll(t, "the next list", func() bool { return records.Load() > 1 })
	if records.Load() != 2 || interruptions.Load() != 0 {
		t.Errorf("%d records and %d interruptions were reported", records.Load(), interruptions.Load())
	}
}
