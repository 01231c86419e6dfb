package sim

import "time"

// event is something that happens at a true time. Events of the same time happen in the order in which they were
// planned, so that a seed has one schedule.
type event struct {
	at    time.Duration
	order uint64
	do    func()
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// agenda is what is still to happen: a binary heap, the next event first.
type agenda struct {
	events []event
	made   uint64
}

func (a *agenda) add(at time.Duration, do func()) {
	a.made++
	a.events = append(a.events, event{at: at, order: a.made, do: do})
	for child := len(a.events) - 1; child > 0; {
		parent := (child - 1) / 2
		if !a.events[child].before(a.events[parent]) {
			return
		}
		a.events[child], a.events[parent] = a.events[parent], a.events[child]
		child = parent
	}
}

// take removes the next event. There must be one.
func (a *agenda) take() event {
	first, last := a.events[0], len(a.events)-1
	a.events[0] = a.events[last]
	a.events[last] = event{}
	a.events = a.events[:last]
	for parent := 0; ; {
		least := parent
		for child := 2*parent + 1; child <= 2*parent+2 && child < last; child++ {
			if a.events[child].before(a.events[least]) {
				least = child
			}
		}
		if least == parent {
			return first
		}
		a.events[parent], a.events[least] = a.events[least], a.events[parent]
		parent = least
	}
}
