package observe

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a source that a test drives. Each watch takes what the test gives to feed, and ends as the test says by end.
type script[T any] struct {
	mu      sync.Mutex
	listing Listing[T]
	failure error // of lists
	refuse  error // of watches, at once
	hang    bool  // lists do not answer
	mute    bool  // watches do not tell that they have opened
	lists   int
	watches []uint64 // where they began

	feed chan Change[T]
	end  chan error
}

func newScript[T any](version uint64, items ...Item[T]) *script[T] {
	return &script[T]{listing: Listing[T]{Version: version, Items: items}, feed: make(chan Change[T]), end: make(chan error)}
}

func (s *script[T]) edit(change func(s *script[T])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *script[T]) List(ctx context.Context, _ uint64) (Listing[T], error) {
	s.mu.Lock()
	s.lists++
	listing, failure, hang := s.listing, s.failure, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return Listing[T]{}, ctx.Err()
	}
	return listing, failure
}

func (s *script[T]) Watch(ctx context.Context, from uint64, tell func(Change[T]) bool) error {
	s.mu.Lock()
	s.watches = append(s.watches, from)
	refuse, mute := s.refuse, s.mute
	s.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	if !mute && !tell(Change[T]{Form: Opened}) {
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ch := <-s.feed:
			if !tell(ch) {
				return ctx.Err()
			}
		case err := <-s.end:
			return err
		}
	}
}

func (s *script[T]) asked() (lists int, watches []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, append([]uint64(nil), s.watches...)
}

// finder is what a live look finds.
type finder struct {
	found []sandboxapi.Object
	err   error
	asked int
}

func (f *finder) Find(context.Context, string) ([]sandboxapi.Object, error) {
	f.asked++
	return f.found, f.err
}

// stage is an observer that runs, with its sources.
type stage struct {
	*Observer
	boxes    *script[snapshot.Sandbox]
	pods     *script[snapshot.Pod]
	events   *script[progress.Event]
	live     *finder
	registry *prometheus.Registry
	stop     func()
}

// newStage makes one with one sandbox that is ready; it does not run yet.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		boxes:  newScript(10, boxItem("u1", "a", 10, 10)),
		pods:   newScript(10, podItem("u1", 9, false, true), podItem("u1", 10, true, true)),
		events: newScript[progress.Event](10), live: &finder{}, registry: prometheus.NewRegistry(), stop: func() {},
	}
	var err error
	s.Observer, err = New(DefaultSettings(), scheme, Sources{Sandboxes: s.boxes, Pods: s.pods, Events: s.events}, s.live, zerolog.New(io.Discard), s.registry)
	must(t, err)
	return s
}

// start runs it until stop is called.
func (s *stage) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// stream is a caller of Watch that takes everything.
type stream struct {
	mu     sync.Mutex
	heard  []string
	times  []time.Time
	ended  chan error
	cancel context.CancelFunc
}

func (s *stage) open() *stream {
	ctx, cancel := context.WithCancel(context.Background())
	st := &stream{ended: make(chan error, 1), cancel: cancel}
	go func() {
		st.ended <- s.Watch(ctx, func(e *computev1.WatchSandboxesEvent) error {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.heard, st.times = append(st.heard, said(e)), append(st.times, time.Now())
			return nil
		})
	}()
	return st
}

// take gives what was heard since the last take.
func (st *stream) take() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	heard := st.heard
	st.heard = nil
	return heard
}

func (st *stream) close(t *testing.T) {
	t.Helper()
	st.cancel()
	if err := <-st.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v", err)
	}
}

type progressEvent = progress.Event

// object is a live Sandbox object.
func object(uid, id string) sandboxapi.Object {
	return sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: "openshell", Name: "team--" + uid, UID: uid,
			Labels: map[string]string{
				workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: "blue", workspace.LabelSandboxID: id,
				workspace.LabelSandboxName: "n-" + id, workspace.LabelSandboxWorkspace: "team",
			},
		},
		Version: sandboxapi.V1beta1, Mode: sandboxapi.Running,
	}
}
