package reconcile

import (
	"context"
	"sync"
	"time"
)

// desk hands out what the ledger decides. Safe for concurrent use.
type desk struct {
	now func() time.Time
	// tell is told what changed for a namespace.
	tell func(*news)

	mu     sync.Mutex
	ledger *ledger
	// wake has room for one: somebody who waits looks again, and wakes the next one when there is more to do.
	wake chan struct{}
}

func newDesk(l *ledger, now func() time.Time, tell func(*news)) *desk {
	return &desk{now: now, tell: tell, ledger: l, wake: make(chan struct{}, 1)}
}

// with changes the ledger, and tells what comes of it.
func (d *desk) with(change func(l *ledger, now time.Time)) {
	d.mu.Lock()
	change(d.ledger, d.now())
	heard := d.ledger.heard
	d.ledger.heard = nil
	d.mu.Unlock()
	d.rouse()
	for i := range heard {
		d.tell(&heard[i])
	}
}

func (d *desk) rouse() {
	select {
	case d.wake <- struct{}{}:
	default: // somebody will look anyway
	}
}

func (d *desk) put(o object) { d.with(func(l *ledger, now time.Time) { l.put(o, now) }) }

func (d *desk) drop(k kind, uid string) {
	d.with(func(l *ledger, now time.Time) { l.drop(k, uid, now) })
}

func (d *desk) replace(k kind, all []object) {
	d.with(func(l *ledger, now time.Time) { l.replace(k, all, now) })
}

func (d *desk) health(k kind, works bool) {
	d.with(func(l *ledger, _ time.Time) { l.health(k, works) })
}

// done ends a look.
func (d *desk) done(t task, f *finding) (c change) {
	d.with(func(l *ledger, now time.Time) {
		l.inspect(&t, f)
		c = l.done(t, f, now)
	})
	return c
}

// take waits for a look that is due; false when ctx ends first.
func (d *desk) take(ctx context.Context) (task, bool) {
	for ctx.Err() == nil {
		d.mu.Lock()
		t, wait, ok := d.ledger.take(d.now())
		d.mu.Unlock()
		if ok {
			d.rouse()
			return t, true
		}
		if !d.sleep(ctx, wait) {
			break
		}
	}
	return task{}, false
}

// sleep ends when something changes, after wait unless that is negative, and with ctx, then with false.
func (d *desk) sleep(ctx context.Context, wait time.Duration) bool {
	var over <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-d.wake:
	case <-over:
	}
	return true
}
