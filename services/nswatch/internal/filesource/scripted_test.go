package filesource

import (
	"sync"

	"github.com/fsnotify/fsnotify"
)

// scripted is a watcher that notices nothing and says what a test tells it to.
type scripted struct {
	events chan fsnotify.Event
	errs   chan error

	mu           sync.Mutex
	closed       bool
	eventsClosed bool
	refusal      error
}

func newScripted() *scripted {
	return &scripted{events: make(chan fsnotify.Event), errs: make(chan error)}
}

func (s *scripted) Add(string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

func (s *scripted) Remove(string) error { return fsnotify.ErrNonExistentWatch }

func (s *scripted) Close() error {
	s.closeEvents()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.errs)
	}
	return nil
}

func (s *scripted) channels() (<-chan fsnotify.Event, <-chan error) { return s.events, s.errs }

func (s *scripted) closeEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.eventsClosed {
		s.eventsClosed = true
		close(s.events)
	}
}

func (s *scripted) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *scripted) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = err
}
