package labelsource

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// lister is what is known about lists.
type lister struct {
	// running says that one is on its way; it began then, when floor was the order, and answers a wish or does not.
	running, answers bool
	began            time.Duration
	floor            uint64
	// replay are the events that came meanwhile.
	replay []change

	// wished says that a list was asked for that begins later than all that did.
	wished bool
	// next is when one is due.
	next time.Duration
	// costs are how long the last two took, period is from one's begin to the next one's, timeout is what the next one
	// may take.
	costs           [2]time.Duration
	period, timeout time.Duration
}

const (
	// share is how many times longer than a list its period is at least, as long as the proof allows: a list takes 5 %
	// of the server's and our time at most.
	share = 20
	// leastPause is the least time between a failure and the next try: full jitter may say zero.
	leastPause = 50 * time.Millisecond
)

// shortest and longest are what a list may take. A quarter of the proof's life lets three lists in a row hang before
// the heartbeats stop; a list that takes longer than the proof lives proves nothing.
func (b bounds) shortest() time.Duration { return b.maxAge / 4 }
func (b bounds) longest() time.Duration  { return b.maxAge * 9 / 10 }

// stretch is the period for lists that cost so much. It grows so that lists take a share of the time only, but not so
// far that a proof would be older than three quarters of its life when the next list is there. When even that is not to
// be had, because one list takes most of the life of a proof, a rest of a quarter of its cost remains.
//
// The protocol's bounds stretch source_max_age along; here it stays what it was set to, because it is a part of the time
// after which a removal is in force at the latest, and slow lists must not lengthen that. The price: heartbeats pause
// between two lists when the period and the cost are more than maxAge together, with the defaults when a list costs more
// than 4.4 s.
func (b bounds) stretch(cost time.Duration) time.Duration {
	period := max(b.relist, min(share*cost, b.maxAge*3/4-cost))
	return max(period, cost+cost/4)
}

// stretched reports whether lists cost so much that they are further apart than was set.
func (c *core) stretched() bool { return c.list.period > c.bounds.relist }

// listed takes a list that came at the instant at.
func (c *core) listed(at time.Duration, in listing) (outcome, *failure) {
	l := &c.list
	if c.known && in.order < l.floor {
		// An answer that was on its way when the order grew is brought up to date by replay. This one was old when it
		// was asked for: what has consistent lists does not do that (bug corpus W01).
		f := fail("list", c.bounds.selector, fmt.Errorf("%w: it has version %d, and %d was known before it was asked for", errOlder, in.order, l.floor))
		c.listFailed(at, f)
		return outcomeNotNewer, &f
	}
	l.running = false
	target := c.target(in)
	result := outcomeUnchanged
	for _, e := range l.replay {
		if e.order > in.order {
			in.namespaces = e.apply(in.namespaces)
		}
	}
	if !c.known || !slices.Equal(c.namespaces, in.namespaces) {
		c.namespaces = in.namespaces
		c.owed.changed, result = true, outcomeChanged
		if c.known {
			c.watch.mustReach(target, at)
		}
	}
	c.known, c.order = true, max(c.order, in.order)
	c.watch.afterList = false
	c.owed.listProof, c.owed.listProofAt = true, l.began
	c.owed.answer = c.owed.answer || l.answers
	c.schedule(at)
	return result, nil
}

// schedule plans the next list after one that worked. The smaller of two costs counts, so that one stall says nothing.
func (c *core) schedule(at time.Duration) {
	l := &c.list
	l.replay = nil
	cost := at - l.began
	l.costs = [2]time.Duration{cost, l.costs[0]}
	if l.costs[1] != 0 {
		cost = min(cost, l.costs[1])
	}
	l.period = c.bounds.stretch(cost)
	l.timeout = max(c.bounds.shortest(), min(4*cost, c.bounds.longest()))
	l.next = max(l.began+l.period, at)
	c.listPause.Reset()
}

// listFailed changes no namespace (rule W9).
func (c *core) listFailed(at time.Duration, f failure) {
	l := &c.list
	l.running, l.replay = false, nil
	l.next = at + max(leastPause, c.listPause.NextBackOff(), f.retryAfter)
	if f.kind == kindTimeout {
		l.timeout = min(2*l.timeout, c.bounds.longest())
	}
	c.owed.failed = f.err
}

// target is the version that a watch has reached when it told all that in shows and the set did not, as far as in
// tells: the version of what was added or changed, or else, for what is gone, any later than the order.
func (c *core) target(in listing) uint64 {
	target := c.order + 1
	for i, n := range in.namespaces {
		at, found := search(c.namespaces, n.Name)
		if !found || c.namespaces[at] != n {
			target = max(target, in.orders[i])
		}
	}
	return target
}

// apply returns sorted candidates with the event applied. They are changed in place.
func (e change) apply(sorted []allowlist.Candidate) []allowlist.Candidate {
	i, found := search(sorted, e.namespace.Name)
	switch {
	case e.form == upsert && found:
		sorted[i] = e.namespace
	case e.form == upsert:
		sorted = slices.Insert(sorted, i, e.namespace)
	case e.form == removal && found:
		sorted = slices.Delete(sorted, i, i+1)
	}
	return sorted
}

// version is an order as the API server writes it.
func version(order uint64) string { return strconv.FormatUint(order, 10) }
