package labelsource

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// core decides. It is told what was asked for, what came back and when, on a monotonic clock; next says what to ask
// for, report what to tell the publisher. It is not safe for concurrent use.
type core struct {
	bounds bounds
	// listPause and watchPause are the pauses after one failure and the next.
	listPause, watchPause backoff.BackOff

	// known says that a list was used. namespaces, sorted by name, are the state of the cluster at order.
	known      bool
	order      uint64
	namespaces []allowlist.Candidate

	list  lister
	watch watcher
	owed  owed
}

// bounds are the settings in the form that decides.
type bounds struct {
	selector       string
	relist, maxAge time.Duration
}

func newCore(b bounds, listPause, watchPause backoff.BackOff) *core {
	return &core{bounds: b, listPause: listPause, watchPause: watchPause, list: lister{period: b.relist, timeout: b.shortest()}}
}

// owed is what the publisher has not been told.
type owed struct {
	// changed says that the set is not the one that was reported last. Both kinds of proof may be owed at once.
	changed, answer     bool
	listProof, seen     bool
	listProofAt, seenAt time.Duration
	failed              error
}

// change is one event of a watch, already understood.
type change struct {
	order uint64
	form  form
	// namespace is empty in a bookmark. Of a removal only the name counts (bug corpus W07).
	namespace allowlist.Candidate
}

// form is what an event says. The zero value is none.
type form uint8

const (
	// upsert: the namespace is selected, and as it is said to be.
	upsert form = iota + 1
	// removal: it is gone or left the selector; which of the two does not matter (bug corpus W16, W25).
	removal
	// bookmark: nothing happened up to this version that was not told.
	bookmark
)

// String is the form as a metric label.
func (f form) String() string {
	switch f {
	case upsert:
		return "upsert"
	case removal:
		return "removal"
	case bookmark:
		return "bookmark"
	default:
		return "none"
	}
}

// outcome is what became of a list or an event, as a metric label.
type outcome string

const (
	outcomeChanged   outcome = "changed"
	outcomeUnchanged outcome = "unchanged"
	// outcomeNotNewer: the version is not above the one that is known.
	outcomeNotNewer outcome = "not_newer"
	// outcomeAbandoned: of a watch that was given up.
	outcomeAbandoned outcome = "abandoned_watch"
)

// plan is what to ask for now.
type plan struct {
	list  *listRequest
	watch *watchRequest
	// behind says that the watch that is running is to be stopped, because the lists showed what it did not. Its end
	// need not be told.
	behind bool
	// wake is the instant at which next may have more to say.
	wake time.Duration
}

type listRequest struct{ timeout time.Duration }

type watchRequest struct {
	id   uint64
	from uint64
}

// begin starts a life of the shell: nothing is on its way, and a list is due. What is known stays.
func (c *core) begin(at time.Duration) {
	c.list = lister{period: c.list.period, timeout: c.list.timeout, costs: c.list.costs, next: at}
	c.watch = watcher{id: c.watch.id, afterList: true}
	c.owed = owed{changed: c.known}
	c.listPause.Reset()
	c.watchPause.Reset()
}

// wish asks for a list that begins from now on and is answered by a report of its own.
func (c *core) wish() { c.list.wished = true }

// next decides what is due.
func (c *core) next(at time.Duration) plan {
	var p plan
	if l := &c.list; !l.running && (l.wished || at >= l.next) {
		l.running, l.answers, l.wished = true, l.wished, false
		l.began, l.floor, l.replay = at, c.order, nil
		p.list = &listRequest{timeout: l.timeout}
	}
	w := &c.watch
	if w.running && w.isBehind(at) {
		p.behind = true
		c.retire(at, failure{kind: kindBehind})
	}
	if !w.running && c.known && !w.afterList && at >= w.next {
		w.id++
		*w = watcher{id: w.id, running: true, began: at, reached: c.order, streak: w.streak}
		p.watch = &watchRequest{id: w.id, from: c.order}
	}
	p.wake = c.wake()
	return p
}

// wake is the earliest of what is due later.
func (c *core) wake() time.Duration {
	const never = 1<<63 - 1
	earliest := time.Duration(never)
	if !c.list.running {
		earliest = c.list.next
	}
	switch w := &c.watch; {
	case w.running && w.expect != 0:
		earliest = min(earliest, w.expectBy)
	case !w.running && c.known && !w.afterList:
		earliest = min(earliest, w.next)
	}
	return earliest
}

// report is what the publisher is to be told next; nil when it knows all. What was proven goes before a failure, so that
// a removal that came just before its watch broke is published at once (rule W6). listOf makes a list of the namespaces.
func (c *core) report(listOf func([]allowlist.Candidate) allowlist.List) allowlist.Input {
	o := c.owed
	switch {
	case o.listProof || o.seen:
		c.owed = owed{failed: o.failed}
	case o.failed != nil:
		c.owed.failed = nil
		return allowlist.SourceFailed{Err: o.failed}
	default:
		return nil
	}
	kind, at := allowlist.ProofWatch, o.seenAt
	if o.listProof {
		kind, at = allowlist.ProofList, o.listProofAt
	}
	if o.changed || o.answer {
		return allowlist.Listed{List: listOf(c.namespaces), Version: version(c.order), Order: c.order, Kind: kind, ProvenAt: at}
	}
	return allowlist.Proved{Kind: kind, At: at}
}

var (
	errOlder  = errors.New("the list is older than what was used before")
	errBehind = errors.New("lists showed changes that the watch did not; another one is started")
)
