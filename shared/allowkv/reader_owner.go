package allowkv

import (
	"context"
	"errors"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

const (
	// silentBeats is after how many intervals without a message a consumer is suspected although its server lives: the
	// server may be cut off from those that have the messages (NATS reference 4.1).
	silentBeats  = 5
	leastSilence = 2 * time.Second
	// agingLimit is from which age of the newest beat on a reader warns.
	agingLimit = 5 * time.Second
	// keysPoll is how often the file with the public keys is read.
	keysPoll = time.Second
	// keysPollLeast is how long after a reading of that file a list that comes causes no other.
	keysPollLeast = 100 * time.Millisecond
	// marksRetry is how long marks that could not be stored, and have not changed since, wait for the next try: each is a
	// write to a disk that may be full.
	marksRetry = time.Second
)

// readerOwner owns the state machine of a Reader. Once Run has begun, only Run's goroutine uses it.
type readerOwner struct {
	reader  *Reader
	machine *allowlist.Reader
	clock   Clock
	log     readerLog
	metrics *readerMetrics
	keys    publicKeys
	marks   marksFile

	silence, aging time.Duration

	last    allowlist.Instant
	current *generation
	heard   time.Duration // when the current generation began, or its newest message came
	proven  time.Duration // issue of the newest proof, or zero: the beginning of the clock
	trouble error
	// bounded is the last View whose marks are stored.
	bounded  *allowlist.View
	unstored error
	tried    time.Duration // when the marks were to be stored last
	polled   time.Duration // when the public keys were read last
}

// run ends with ctx.
func (o *readerOwner) run(ctx context.Context, records *feed) {
	o.trouble = errNotAnswered
	tick := time.NewTicker(min(max(o.reader.interval/4, 25*time.Millisecond), 250*time.Millisecond))
	defer tick.Stop()
	keys := time.NewTicker(keysPoll)
	defer keys.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-records.events:
			o.take(e)
		case <-tick.C:
			o.tick()
		case <-keys.C:
			o.pollKeys()
		}
	}
}

// take processes what the feed tells.
func (o *readerOwner) take(e feedEvent) {
	switch {
	case e.message != nil:
		if e.generation != o.current {
			return // thrown away meanwhile
		}
		o.heard = e.at.Mono
		if e.message.key == allowlist.SnapshotKey(o.reader.gatewayID) && e.at.Mono-o.polled >= keysPollLeast {
			// A writer with a key that was added just now begins with a list. The gate must not close over it.
			o.pollKeys()
		}
		o.step(e.at, allowlist.Record{Key: e.message.key, Operation: e.message.operation, Value: e.message.value})
	case e.end != nil:
		o.current, o.trouble = nil, *e.end
		if e.generation != nil {
			o.metrics.generations.WithLabelValues(string(e.end.cause)).Inc()
			o.log.ended(*e.end, e.at.Mono)
		}
		o.step(e.at, allowlist.Tick{})
	default:
		o.current, o.trouble, o.heard = e.generation, nil, e.at.Mono
		o.metrics.consumers.Inc()
		o.step(e.at, allowlist.Rebuilt{})
	}
}

func (o *readerOwner) tick() {
	at := o.clock()
	if o.current != nil && at.Mono-o.heard > o.silence {
		o.current.suspect(doubt{doubtSilence, errors.New("no message came for several heartbeat intervals")})
	}
	o.step(at, allowlist.Tick{})
}

// step drives the machine and does what it asks for, marks first (rule R2).
func (o *readerOwner) step(at allowlist.Instant, event allowlist.Event) {
	// A message that waited behind a tick came before it. It counts as come with the tick: to the machine, a clock that
	// goes back is a clock that is broken.
	if at.Mono < o.last.Mono {
		at = o.last
	}
	o.last = at
	e := o.machine.Step(at, event)
	for _, f := range e.Findings {
		o.metrics.findings.WithLabelValues(f.Kind.String(), f.Cause.String()).Inc()
		o.log.finding(f, at.Mono)
	}
	if e.Persist || o.unstored != nil && at.Mono-o.tried >= marksRetry {
		o.tried = at.Mono
		o.storeMarks()
	}
	if e.Resync && o.current != nil {
		o.current.suspect(doubt{doubtResync, errors.New("the list does not become fresh")})
	}
	o.publish(at)
}

// publish makes the machine's state the one that answers come from. While the marks cannot be stored nothing is granted
// that was not granted by the list whose marks are: a full disk does not close the gate at once, lets every removal
// through, and a restart cannot go back behind an answer that rested on the disk. A reader that could never store
// anything stays closed.
func (o *readerOwner) publish(at allowlist.Instant) {
	view, status := o.machine.View(), o.machine.Status(at)
	if o.unstored == nil {
		o.bounded = view
	} else {
		view = view.Within(o.bounded)
	}
	before := o.reader.publish(readerReport{at: at, view: view, status: status, trouble: o.trouble, unstored: o.unstored})
	if status.Proven {
		o.proven = at.Mono - status.Age
	}
	age := at.Mono - o.proven
	now := view.Condition(at)
	aging := now.State == allowlist.Fresh && age >= o.aging
	o.metrics.show(now, status, age, aging)
	o.log.condition(before, now, status, o.trouble)
	o.log.aging(aging, age)
}

// shut denies from now on: nobody keeps the list any more.
func (o *readerOwner) shut() {
	report := readerReport{at: o.clock(), view: &allowlist.View{}, trouble: errNotRunning}
	o.reader.publish(report)
	o.metrics.show(report.view.Condition(report.at), report.status, report.at.Mono-o.proven, false)
}

// loadMarks is zero when there are none that can be read.
func (o *readerOwner) loadMarks() allowlist.Marks {
	marks, err := o.marks.load()
	o.metrics.marksStored.Set(1)
	if err != nil {
		o.metrics.marksErrors.WithLabelValues(marksRead).Inc()
		o.log.Error().Err(err).Msg("starting without high-water marks: a rollback is only noticed by its age")
	}
	return marks
}

func (o *readerOwner) storeMarks() {
	err := o.marks.store(o.machine.Marks())
	switch {
	case err == nil && o.unstored != nil:
		o.log.Info().Msg("the high-water marks are stored again")
	case err != nil && o.unstored == nil:
		o.log.Error().Err(err).Msg("the high-water marks cannot be stored: no namespace is added until they are")
	}
	o.unstored = err
	if err != nil {
		o.metrics.marksErrors.WithLabelValues(marksWrite).Inc()
		o.metrics.marksStored.Set(0)
		return
	}
	o.metrics.marksStored.Set(1)
}

// pollKeys replaces the keys when the file has others. A file that cannot be used changes nothing.
func (o *readerOwner) pollKeys() {
	o.polled = o.clock().Mono
	set, changed, err := o.keys.poll()
	logKeysTrouble(&o.log.Logger, err, o.keys.broken)
	o.keys.broken = err != nil
	o.metrics.showKeys(err == nil)
	if err != nil || !changed {
		return
	}
	o.log.Info().Strs(logKeyIDs, keyIDs(set)).Msg("the public keys have changed")
	o.step(o.clock(), allowlist.Rekeyed{Keys: set})
}
