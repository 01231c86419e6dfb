package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// republishEvery is how often each caller is told of each sandbox again (contract 15 item 12).
const republishEvery = 30 * time.Second

// Observer is the view of the cluster. Make it with New. Its methods are safe for concurrent use.
type Observer struct {
	cfg     Settings
	scheme  workspace.Scheme
	sources Sources
	finder  Finder
	journal *journal

	mu   sync.Mutex
	core *core
	// complete is closed when everything was listed, and stopped when Run has ended; running says that it was called.
	complete, stopped chan struct{}
	running           bool
	// senders are the goroutines that send to callers, ended or not.
	senders sync.WaitGroup
}

// New checks the settings and registers the metrics portcullis_lifecycle_watch_*. It starts nothing and sends nothing. finder is
// asked when Get does not find a sandbox.
func New(cfg Settings, scheme workspace.Scheme, sources Sources, finder Finder, log zerolog.Logger, reg prometheus.Registerer) (*Observer, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := scheme.Validate(); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	if sources.Sandboxes == nil || sources.Pods == nil || sources.Events == nil || finder == nil || reg == nil {
		return nil, errors.New("observe: three sources, a finder and a metrics registerer must be given")
	}
	o := &Observer{
		cfg: cfg, scheme: scheme, sources: sources, finder: finder, core: newCore(), complete: make(chan struct{}), stopped: make(chan struct{}),
	}
	o.core.maxAge = cfg.MaxAge.Std()
	var err error
	if o.journal, err = newJournal(log, o, reg); err != nil {
		return nil, err
	}
	return o, nil
}

// Run follows the cluster until ctx ends, and then ends all streams with ErrStopped and waits for them. It runs once.
func (o *Observer) Run(ctx context.Context) error {
	o.mu.Lock()
	ran := o.running
	o.running = true
	o.mu.Unlock()
	if ran {
		return errors.New("observe: it runs, or has run, already")
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		(&follower[snapshot.Sandbox]{
			kind: boxes, source: o.sources.Sandboxes, with: o.with, replace: (*core).replaceBoxes, change: (*core).changeBox, report: o.journal.watched,
			patience: o.cfg.MaxAge.Std(),
		}).run(ctx)
	})
	tasks.Go(func() {
		(&follower[snapshot.Pod]{
			kind: pods, source: o.sources.Pods, with: o.with, replace: (*core).replacePods, change: (*core).changePod, report: o.journal.watched,
			patience: o.cfg.MaxAge.Std(),
		}).run(ctx)
	})
	tasks.Go(func() {
		(&follower[progress.Event]{
			kind: events, source: o.sources.Events, with: o.with, replace: (*core).replaceEvents, change: (*core).changeEvent, report: o.journal.watched,
			patience: eventPatience,
		}).run(ctx)
	})
	tasks.Go(func() { o.republish(ctx) })
	tasks.Wait()
	o.mu.Lock()
	close(o.stopped)
	for to := range o.core.callers {
		to.fail(ErrStopped)
		o.core.leave(to)
	}
	o.mu.Unlock()
	o.senders.Wait()
	return nil
}

// present is the core at this moment. The lock must be held.
func (o *Observer) present() *core {
	o.core.now = time.Now()
	return o.core
}

// with changes the core, and says what there is to say about it.
func (o *Observer) with(change func(c *core, now time.Time)) {
	o.mu.Lock()
	before := o.core.complete()
	change(o.present(), o.core.now)
	o.core.see()
	if !before && o.core.complete() {
		close(o.complete)
	}
	notes := o.core.notes
	o.core.notes = nil
	o.mu.Unlock()
	for _, n := range notes {
		o.journal.noted(n)
	}
}

// republish tells everything again while that is the present state.
func (o *Observer) republish(ctx context.Context) {
	ticker := time.NewTicker(republishEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			o.with(func(c *core, _ time.Time) {
				if c.stale() == nil {
					c.republish()
				}
			})
		}
	}
}

// Check says why the view is not the cluster's present state, for readiness; nil when it is. It fulfils daemon.Check.
func (o *Observer) Check(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.present().stale()
}
