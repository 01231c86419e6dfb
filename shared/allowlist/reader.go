package allowlist

import (
	"errors"
	"fmt"
	"time"
)

// Reader is the state machine of one reader of one gateway's list (rules R1 to R8 without the consumer). It is told
// events and instants, and it makes Views. It is not safe for concurrent use: one goroutine owns it.
type Reader struct {
	gatewayID                 string
	snapshotKey, heartbeatKey string
	keys                      KeySet
	interval, maxStaleness    time.Duration
	maxSkew                   time.Duration

	clocks clocks
	marks  Marks
	// epoch is the one that transit, trial and issued are about.
	epoch   uint64
	transit transit
	trial   trial
	issued  time.Duration // of the newest accepted beat, on the writer's clock
	by      PublicKey     // that signed it, live or not
	late    time.Duration // how much later than the quickest it was

	held *heldList
	beat *heldBeat
	// proof is nil after anything that ends Fresh; only a qualified beat for the held list makes a new one.
	proof *proof

	snapshotFault, heartbeatFault fault
	withdrawn                     bool
	suspect                       bool // the clocks could not be trusted, and no trial was passed since

	resync resync
	last   Condition
	view   *View
}

// heldList is the newest accepted snapshot.
type heldList struct {
	stamp  stamp
	digest Digest
	by     PublicKey
	uids   map[string]string

	writer      string
	publishedAt time.Time
	source      Source
}

// heldBeat is the newest accepted beat, as long as it may prove something.
type heldBeat struct {
	stamp            stamp
	digest           Digest
	issued, deadline time.Duration // on the reader's clock
	qualified        bool          // the trial was passed when it came
}

// proof is a list and the beat that vouches for it (rule R3).
type proof struct {
	list             *heldList
	by               PublicKey // that signed the beat
	issued, deadline time.Duration
}

// fault is what is wrong with the current value of a key.
type fault uint8

const (
	sound fault = iota
	gone        // rule R6
	spent       // rule R6: a heartbeat whose time in the bucket was up
	bad         // rule R1
)

// NewReader makes a reader of the list of gatewayID, with the marks of an earlier life or zero Marks. It denies until
// the records prove otherwise. The error is a setting that is not valid.
func NewReader(gatewayID string, keys KeySet, settings Settings, marks Marks) (*Reader, error) {
	if err := CheckGatewayID(gatewayID); err != nil {
		return nil, fmt.Errorf("allowlist reader: %w", err)
	}
	if len(keys.keys) == 0 {
		return nil, errors.New("allowlist reader: no public key: without one no record can be verified")
	}
	if err := checkSettings(settings); err != nil {
		return nil, err
	}
	if err := marks.check(); err != nil {
		return nil, fmt.Errorf("allowlist reader: high-water marks: %w", err)
	}
	return &Reader{
		gatewayID: gatewayID, snapshotKey: SnapshotKey(gatewayID), heartbeatKey: HeartbeatKey(gatewayID), keys: keys,
		interval: settings.HeartbeatInterval.Std(), maxStaleness: settings.MaxStaleness.Std(), maxSkew: settings.MaxClockSkew.Std(),
		marks: marks, last: unsynced(), view: &View{},
	}, nil
}

// Effects are what a Step asks of the shell.
type Effects struct {
	// From and To are the conditions before and after; equal when nothing changed.
	From, To Condition
	// Resync asks for the consumer to be thrown away and started afresh (rules R5, R7), or for the records to be
	// delivered again because the keys have changed.
	Resync bool
	// Persist asks for the Marks to be stored before the View is used (rule R2). A new list, epoch or fork sets it; a
	// beat alone does not.
	Persist bool
	// Findings are to be counted and logged.
	Findings []Finding
}

func (e *Effects) find(kind FindingKind, key string, err error) {
	e.Findings = append(e.Findings, Finding{Kind: kind, Key: key, Cause: CauseOf(err), Err: err})
}

// Step tells the reader that event happened at the instant at. Afterwards View and Marks are those of the new state.
func (r *Reader) Step(at Instant, event Event) Effects {
	e := Effects{From: r.last}
	before := r.marks
	if !r.clocks.started {
		r.resync.since = at.Mono
	}
	r.watchClocks(at, &e)
	switch event := event.(type) {
	case Record:
		r.record(at, event, &e)
	case Rebuilt:
		r.resync.since = at.Mono
	case Suspended:
		e.find(FoundSleep, "", nil)
		r.distrust(false)
	case Rekeyed:
		r.rekey(event.Keys, &e)
	case Tick:
	}
	e.To = r.condition(at.Mono)
	e.Resync = r.resync.due(at.Mono, e.To, r.told(at.Mono), r.interval, r.maxStaleness)
	before.Beat = r.marks.Beat // a beat alone is not worth a write per second: rule R4 covers its loss
	e.Persist = before != r.marks
	r.last = e.To
	r.view = r.makeView(e.To)
	return e
}

// told says that the writer was heard lately and has itself said why nothing is granted: a fresh consumer would hear
// the same.
func (r *Reader) told(now time.Duration) bool {
	return (r.withdrawn || r.marks.Forked) && r.transit.known && now-r.transit.at < r.maxStaleness
}

// watchClocks looks for a sleep, a stall or a step (rule R4).
func (r *Reader) watchClocks(at Instant, e *Effects) {
	switch r.clocks.observe(at, r.maxStaleness, r.maxSkew) {
	case steady:
		r.age(r.clocks.ahead)
	case stalled:
		e.find(FoundStall, "", nil)
		r.distrust(false)
	case slept:
		e.find(FoundSleep, "", nil)
		r.distrust(false)
		r.transit.behind(r.clocks.lost)
	case regressed:
		e.find(FoundClockBack, "", nil)
		r.distrust(false)
		r.resync.since = at.Mono // it lay in the future
	case stepped:
		// The wall clock is not what it was; beats still have to show that this machine was not paused.
		e.find(FoundClockStep, "", nil)
		r.distrust(true)
	}
}

// age is for a wall clock that went ahead by less than wall clocks may differ. The machine may have been stopped for
// that long with all its other clocks, so everything that is proven is taken to be older by that much; and beats may
// come that much later from now on and not look it, so it counts as a rise of the smallest transit.
func (r *Reader) age(d time.Duration) {
	if d == 0 {
		return
	}
	if r.beat != nil {
		r.beat.issued, r.beat.deadline = r.beat.issued-d, r.beat.deadline-d
	}
	if p := r.proof; p != nil {
		r.proof = &proof{list: p.list, by: p.by, issued: p.issued - d, deadline: p.deadline - d}
	}
	r.transit.trusted -= d
}

// distrust ends Fresh until beats have passed the trial again. noWall leaves the wall clock out of it.
func (r *Reader) distrust(noWall bool) {
	// A trial that still needs the wall clock goes on needing it.
	noWall = noWall && (r.trial.passed || r.trial.noWall)
	r.trial = trial{noWall: noWall}
	r.suspect = true
	r.beat, r.proof = nil, nil
}

// View is the immutable view of the newest state.
func (r *Reader) View() *View { return r.view }

// Marks are the high-water marks of the newest state.
func (r *Reader) Marks() Marks { return r.marks }

// condition is the state at the monotonic instant now. The first thing that denies names the reason.
func (r *Reader) condition(now time.Duration) Condition {
	switch {
	case r.marks.Forked:
		return forked()
	case r.snapshotFault == bad || r.heartbeatFault == bad:
		return invalid()
	case r.snapshotFault == gone || r.heartbeatFault == gone || r.withdrawn:
		return withdrawn()
	case r.heartbeatFault == spent:
		return stale()
	case r.behind():
		return behind()
	case r.proof == nil && r.suspect:
		return stale()
	case r.proof == nil:
		return unsynced()
	case expired(now, r.proof.deadline):
		return stale()
	default:
		return fresh()
	}
}

// behind reports that the newest beat names a list that is not held (rule R5).
func (r *Reader) behind() bool {
	return r.beat != nil && (r.held == nil || r.held.stamp.compare(r.beat.stamp) < 0)
}

func (r *Reader) makeView(c Condition) *View {
	v := &View{condition: c, wall: r.clocks.wall}
	if r.held != nil {
		v.stamp = r.held.stamp
	}
	if r.proof == nil {
		return v
	}
	v.vouched, v.issued, v.deadline = true, r.proof.issued, r.proof.deadline
	v.proven = r.proof.list.uids
	if r.held != r.proof.list {
		v.pending = r.held.uids
	}
	return v
}
