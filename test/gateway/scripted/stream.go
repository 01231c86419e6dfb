package scripted

import (
	"sync"

	"google.golang.org/grpc"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// stream is one watch: what it still has to tell, and how it ends.
type stream struct {
	mu    sync.Mutex
	queue []*computev1.WatchSandboxesEvent
	over  bool
	err   error
	news  chan struct{} // holds a value when there may be something new
}

func newStream() *stream { return &stream{news: make(chan struct{}, 1)} }

func (s *stream) add(e *computev1.WatchSandboxesEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, e)
	s.wake()
}

func (s *stream) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.err = true, err
	s.wake()
}

func (s *stream) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *stream) serve(to grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	for {
		s.mu.Lock()
		queue, over, err := s.queue, s.over, s.err
		s.queue = nil
		s.mu.Unlock()
		for _, e := range queue {
			if err := to.Send(e); err != nil {
				return err
			}
		}
		if over {
			return err
		}
		select {
		case <-s.news:
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}
