package filesource

import (
	"context"
	"errors"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// loop is one Run. Its goroutine owns everything in it, but for the notifications while an attempt is under way.
type loop struct {
	source *Source
	relist <-chan struct{}
	report func(allowlist.Input)

	notify notifications
	events <-chan fsnotify.Event
	errs   <-chan error
	// broken says that the watcher is to be thrown away when the attempt under way gives it back.
	broken bool

	attempt   underway
	outcomes  chan outcome
	abandoned chan struct{}

	// wished says that a relist waits for a read to begin; changed that a notification does.
	wished, changed bool
	// resting is until when notifications wait, because the last read took long.
	resting time.Duration

	// list is what the content of version holds; version is empty before the first list.
	version string
	list    allowlist.List

	poll, gather, deadline *time.Timer
}

func newLoop(s *Source, relist <-chan struct{}, report func(allowlist.Input)) *loop {
	return &loop{
		source: s, relist: relist, report: report,
		notify:   notifications{make: s.newWatcher},
		outcomes: make(chan outcome), abandoned: make(chan struct{}),
		poll: stoppedTimer(), gather: stoppedTimer(), deadline: stoppedTimer(),
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (l *loop) run(ctx context.Context) {
	defer func() {
		for _, t := range []*time.Timer{l.poll, l.gather, l.deadline} {
			t.Stop()
		}
	}()
	// What a read finds while ctx ends is still true; only stop ends a read.
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if l.source.blocked() {
		l.await()
	}
	l.begin(reading)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case _, open := <-l.relist:
			l.wish(open)
		case <-l.poll.C:
			l.begin(reading)
		case <-l.gather.C:
			l.begin(reading)
		case <-l.deadline.C:
			l.late()
		case o := <-l.outcomes:
			l.ended(o)
		case <-l.source.outstanding:
			l.source.outstanding = nil
			l.begin(reading)
		case _, open := <-l.events:
			l.notified(open)
		case err, open := <-l.errs:
			l.troubled(err, open)
		}
		if l.wished {
			l.begin(reading)
		}
	}
	cancel()
	l.stop()
}

// await takes it that the attempt of an earlier run hangs still: until it is back, the source has failed.
func (l *loop) await() {
	err := l.source.named(l.hung())
	l.source.journal.failed(l.source.clock().Mono, err)
	l.report(allowlist.SourceFailed{Err: err})
}

// begin starts an attempt, unless one is under way: then what asked for it stays asked for.
func (l *loop) begin(ctx context.Context) {
	l.poll.Reset(l.source.cfg.Poll)
	if l.attempt.active || l.source.outstanding != nil {
		return
	}
	l.gather.Stop()
	l.attempt = underway{active: true, began: l.source.clock(), wish: l.wished}
	l.wished, l.changed = false, false
	if err := l.notify.open(); err != nil {
		l.source.journal.notifies(troubleCreate, err)
	}
	l.events, l.errs = l.notify.channels()
	l.deadline.Reset(l.source.cfg.ReadTimeout)
	a := attempt{
		reader: reader{path: l.source.cfg.Path, open: l.source.open, now: func() time.Time { return l.source.clock().Wall }},
		notify: &l.notify,
		known:  l.version,
	}
	l.attempt.back = a.start(ctx, l.outcomes, l.abandoned)
}

// wish takes a relist. One that the system lets nobody fulfil is answered now.
func (l *loop) wish(open bool) {
	if !open {
		l.relist = nil
		return
	}
	l.wished = true
	if l.attempt.late || l.source.outstanding != nil {
		l.wished = false
		l.fail(l.hung())
	}
}

// late takes the deadline of the attempt under way. Its proof simply lapses.
func (l *loop) late() {
	l.attempt.late = true
	err := l.source.named(l.hung())
	l.source.journal.failed(l.source.clock().Mono, err)
	l.report(allowlist.SourceFailed{Err: err})
	if l.wished && l.attempt.wish {
		l.report(allowlist.SourceFailed{Err: err})
	}
	l.wished = false
}

// hung is the failure of a read that is not back in time.
func (l *loop) hung() error {
	if l.source.outstanding != nil {
		return failf(resultTimeout, "a read that began in an earlier run of this source is not back; the file system that it is on hangs")
	}
	return failf(resultTimeout, "it could not be read within %s; the file system that it is on may hang", l.source.cfg.ReadTimeout)
}

// ended takes the outcome of the attempt.
func (l *loop) ended(o outcome) {
	a := l.attempt
	l.attempt = underway{}
	l.deadline.Stop()
	now := l.source.clock().Mono
	l.resting = now + restFactor*(now-a.began.Mono)
	l.source.reads++
	l.settleNotifications(o.watchErr)
	switch {
	case a.late:
		l.changed = true
	case l.wished && !a.wish:
		// The wish wants a read that began after it, and what is reported next is taken for that.
	default:
		l.tell(o, a)
	}
	if l.changed {
		l.gather.Reset(l.rest())
	}
}

// tell reports an outcome.
func (l *loop) tell(o outcome, a underway) {
	if o.err != nil {
		l.source.journal.failed(l.source.clock().Mono, l.source.named(o.err))
		l.fail(o.err)
		return
	}
	l.source.journal.succeeded(a.began.Wall)
	if o.version == l.version && !a.wish {
		l.report(allowlist.Proved{Kind: allowlist.ProofFile, At: a.began.Mono})
		return
	}
	if o.version != l.version {
		l.version, l.list = o.version, l.source.selection.Apply(o.candidates)
		l.source.journal.changed(l.version, l.list.Len())
	}
	l.report(allowlist.Listed{
		List: l.list, Version: l.version, Order: l.source.reads, Kind: allowlist.ProofFile, ProvenAt: a.began.Mono,
	})
}

func (l *loop) fail(err error) {
	l.report(allowlist.SourceFailed{Err: l.source.named(err)})
}

// notified takes an event: each is a reload.
func (l *loop) notified(open bool) {
	if !open {
		l.drop(errors.New("the watcher ended"))
		return
	}
	if !l.changed && !l.attempt.active {
		l.gather.Reset(l.rest())
	}
	l.changed = true
}

// rest is how long a notification waits for others now.
func (l *loop) rest() time.Duration {
	return max(gather, min(l.resting-l.source.clock().Mono, l.source.cfg.Poll))
}

// troubled takes an error of the watcher. Lost events are made up for by one reload; anything else ends the watcher,
// and the next poll makes another.
func (l *loop) troubled(err error, open bool) {
	switch {
	case !open:
		l.drop(errors.New("the watcher ended"))
	case errors.Is(err, fsnotify.ErrEventOverflow):
		l.source.journal.overflowed()
		l.notified(true)
	default:
		l.drop(err)
	}
}

func (l *loop) drop(err error) {
	l.source.journal.notifies(troubleBroken, err)
	l.events, l.errs = nil, nil
	l.broken = true
	if !l.attempt.active {
		l.discard()
	}
}

func (l *loop) discard() {
	l.notify.close()
	l.broken = false
}

// settleNotifications takes the notifications back from an attempt.
func (l *loop) settleNotifications(err error) {
	switch {
	case l.broken:
		l.discard()
	case err != nil:
		l.source.journal.notifies(troubleWatch, err)
	case l.notify.watcher != nil:
		l.source.journal.notifies("", nil)
	}
}

// stop ends what run started. The watcher's channels are read until then, because an attempt may wait for that.
func (l *loop) stop() {
	if !l.attempt.active {
		l.notify.close()
		return
	}
	l.deadline.Reset(l.source.stopWait)
	for {
		select {
		case <-l.outcomes:
			l.notify.close()
			return
		case <-l.deadline.C:
			close(l.abandoned)
			l.source.outstanding = l.attempt.back
			return
		case _, open := <-l.events:
			if !open {
				l.events = nil
			}
		case _, open := <-l.errs:
			if !open {
				l.errs = nil
			}
		}
	}
}
