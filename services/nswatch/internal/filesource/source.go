package filesource

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

const (
	// gather is how long a notification waits for others: what replaces a file makes several. It begins with the first
	// and is not extended, so that a busy directory delays nothing.
	gather = 20 * time.Millisecond
	// restFactor bounds what notifications can cost: after a read they wait until it is at most a fifth of the time.
	restFactor = 4
	// stopWait is how long a stop waits for a read that is under way.
	stopWait = time.Second
)

// Selector takes out what is never published (rule W7); *selection.Selection is one. Only the goroutine of Run calls
// it.
type Selector interface {
	// Apply gives the list to publish of all that the source holds.
	Apply(candidates []allowlist.Candidate) allowlist.List
}

// Source is the file as a source of namespaces. Make it with New.
type Source struct {
	cfg       Config
	selection Selector
	clock     allowkv.Clock
	metrics   *metrics
	journal   *journal
	running   atomic.Bool
	// reads counts the reads that ended: the order of their lists.
	reads uint64
	// outstanding is closed when the attempt that an earlier Run left behind is back; nil when there is none. It belongs
	// to whoever has set running.
	outstanding <-chan struct{}

	// What tests replace.
	open       func(path string) (file, error)
	newWatcher func() (watcher, error)
	stopWait   time.Duration
}

var _ allowkv.Source = (*Source)(nil)

// New checks cfg and registers the portcullis_nswatch_file metrics. It starts nothing and reads nothing: a file that
// is not there yet is not an error. clock is the publisher's; it is read by two goroutines. Errors name every problem
// of cfg, one per line.
func New(cfg Config, selection Selector, clock allowkv.Clock, log zerolog.Logger, reg prometheus.Registerer) (*Source, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if selection == nil || clock == nil {
		return nil, errors.New("file source: no selection or no clock was given")
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	return &Source{
		cfg: cfg, selection: selection, clock: clock, metrics: m, journal: newJournal(log, m),
		open: openFile, newWatcher: newInotify, stopWait: stopWait,
	}, nil
}

// Describe implements allowkv.Source.
func (s *Source) Describe() allowlist.Source {
	return allowlist.Source{Kind: allowlist.SourceFile, Path: s.cfg.Path}
}

// Run implements allowkv.Source. The first report is the whole list, or why there is none. After that a read that finds
// the content of before reports Proved, and Listed only when it answers a wish. A wish drops the outcome of a read that
// was under way, so that what is reported next is its answer; one that comes while the file system does not answer is
// answered by SourceFailed at once.
//
// Run may be called again after it returned, and begins anew; a second call at the same time is an error. It leaves a
// goroutine behind in one case: a read that the system does not end within a second of the stop cannot be ended by
// anybody. That goroutine ends with the read and reports nothing. Until then a later Run reports SourceFailed and starts no
// other, so that a hung mount costs one thread and one watcher however often Run is called.
func (s *Source) Run(ctx context.Context, relist <-chan struct{}, report func(allowlist.Input)) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("file source: it runs already")
	}
	defer s.running.Store(false)
	defer s.journal.stopped()
	l := newLoop(s, relist, report)
	l.run(ctx)
	return nil
}

// blocked reports whether the attempt of an earlier Run is not back, and forgets one that is.
func (s *Source) blocked() bool {
	select {
	case <-s.outstanding:
		s.outstanding = nil
	default:
	}
	return s.outstanding != nil
}

// named puts the file in front of what is wrong with it.
func (s *Source) named(err error) error {
	return fmt.Errorf("file of namespaces %q: %w", s.cfg.Path, err)
}
