package allowkv

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	w := watch{keys: keys, gatewayID: gatewayID, report: report, seen: map[string]sighting{}}
	records := newFeed(conn, gatewayID, NewClock())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go records.run(ctx)
	silence := time.NewTimer(watchSilence)
	defer silence.Stop()
	for {
		select {
		case e := <-records.events:
			if ctx.Err() == nil {
				w.take(e)
				silence.Reset(watchSilence)
			}
		case <-silence.C:
			if w.current != nil {
				w.current.suspect(doubt{doubtSilence, errors.New("no record came for a while")})
			}
			silence.Reset(watchSilence)
		case <-records.done:
			return nil
		}
	}
}

// watchSilence is how long no record may come before an InspectWatch starts afresh although its server lives: a beat
// comes every second, and the server may be cut off from those that have the messages (NATS reference 4.1).
const watchSilence = 5 * time.Second

// watch is one InspectWatch.
type watch struct {
	keys      allowlist.KeySet
	gatewayID string
	report    func(Change)

	current     *generation
	seen        map[string]sighting
	interrupted string // the text of the last interruption, when nothing came since
}

func (w *watch) take(e feedEvent) {
	switch {
	case e.end != nil:
		w.current = nil
		// A writer that is silent interrupts nothing, and the start afresh brings what was missed.
		if text := e.end.Error(); text != w.interrupted && e.end.cause != doubtSilence {
			w.interrupted = text
			w.report(Change{Interrupted: e.end})
		}
	case e.message != nil:
		w.interrupted = ""
		r := judge(e.message, w.keys, w.gatewayID)
		if now := sightingOf(&r); w.seen[r.Key] != now {
			remember(w.seen, r.Key, now)
			w.report(Change{Record: &r})
		}
	default:
		w.current = e.generation
	}
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
