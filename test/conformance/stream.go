package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// told is one event of a watch.
type told struct {
	id string
	// sandbox and phase of a snapshot.
	sandbox *computev1.DriverSandbox
	phase   phase.Phase
	// gone: the event says that the sandbox is deleted.
	gone bool
	// platform is an event of the platform's.
	platform *computev1.DriverPlatformEvent
	at       time.Time
}

func (t told) String() string {
	switch {
	case t.gone:
		return "Deleted"
	case t.platform != nil:
		return "event " + t.platform.GetReason()
	default:
		return string(t.phase)
	}
}

// stream is a watch with all that it told.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	all     []told
	ended   bool
	problem error
	news    chan struct{} // closed at the next event
}

// open begins a watch. It is closed when the check ends.
func (p *probe) open(ctx context.Context) (grpc.ServerStreamingClient[computev1.WatchSandboxesEvent], *stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	from, err := p.driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("WatchSandboxes: %w", err)
	}
	s := &stream{cancel: cancel, done: make(chan struct{}), news: make(chan struct{})}
	p.mu.Lock()
	p.streams = append(p.streams, s)
	p.mu.Unlock()
	return from, s, nil
}

// watch begins a watch and reads it.
func (p *probe) watch(ctx context.Context) (*stream, error) {
	from, s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	go s.read(from)
	return s, nil
}

func (s *stream) read(from grpc.ServerStreamingClient[computev1.WatchSandboxesEvent]) {
	defer close(s.done)
	for s.next(from) {
	}
}

// next takes in one event; it is false at the end.
func (s *stream) next(from grpc.ServerStreamingClient[computev1.WatchSandboxesEvent]) bool {
	event, err := from.Recv()
	var one told
	if err == nil {
		one, err = toldBy(event)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.ended, s.problem = true, err
	} else {
		s.all = append(s.all, one)
	}
	close(s.news)
	s.news = make(chan struct{})
	return err == nil
}

// at is one event.
func (s *stream) at(i int) told {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[i]
}

func toldBy(event *computev1.WatchSandboxesEvent) (told, error) {
	one := told{at: time.Now()}
	switch payload := event.GetPayload().(type) {
	case *computev1.WatchSandboxesEvent_Sandbox:
		one.sandbox = payload.Sandbox.GetSandbox()
		one.id = one.sandbox.GetId()
		status, err := phase.FromDriver(one.sandbox.GetStatus())
		if err != nil {
			return told{}, err
		}
		one.phase = phase.Backend(status)
	case *computev1.WatchSandboxesEvent_Deleted:
		one.id, one.gone = payload.Deleted.GetSandboxId(), true
	case *computev1.WatchSandboxesEvent_PlatformEvent:
		one.id, one.platform = payload.PlatformEvent.GetSandboxId(), payload.PlatformEvent.GetEvent()
	default:
		return told{}, errors.New("the watch tells an event without a payload")
	}
	if one.id == "" {
		return told{}, errors.New("the watch tells an event without a sandbox id")
	}
	return one, nil
}

// close ends the watch and waits for its reader, if it has one.
func (s *stream) close() {
	s.cancel()
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if !ended {
		<-s.done
	}
}

// unread closes a watch that nobody reads.
func (s *stream) unread() {
	s.cancel()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
}

// of is what was told of a sandbox from an index of all on.
func (s *stream) of(id string, from int) []told {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []told
	for _, one := range s.all[from:] {
		if one.id == id {
			some = append(some, one)
		}
	}
	return some
}

// length is how many events there were.
func (s *stream) length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// await waits until an event of the sandbox from an index on fits, and returns the index after it.
func (s *stream) await(ctx context.Context, limit time.Duration, id string, from int, what string, fits func(told) bool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s.mu.Lock()
		all, ended, problem, news := s.all, s.ended, s.problem, s.news
		s.mu.Unlock()
		for i := from; i < len(all); i++ {
			if all[i].id == id && fits(all[i]) {
				return i + 1, nil
			}
		}
		if ended {
			return 0, fmt.Errorf("the watch ended: %w", problem)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, fmt.Errorf("the watch did not tell that the sandbox is %s; it told %v", what, s.of(id, 0))
		}
	}
}

// tells waits until the watch tells a phase.
func (p *probe) tells(ctx context.Context, s *stream, id string, from int, want phase.Phase) (int, error) {
	return s.await(ctx, p.patience, id, from, string(want), func(t told) bool { return t.sandbox != nil && t.phase == want })
}

// tellsGone waits until the watch tells that the sandbox is deleted.
func (p *probe) tellsGone(ctx context.Context, s *stream, id string, from int) (int, error) {
	return s.await(ctx, p.patience, id, from, "deleted", func(t told) bool { return t.gone })
}
