package acceptance_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// script is a source that holds what it is told and proves it twice a second.
type script struct {
	clock   allowkv.Clock
	changed chan struct{}

	mu    sync.Mutex
	list  allowlist.List
	order uint64
}

func (*script) Describe() allowlist.Source {
	return allowlist.Source{Kind: allowlist.SourceLabel, Selector: "team=yes"}
}

func (s *script) Run(ctx context.Context, relist <-chan struct{}, report func(allowlist.Input)) error {
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-relist:
		case <-s.changed:
		case <-again.C:
		}
		s.mu.Lock()
		s.order++
		listed := allowlist.Listed{List: s.list, Version: "v", Order: s.order, Kind: allowlist.ProofList, ProvenAt: s.clock().Mono}
		s.mu.Unlock()
		report(listed)
	}
}

func (s *script) set(list allowlist.List) {
	s.mu.Lock()
	s.list = list
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// writer is a Publisher that leads one term after the other, as a process that wins every election.
type writer struct {
	*allowkv.Publisher
	t      testing.TB
	source *script
	// step is how far its wall clock has been moved, in nanoseconds.
	step atomic.Int64
	// ends counts the terms that are over.
	ends atomic.Int64
	// kill ends the process: nothing is withdrawn, and the records stay.
	kill func()
}

// write runs a writer of these namespaces.
func (c *channel) write(conn allowkv.Connection, namespaces ...string) *writer {
	c.t.Helper()
	w := &writer{t: c.t}
	clock := allowkv.NewClock()
	stepped := func() allowlist.Instant {
		at := clock()
		at.Wall = at.Wall.Add(time.Duration(w.step.Load()))
		return at
	}
	w.source = &script{clock: stepped, changed: make(chan struct{}, 1), list: listOf(c.t, namespaces)}
	var err error
	w.Publisher, err = allowkv.NewPublisher(allowkv.PublisherConfig{
		GatewayID: c.gateway, Name: "writer", Settings: c.config.Settings, PublicKeysFile: c.config.PublicKeysFile,
	}, conn, c.signer, stepped, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		c.t.Fatal(err)
	}
	w.kill = inBackground(c.t, "the writer", func(ctx context.Context) error {
		for ; ctx.Err() == nil; w.ends.Add(1) {
			if _, err := w.Lead(ctx, w.source, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

func listOf(t testing.TB, namespaces []string) allowlist.List {
	t.Helper()
	var entries []allowlist.Entry
	for _, name := range namespaces {
		entries = append(entries, allowlist.Entry{Name: name, UID: "uid-" + name})
	}
	list, err := allowlist.NewList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// publish makes these the namespaces of the source.
func (w *writer) publish(namespaces ...string) {
	w.t.Helper()
	w.source.set(listOf(w.t, namespaces))
}

// answers waits for an answer; an empty reason is a yes.
func (r *reader) answers(namespace string, want verdict.Reason) {
	r.t.Helper()
	r.until("answer "+string(want)+" about "+namespace, func() bool {
		a := r.Check(namespace)
		return a.Reason == want && a.Allowed() == (want == "")
	})
}
