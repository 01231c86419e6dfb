package allowlist

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// seen is one thing that a reader was told, with everything about it that is true.
type seen struct {
	at  Instant
	gap gapKind // what happened to the clocks just before

	key   string // empty for a tick
	gone  bool
	spent bool // gone, because its time in the bucket was up
	valid bool // well formed and signed with a configured key

	stamp  stamp
	digest Digest
	names  map[string]bool // of a snapshot

	beat      uint64 // of a heartbeat; zero for a snapshot
	issued    time.Duration
	published time.Time
	withdrawn bool
}

type gapKind uint8

const (
	noGap   gapKind = iota
	fullGap         // a sleep or a stall: the trial is due, with the wall clock
	stepGap         // the wall clock stepped: the trial is due, without it
)

// history is everything that a reader was ever told. Every answer is found by searching it from the start: this is the
// protocol's text, as directly as code can say it, and slow. It keeps two things that never change again: which events
// were accepted, and which of them passed the trial.
type history struct {
	events                          []seen
	ok, passed                      []bool
	interval, maxStaleness, maxSkew time.Duration
}

func (h *history) add(e seen) {
	h.events = append(h.events, e)
	h.ok = append(h.ok, h.accepts(len(h.events)-1))
	h.passed = append(h.passed, h.passes(len(h.events)-1))
}

// higher says that a names a later list than b.
func higher(a, b stamp) bool {
	return a.epoch > b.epoch || a.epoch == b.epoch && a.revision > b.revision
}

// accepts is rules R1 and R2 for event i.
func (h *history) accepts(i int) bool {
	e := h.events[i]
	if e.key == "" || e.gone || !e.valid {
		return false
	}
	for j, o := range h.events[:i] {
		bothBeats := e.beat > 0 && o.beat > 0 && o.stamp.epoch == e.stamp.epoch
		if h.ok[j] && (higher(o.stamp, e.stamp) || o.stamp == e.stamp && o.digest != e.digest ||
			bothBeats && (o.beat >= e.beat || o.issued > e.issued)) {
			return false
		}
	}
	return true
}

// last is the highest index below end for which is holds; -1 when there is none.
func (h *history) last(end int, is func(i int, e seen) bool) int {
	for i := end - 1; i >= 0; i-- {
		if is(i, h.events[i]) {
			return i
		}
	}
	return -1
}

func (h *history) lastList(end int) int {
	return h.last(end, func(i int, e seen) bool { return h.ok[i] && e.beat == 0 })
}

func (h *history) lastBeat(end int) int {
	return h.last(end, func(i int, e seen) bool { return h.ok[i] && e.beat > 0 })
}

// forks says that event i contradicts the highest list before it.
func (h *history) forks(i int) bool {
	e := h.events[i]
	if e.key == "" || e.gone || !e.valid {
		return false
	}
	contradicts := false
	for j, o := range h.events[:i] {
		if h.ok[j] && higher(o.stamp, e.stamp) {
			return false
		}
		contradicts = contradicts || h.ok[j] && o.stamp == e.stamp && o.digest != e.digest
	}
	return contradicts
}

// forked says that a fork lasts before end.
func (h *history) forked(end int) bool {
	f := h.last(end, func(i int, _ seen) bool { return h.forks(i) })
	return f >= 0 && h.last(end, func(i int, e seen) bool { return i > f && h.ok[i] && e.stamp.epoch > h.events[f].stamp.epoch }) < 0
}

// keyFault is what the current value of a key is, before end.
func (h *history) keyFault(end int, key string) fault {
	i := h.last(end, func(i int, e seen) bool { return e.key == key && (e.gone || !e.valid || h.ok[i]) })
	switch {
	case i < 0 || h.ok[i]:
		return sound
	case h.events[i].spent && key == HeartbeatKey(gateway):
		return spent
	case h.events[i].gone:
		return gone
	default:
		return bad
	}
}

// opensEpoch says that event i is the first accepted one of its epoch.
func (h *history) opensEpoch(i int) bool {
	return h.ok[i] && h.last(i, func(j int, o seen) bool { return h.ok[j] && o.stamp.epoch == h.events[i].stamp.epoch }) < 0
}

// trialStart is where the trial that runs at event b began.
func (h *history) trialStart(b int) int {
	return h.last(b+1, func(i int, e seen) bool { return e.gap != noGap || h.opensEpoch(i) })
}

// needsWall says that the trial that began at event q looks at the wall clock.
func (h *history) needsWall(q int) bool {
	if q < 0 || h.opensEpoch(q) || h.events[q].gap == fullGap {
		return true
	}
	before := h.trialStart(q - 1)
	for b := max(before, 0); b < q; b++ {
		if h.passed[b] {
			return false
		}
	}
	return h.needsWall(before)
}

func (h *history) near(i int) bool {
	return h.events[i].at.Wall.Sub(h.events[i].published).Abs() <= h.maxSkew
}

// passes is rule R4 for the live beat b.
func (h *history) passes(b int) bool {
	live := func(i int) bool { return h.ok[i] && h.events[i].beat > 0 && !h.events[i].withdrawn }
	if !live(b) {
		return false
	}
	q := h.trialStart(b)
	wall := h.needsWall(q)
	for second := max(q, 0); second <= b; second++ {
		for first := second - 1; first >= max(q, 0); first-- {
			if !live(second) || !live(first) {
				continue
			}
			between := true
			for i := first; i <= second; i++ {
				between = between && (!live(i) || !wall || h.near(i))
			}
			s, f := h.events[second], h.events[first]
			if between && s.issued-f.issued >= h.interval && s.at.Mono-f.at.Mono >= h.interval {
				return true
			}
		}
	}
	return false
}

// breaks says that event i ends Fresh: rules R1, R2, R4, R5 and R6.
func (h *history) breaks(i int) bool {
	e := h.events[i]
	if e.gap != noGap || h.forks(i) || e.key != "" && (e.gone || !e.valid) {
		return true
	}
	if !h.ok[i] || e.beat == 0 {
		return false
	}
	list := h.lastList(i)
	return e.withdrawn || list < 0 || higher(e.stamp, h.events[list].stamp)
}

// proof finds the list and the beat that prove one another (rule R3).
func (h *history) proof() (list, beat int, found bool) {
	for k := len(h.events) - 1; k >= 0; k-- {
		b, l := h.lastBeat(k+1), h.lastList(k+1)
		matched := h.ok[k] && b >= 0 && l >= 0 && h.events[b].stamp == h.events[l].stamp && h.passed[b] &&
			h.keyFault(k+1, SnapshotKey(gateway)) == sound && h.keyFault(k+1, HeartbeatKey(gateway)) == sound && !h.forked(k+1)
		for i := b + 1; matched && i <= k; i++ {
			// Whatever befalls the beat before its list is there ends its use; what befalls the list does not.
			e := h.events[i]
			matched = e.gap == noGap && !h.forks(i) && (e.key != HeartbeatKey(gateway) || e.valid && !e.gone)
		}
		if matched {
			return l, b, true
		}
		if h.breaks(k) {
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// issue is when beat b was issued, on the reader's clock that runs while its machine sleeps.
func (h *history) issue(b int) time.Duration {
	beat := h.events[b]
	least := time.Duration(1<<63 - 1)
	for i, e := range h.events[:b+1] {
		if h.ok[i] && e.beat > 0 && e.stamp.epoch == beat.stamp.epoch {
			least = min(least, e.at.Boot-e.issued+(beat.at.Mono-e.at.Mono)/maxDrift)
		}
	}
	return beat.issued + least
}

// condition is the state at the instant of the newest event.
func (h *history) condition() Condition {
	n := len(h.events)
	snapshot, heartbeat := h.keyFault(n, SnapshotKey(gateway)), h.keyFault(n, HeartbeatKey(gateway))
	beat, list := h.lastBeat(n), h.lastList(n)
	_, vouching, proven := h.proof()
	gap := h.last(n, func(_ int, e seen) bool { return e.gap != noGap })
	qualified := h.last(n, func(i int, _ seen) bool { return i >= gap && h.passed[i] })
	switch {
	case h.forked(n):
		return forked()
	case snapshot == bad || heartbeat == bad:
		return invalid()
	case snapshot == gone || heartbeat == gone || beat >= 0 && h.events[beat].withdrawn:
		return withdrawn()
	case heartbeat == spent:
		return stale()
	case beat >= 0 && gap <= beat && !h.overtaken(beat) && (list < 0 || higher(h.events[beat].stamp, h.events[list].stamp)):
		return behind()
	case !proven && gap >= 0 && qualified < 0:
		return stale()
	case !proven:
		return unsynced()
	case h.events[n-1].at.Boot >= h.issue(vouching)+h.maxStaleness:
		return stale()
	default:
		return fresh()
	}
}

// overtaken says that something after beat b made it useless: a fork, or a later epoch.
func (h *history) overtaken(b int) bool {
	return h.last(len(h.events), func(i int, e seen) bool {
		return i > b && (h.forks(i) || h.ok[i] && e.stamp.epoch > h.events[b].stamp.epoch)
	}) >= 0
}

// answer is rule R8.
func (h *history) answer(name string) verdict.Reason {
	if c := h.condition(); c.State != Fresh {
		return c.Reason
	}
	proven, _, _ := h.proof()
	newest := h.lastList(len(h.events))
	switch vouched, kept := h.events[proven].names[name], h.events[newest].names[name]; {
	case vouched && kept:
		return ""
	case kept:
		return verdict.Behind
	default:
		return verdict.NotListed
	}
}
