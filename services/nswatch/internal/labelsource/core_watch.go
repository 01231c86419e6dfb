package labelsource

import (
	"time"
)

// watcher is what is known about the watch.
type watcher struct {
	// id counts watches, so that what an abandoned one says counts for nothing.
	id      uint64
	running bool
	began   time.Duration
	// reached is the highest version that this watch has told.
	reached uint64
	// expect is the version that it has to reach by expectBy, because a list showed that there is something to tell;
	// zero when nothing is expected.
	expect   uint64
	expectBy time.Duration

	// next is when to watch again, not before a list has worked when afterList says so.
	next      time.Duration
	afterList bool
	// streak counts the watches in a row that ended soon.
	streak int
}

const (
	// settled is how long a watch has lasted when its end is a new one's begin and no failure.
	settled = time.Second
	// patience is how much later than a list a watch may tell the same.
	patience = 3 * time.Second
)

// event takes what the watch told at the instant at.
func (c *core) event(at time.Duration, id uint64, e change) outcome {
	w := &c.watch
	if id != w.id || !w.running {
		return outcomeAbandoned
	}
	w.reached = max(w.reached, e.order)
	if e.order <= c.order && (e.form != bookmark || e.order < c.order) {
		// A list has shown it before.
		return outcomeNotNewer
	}
	c.order = e.order
	c.owed.seen, c.owed.seenAt = true, at
	if e.form == bookmark {
		return outcomeUnchanged
	}
	if c.list.running {
		c.list.replay = append(c.list.replay, e)
	}
	i, found := search(c.namespaces, e.namespace.Name)
	if e.form == removal && !found || e.form == upsert && found && c.namespaces[i] == e.namespace {
		return outcomeUnchanged
	}
	c.namespaces = e.apply(c.namespaces)
	c.owed.changed = true
	return outcomeChanged
}

// watchEnded takes the end of a watch, and reports whether it was the current one.
func (c *core) watchEnded(at time.Duration, id uint64, f failure) bool {
	if id != c.watch.id || !c.watch.running {
		return false
	}
	c.retire(at, f)
	if !f.repairable() {
		c.owed.failed = f.err
	}
	return true
}

// retire decides when to watch again. The first watch after one that had settled begins at once, and so does the list
// that it needs; a watch that ends soon again, or was refused, waits (bug corpus W05).
func (c *core) retire(at time.Duration, f failure) {
	w := &c.watch
	if at-w.began >= settled {
		w.streak = 0
		c.watchPause.Reset()
	}
	var pause time.Duration
	if w.streak > 0 || !f.repairable() {
		pause = max(leastPause, c.watchPause.NextBackOff(), f.retryAfter)
	}
	w.streak++
	w.running, w.expect = false, 0
	w.next = at + pause
	if f.needsList() {
		w.afterList = true
		c.list.next = min(c.list.next, at+pause)
	}
}

// mustReach is told when a list showed what the watch did not.
func (w *watcher) mustReach(target uint64, at time.Duration) {
	if w.running && w.expect == 0 {
		w.expectBy = at + patience
	}
	if w.running {
		w.expect = max(w.expect, target)
	}
}

// isBehind reports that the time is up for what the watch had to tell.
func (w *watcher) isBehind(at time.Duration) bool {
	if w.reached >= w.expect {
		w.expect = 0
	}
	return w.expect != 0 && at >= w.expectBy
}
