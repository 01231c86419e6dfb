package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Manual is a clock that moves when it is told to. Make it with NewManual.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	next    int
	timers  []timer
	changed chan struct{} // closed when a timer was added
}

type timer struct {
	id int
	at time.Time
	d  time.Duration
	f  func()
}

// NewManual returns a clock that stands at now.
func NewManual(now time.Time) *Manual { return &Manual{now: now, changed: make(chan struct{})} }

// Now returns the time.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// AfterFunc adds a timer.
func (m *Manual) AfterFunc(d time.Duration, f func()) func() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	id := m.next
	m.timers = append(m.timers, timer{id: id, at: m.now.Add(max(d, 0)), d: d, f: f})
	close(m.changed)
	m.changed = make(chan struct{})
	return func() bool { return m.drop(id) }
}

func (m *Manual) drop(id int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.timers)
	m.timers = slices.DeleteFunc(m.timers, func(t timer) bool { return t.id == id })
	return len(m.timers) < before
}

// Advance moves the time and fires what it reaches, also what that adds before its end.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	for {
		slices.SortStableFunc(m.timers, func(a, b timer) int { return a.at.Compare(b.at) })
		if len(m.timers) == 0 || m.timers[0].at.After(end) {
			break
		}
		due := m.timers[0]
		m.timers, m.now = m.timers[1:], due.at
		m.mu.Unlock()
		fired := make(chan struct{})
		go func() {
			defer close(fired)
			due.f()
		}()
		<-fired
		m.mu.Lock()
	}
	m.now = end
	m.mu.Unlock()
}

// AwaitTimer waits until a timer of the duration d runs.
func (m *Manual) AwaitTimer(ctx context.Context, d time.Duration) error {
	for {
		m.mu.Lock()
		found, changed := slices.ContainsFunc(m.timers, func(t timer) bool { return t.d == d }), m.changed
		m.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
