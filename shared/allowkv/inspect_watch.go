package allowkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// Change is one thing that InspectWatch saw. It is for people: no decision rests on it.
type Change struct {
	// Record that came; nil when the reading was interrupted.
	Record *KeptRecord
	// Interrupted is why nothing comes for now; nil when a record came. Reading starts afresh by itself.
	Interrupted error
}

// InspectWatch reports the newest record of each key, and every record from then on, until ctx ends; then it returns
// nil once all that it started has ended. On any doubt it starts afresh (rule R7); a record that was reported before is
// not reported again, and what was stored and replaced in between is not seen. report is called by one goroutine and may
// take its time. The error is an id that names no gateway.
func InspectWatch(ctx context.Context, conn Connection, keys allowlist.KeySet, gatewayID string, report func(Change)) error {
	if err := allowlist.CheckGatewayID(gatewayID); err != nil {
		return fmt.Errorf("watch the allowlist: %w", err)
	}
	if conn == nil {
		return errors.New("watch the allowlist: no connection was given")
	}
	records := newFeed(conn, gatewayID, NewClock())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go records.run(ctx)
	seen := map[string]sighting{}
	interrupted := ""
	for e := range records.events { // closed when run has ended
		switch {
		case ctx.Err() != nil:
		case e.end != nil:
			if text := e.end.Error(); text != interrupted {
				interrupted = text
				report(Change{Interrupted: e.end})
			}
		case e.message != nil:
			interrupted = ""
			r := judge(e.message, keys, gatewayID)
			if now := sightingOf(&r); seen[r.Key] != now {
				remember(seen, r.Key, now)
				report(Change{Record: &r})
			}
		}
	}
	return nil
}

// sighting tells two messages of a key apart, also those of two streams.
type sighting struct {
	sequence uint64
	stored   int64
}

func sightingOf(r *KeptRecord) sighting { return sighting{r.Sequence, r.Stored.UnixNano()} }

// maxStrays bounds the memory of keys that are none of the gateway's.
const maxStrays = 64

func remember(seen map[string]sighting, key string, s sighting) {
	if _, known := seen[key]; !known && len(seen) >= maxStrays {
		return
	}
	seen[key] = s
}
