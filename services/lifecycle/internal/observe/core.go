package observe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

// core is the view. Lists and changes come in, and what they mean is pushed to the callers. It is not safe for concurrent use.
type core struct {
	// now is the time as the core was told it last, and maxAge is Settings.MaxAge: by these it is judged what is current.
	now    time.Time
	maxAge time.Duration
	boxes  map[string]*box   // by uid
	ids    map[string]*entry // by sandbox id
	pods   map[string]*pod   // by uid
	// owned are the Pods by the uid of the Sandbox that they belong to.
	owned   map[string][]*pod
	callers map[*caller]struct{}
	seen    *progress.Seen
	waiting waitingRoom
	// former are Pods that are gone, whose last events come after them.
	former formerPods
	// newest is the newest version that was seen; health is about the lists and watches.
	newest [kinds]uint64
	health [kinds]health
	// blind are the ids whose last state was made while their Pods were not known.
	blind map[string]struct{}
	// skipped are the uids of the objects that are passed over at present, and why, as reasonOf says; nothing else is kept of them.
	skipped [kinds]map[string]string
	counts  counts
	// notes are what people are to be told, until they are taken.
	notes []note
}

// note is one of them.
type note struct {
	id      string
	problem error
}

// mostNotes bounds them: of many problems at once the first ones tell enough.
const mostNotes = 16

func (c *core) note(id string, problem error) {
	if len(c.notes) < mostNotes {
		c.notes = append(c.notes, note{id: id, problem: problem})
	}
}

// counts only grow.
type counts struct {
	// passed are objects that were passed over, stale are changes that were older than what was known.
	passed, stale [kinds]uint64
	// unmapped are events about no sandbox that is known.
	unmapped uint64
	// snapshots, deletions and platform are messages that were taken by callers; resets are callers that were behind.
	snapshots, deletions, platform, resets uint64
}

// box is a Sandbox object. problem says why value is not what the object says now.
type box struct {
	uid     string
	version uint64
	value   snapshot.Sandbox
	problem error
}

// pod is a Pod.
type pod struct {
	uid     string
	version uint64
	value   snapshot.Pod
}

// entry is one sandbox id.
type entry struct {
	id    string
	boxes []*box
	// told is the last state, that of the object with the uid of; nil when there was none yet. It is never changed, since callers share it.
	told *computev1.DriverSandbox
	of   string
	// hidden says that callers may have missed told.
	hidden bool
}

const (
	// mostSeen bounds the memory of events, mostWaiting those about objects that are not known yet, mostFormer the Pods that are gone.
	mostSeen    = 1 << 16
	mostWaiting = 4096
	mostFormer  = 4096
)

func newCore() *core {
	c := &core{
		boxes: map[string]*box{}, ids: map[string]*entry{}, pods: map[string]*pod{}, owned: map[string][]*pod{}, callers: map[*caller]struct{}{},
		blind: map[string]struct{}{}, seen: progress.NewSeen(mostSeen), waiting: newWaitingRoom(mostWaiting), former: newFormerPods(mostFormer),
	}
	for k := range c.skipped {
		c.skipped[k] = map[string]string{}
	}
	return c
}

// complete reports whether everything that a snapshot is made of was listed.
func (c *core) complete() bool { return c.health[boxes].listed && c.health[pods].listed }

// fresh takes note of a version, and reports whether it is newer than all before.
func (c *core) fresh(k kind, version uint64) bool {
	if version <= c.newest[k] {
		return false
	}
	c.newest[k] = version
	return true
}

// pass takes note that an object is passed over, or is not any more.
func (c *core) pass(k kind, uid string, problem error) {
	if problem == nil {
		delete(c.skipped[k], uid)
		return
	}
	if _, known := c.skipped[k][uid]; !known {
		c.counts.passed[k]++
		if k == boxes { // Pods of other gateways are passed over all the time
			c.note("", problem)
		}
	}
	c.skipped[k][uid] = reasonOf(problem)
}

// state is what is told of a sandbox now; nil when it is not there, or nothing can be told of it.
func (e *entry) state() *computev1.DriverSandbox {
	if e == nil || len(e.boxes) != 1 || e.boxes[0].problem != nil {
		return nil
	}
	return e.told
}

// refresh tells what has become of a sandbox, when it is something else than was told last.
func (c *core) refresh(id string) {
	e := c.ids[id]
	switch {
	case e == nil:
		return
	case len(e.boxes) == 0:
		delete(c.ids, id)
		delete(c.blind, id)
		if e.told != nil {
			c.broadcast(func(to *caller) { to.deleted(id) })
		}
		return
	case len(e.boxes) > 1:
		if !e.hidden {
			c.note(id, fmt.Errorf("%w: %s/%s and %s/%s", ErrAmbiguous, e.boxes[0].value.Namespace, e.boxes[0].value.Object, e.boxes[1].value.Namespace, e.boxes[1].value.Object))
		}
		e.hidden = true
		return
	case e.boxes[0].problem != nil:
		e.hidden = true
		return
	}
	if !c.complete() { // without the Pods a sandbox that runs would look broken
		return
	}
	b := e.boxes[0]
	now := c.render(&b.value)
	if c.current(pods) {
		delete(c.blind, id)
	} else {
		c.blind[id] = struct{}{}
	}
	switch {
	case e.told != nil && e.of != b.uid: // what was told of is gone; that another object has its id is no reason to keep it
		c.broadcast(func(to *caller) { to.deleted(id) })
	case e.told != nil && !e.hidden && equal(e.told, now):
		return
	}
	e.told, e.of, e.hidden = now, b.uid, false
	c.broadcast(func(to *caller) { to.changed(id) })
}

// render makes the state of a sandbox with the Pods that are known: while the view of Pods is not current, what it has is of former runs
// as well as of this one, and counts as not known (contract 7.13).
func (c *core) render(s *snapshot.Sandbox) *computev1.DriverSandbox {
	var all []*snapshot.Pod
	for _, p := range c.owned[s.UID] {
		all = append(all, &p.value)
	}
	return snapshot.Render(s, snapshot.Pick(s, all, c.current(pods)))
}

// see makes the states anew that were made while the Pods were not known, when they are again.
func (c *core) see() {
	if len(c.blind) == 0 || !c.current(pods) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.blind)) {
		c.refresh(id)
	}
	clear(c.blind)
}

// renderAll is for when everything was listed that was not before.
func (c *core) renderAll() {
	for _, id := range c.sorted() {
		c.refresh(id)
	}
}

// sorted are the ids, so that the same lists lead to the same messages.
func (c *core) sorted() []string {
	all := make([]string, 0, len(c.ids))
	for id := range c.ids {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

func (c *core) broadcast(tell func(to *caller)) {
	for to := range c.callers {
		tell(to)
		if to.failed != nil {
			c.counts.resets++
			delete(c.callers, to)
		}
	}
}

// join adds a caller, and owes it everything that there is.
func (c *core) join(to *caller) {
	for _, id := range c.sorted() {
		if c.ids[id].state() != nil {
			to.changed(id)
		}
	}
	c.callers[to] = struct{}{}
}

func (c *core) leave(to *caller) { delete(c.callers, to) }

// republish owes every caller everything again, after what is new.
func (c *core) republish() {
	all := c.sorted()
	for to := range c.callers {
		to.repeat(all)
	}
}

// health is how the lists and watches of a resource go.
type health struct {
	// listed says that there was a list, once.
	listed bool
	// proof is when the cluster last answered, as far as the view rests on it.
	proof time.Time
	// broken is since when no watch runs; zero while one does.
	broken time.Time
	// failure is the last one; nil while all goes well.
	failure error
}

// brokenGrace is how long a watch may be broken before the view counts as stale, when no list has been answered within the same time:
// it takes that long to take up another.
const brokenGrace = 10 * time.Second

// current reports whether the view of a resource may be taken for the cluster's present state. The API server keeps no cache of events and
// so sends no bookmarks of them: while nothing happens nothing is heard, and an open watch is all that there is to judge by.
func (c *core) current(k kind) bool {
	maxAge := c.maxAge
	if k == events {
		maxAge = math.MaxInt64
	}
	return c.health[k].current(c.now, maxAge)
}

// stale says why the view is not the cluster's present state; nil when it is. Events may be missing: they are no state.
func (c *core) stale() error {
	for _, k := range []kind{boxes, pods} {
		h := &c.health[k]
		switch {
		case c.current(k):
		case !h.listed && h.failure == nil:
			return fmt.Errorf("%w: the %s were not listed yet", ErrStale, k)
		case h.failure != nil:
			return fmt.Errorf("%w: %s: %w", ErrStale, k, h.failure)
		case !h.broken.IsZero():
			return fmt.Errorf("%w: no watch of %s runs since %s", ErrStale, k, c.now.Sub(h.broken).Round(time.Second))
		default:
			return fmt.Errorf("%w: the watch of %s was last answered %s ago", ErrStale, k, c.now.Sub(h.proof).Round(time.Second))
		}
	}
	return nil
}

// current is what core.current says of one resource whose answers count for maxAge.
func (h *health) current(now time.Time, maxAge time.Duration) bool {
	answered := now.Sub(h.proof)
	return h.listed && answered <= maxAge && (h.broken.IsZero() || now.Sub(h.broken) <= brokenGrace || answered <= brokenGrace)
}
