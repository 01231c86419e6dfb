package progress

import "time"

// Seen knows which events were passed on. Make it with NewSeen. It is not safe for concurrent use.
type Seen struct {
	most  int
	known map[string]occurrence
	// order has the uids in the order in which they came first, from next on; it is a ring once it is full.
	order []string
	next  int
}

// occurrence is one time that an event happened.
type occurrence struct {
	count int32
	at    time.Time
}

// NewSeen remembers at most most events, at least one; the one that came first is forgotten first.
func NewSeen(most int) *Seen {
	return &Seen{most: max(most, 1), known: map[string]occurrence{}}
}

// First reports whether the event tells of something that no event before told: it is another event, or it has happened again.
func (s *Seen) First(e *Event) bool {
	now := occurrence{count: e.Count, at: e.At}
	last, known := s.known[e.UID]
	if known && (now.count < last.count || now.count == last.count && !now.at.After(last.at)) {
		return false
	}
	s.known[e.UID] = now
	switch {
	case known:
	case len(s.order) < s.most:
		s.order = append(s.order, e.UID)
	default:
		delete(s.known, s.order[s.next])
		s.order[s.next] = e.UID
		s.next = (s.next + 1) % s.most
	}
	return true
}

// Len is how many events are remembered.
func (s *Seen) Len() int { return len(s.known) }
