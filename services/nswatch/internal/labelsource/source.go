package labelsource

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

// Selector takes out what is never published (rule W7); *selection.Selection is one. Only the goroutine of Run calls
// it.
type Selector interface {
	// Apply gives the list to publish of all that the source holds. It must not keep or change candidates.
	Apply(candidates []allowlist.Candidate) allowlist.List
}

// Source is the label selector as a source of namespaces. Make it with New.
type Source struct {
	selector  string
	requests  requests
	selection Selector
	clock     allowkv.Clock
	metrics   *metrics
	running   atomic.Bool
	// core and journal belong to whoever has set running.
	core    *core
	journal journal
}

var _ allowkv.Source = (*Source)(nil)

// New checks cfg and registers the metrics portcullis_nswatch_label_*. It starts nothing and sends nothing. clock must
// be the publisher's. The error of a selector that does not parse, or that selects namespaces that nobody labelled,
// names the stock setting operator_namespace_label.
func New(
	cfg Config, clients *kubeclient.Clients, selection Selector, clock allowkv.Clock, log zerolog.Logger, reg prometheus.Registerer,
) (*Source, error) {
	selector, err := canonical(cfg.Selector)
	if err != nil {
		err = fmt.Errorf("%s: %w", setting, err)
	}
	if err = errors.Join(err, cfg.check()); err != nil {
		return nil, err
	}
	if clients == nil || selection == nil || clock == nil {
		return nil, errors.New("label source: no clients, selection or clock was given")
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	b := bounds{selector: selector, relist: cfg.LabelRelist, maxAge: cfg.SourceMaxAge}
	return &Source{
		selector: selector, requests: newRequests(clients, selector), selection: selection, clock: clock, metrics: m,
		core: newCore(b, fullJitter(), fullJitter()), journal: journal{log: log, failures: map[string]*rate{}},
	}, nil
}

// fullJitter pauses for a random time of up to 200 ms, doubled with each failure up to 5 s: readers that closed with a
// broken API server open soon after it is back.
func fullJitter() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(2500*time.Millisecond),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1), // from nothing to twice the interval
		backoff.WithMaxElapsedTime(0),
	)
}

// Describe implements allowkv.Source.
func (s *Source) Describe() allowlist.Source {
	return allowlist.Source{Kind: allowlist.SourceLabel, Selector: s.selector}
}

// Run implements allowkv.Source. The first report is the whole list, or why there is none. A list that shows what was
// known reports Proved, and Listed only when it answers a wish; a watch event that changes nothing reports Proved. A
// failed watch is reported as SourceFailed when neither another watch nor a list mends it.
//
// Run may be called again after it returned. It lists afresh then, and still takes nothing that is older than what it
// used before. A second call at the same time is an error.
func (s *Source) Run(ctx context.Context, relist <-chan struct{}, report func(allowlist.Input)) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("label source: it runs already")
	}
	defer s.running.Store(false)
	defer s.metrics.selected.Set(0) // nobody follows them any more
	l := newLoop(s, relist, report)
	l.run(ctx)
	return nil
}
