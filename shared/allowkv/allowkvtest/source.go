package allowkvtest

import (
	"context"
	"sync"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// Source holds the list that it was given last, and proves it whenever it is asked or changed, and every so often. It
// implements allowkv.Source for one term after the other. Safe for concurrent use, but for Every.
type Source struct {
	// Every is the time between proofs that nobody asked for; a second unless it is changed, and zero for none at all. Set
	// it before Run.
	Every time.Duration

	clock   allowkv.Clock
	changed chan struct{}

	mu    sync.Mutex
	list  allowlist.List
	order uint64
}

// NewSource makes a source that holds the list. The clock is that of the publisher it is for.
func NewSource(clock allowkv.Clock, list allowlist.List) *Source {
	return &Source{Every: time.Second, clock: clock, changed: make(chan struct{}, 1), list: list}
}

// Set makes this the list.
func (s *Source) Set(list allowlist.List) {
	s.mu.Lock()
	s.list = list
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default: // what is on its way tells of this list too
	}
}

// Describe implements allowkv.Source.
func (*Source) Describe() allowlist.Source {
	return allowlist.Source{Kind: allowlist.SourceLabel, Selector: "team=a"}
}

// Run implements allowkv.Source.
func (s *Source) Run(ctx context.Context, relist <-chan struct{}, report func(allowlist.Input)) error {
	var again <-chan time.Time
	if s.Every > 0 {
		ticker := time.NewTicker(s.Every)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-relist:
		case <-s.changed:
		case <-again:
		}
		report(s.proof())
	}
}

func (s *Source) proof() allowlist.Input {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order++
	return allowlist.Listed{List: s.list, Version: "v", Order: s.order, Kind: allowlist.ProofList, ProvenAt: s.clock().Mono}
}
