package labelsource

import (
	"context"
	"sync"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// batch is how many events may wait, and how many are reported at once at most. A burst becomes one list.
const batch = 256

// loop is one Run. Its goroutine owns the core and does no I/O; each request has a goroutine of its own.
type loop struct {
	*Source
	relist <-chan struct{}
	report func(allowlist.Input)

	lists  chan listResult
	events chan watchResult
	tasks  sync.WaitGroup
	// stopWatch ends the watch that is running.
	stopWatch context.CancelFunc
	timer     *time.Timer
}

type listResult struct {
	listing listing
	failed  *failure
}

// watchResult is a change, or the end.
type watchResult struct {
	id     uint64
	change change
	ended  *failure
}

func newLoop(s *Source, relist <-chan struct{}, report func(allowlist.Input)) *loop {
	return &loop{
		Source: s, relist: relist, report: report,
		// A list always finds room: there is one at a time, and another only after its result was taken.
		lists: make(chan listResult, 1), events: make(chan watchResult, batch),
		stopWatch: func() {}, timer: time.NewTimer(0),
	}
}

func (l *loop) now() time.Duration { return l.clock().Mono }

func (l *loop) run(ctx context.Context) {
	defer l.tasks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.timer.Stop()
	l.core.begin(l.now())
	for ctx.Err() == nil {
		l.carryOut(ctx, l.core.next(l.now()))
		select {
		case <-ctx.Done():
			return
		case _, open := <-l.relist:
			l.wish(open)
		case r := <-l.lists:
			l.listed(r)
		case e := <-l.events:
			l.watched(e)
		case <-l.timer.C:
		}
		l.tell(ctx)
	}
}

// tell reports all that is owed.
func (l *loop) tell(ctx context.Context) {
	for ctx.Err() == nil {
		input := l.core.report(l.selection.Apply)
		if input == nil {
			return
		}
		l.report(input)
	}
}

// carryOut starts and stops what the core asks for.
func (l *loop) carryOut(ctx context.Context, p plan) {
	if p.list != nil {
		l.startList(ctx, *p.list)
	}
	if p.behind {
		behind := failure{kind: kindBehind, err: errBehind}
		l.metrics.ends.WithLabelValues(string(kindBehind)).Inc()
		l.journal.failed(l.now(), taskWatch, behind)
		l.stopWatch()
	}
	if p.watch != nil {
		l.stopWatch()
		l.startWatch(ctx, *p.watch)
	}
	l.timer.Reset(p.wake - l.now())
}

// Names of the requests in log lines.
const (
	taskList  = "list"
	taskWatch = "watch"
)

func (l *loop) startList(ctx context.Context, r listRequest) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	l.tasks.Go(func() {
		defer cancel()
		in, failed := l.requests.list(ctx)
		l.lists <- listResult{listing: in, failed: failed}
	})
}

func (l *loop) startWatch(ctx context.Context, r watchRequest) {
	ctx, cancel := context.WithCancel(ctx)
	l.stopWatch = cancel
	l.metrics.starts.Inc()
	l.tasks.Go(func() {
		defer cancel()
		tell := func(r watchResult) bool {
			select {
			case l.events <- r:
				return true
			case <-ctx.Done():
				return false
			}
		}
		ended := l.requests.watch(ctx, r.from, func(c change) bool { return tell(watchResult{id: r.id, change: c}) })
		tell(watchResult{id: r.id, ended: &ended})
	})
}

// wish takes all wishes that wait together as one.
func (l *loop) wish(open bool) {
	for open {
		l.core.wish()
		select {
		case _, open = <-l.relist:
		default:
			return
		}
	}
	l.relist = nil
}

func (l *loop) listed(r listResult) {
	at, began, first := l.clock(), l.core.list.began, !l.core.known
	took := at.Mono - began
	failed, result := r.failed, outcomeChanged
	if failed == nil {
		result, failed = l.core.listed(at.Mono, r.listing)
	} else {
		l.core.listFailed(at.Mono, *failed)
	}
	if failed != nil {
		l.metrics.listed(string(failed.kind), took)
		l.journal.failed(at.Mono, taskList, *failed)
		l.journal.failing = true
		return
	}
	l.metrics.listed(string(result), took)
	l.metrics.selected.Set(float64(len(l.core.namespaces)))
	l.metrics.last.Set(float64(at.Wall.Add(-took).UnixMilli()) / 1e3)
	l.metrics.period.Set(l.core.list.period.Seconds())
	l.journal.listed(first, len(l.core.namespaces), version(l.core.order))
	l.journal.period(l.core.stretched(), l.core.list.period, took)
}

// watched takes an event and all that wait behind it, up to the end of the watch.
func (l *loop) watched(e watchResult) {
	at := l.now()
	for range batch {
		if e.ended != nil {
			l.watchEnded(at, e)
			break
		}
		l.metrics.happened(e.change.form, l.core.event(at, e.id, e.change))
		if len(l.events) == 0 {
			break
		}
		e = <-l.events
	}
	l.metrics.selected.Set(float64(len(l.core.namespaces)))
}

func (l *loop) watchEnded(at time.Duration, e watchResult) {
	if !l.core.watchEnded(at, e.id, *e.ended) {
		return
	}
	l.metrics.ends.WithLabelValues(string(e.ended.kind)).Inc()
	if e.ended.kind != kindClosed {
		l.journal.failed(at, taskWatch, *e.ended)
	}
}
