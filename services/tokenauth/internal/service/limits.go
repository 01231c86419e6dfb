package service

import (
	"fmt"
	"sync"
)

// limits counts the calls in progress. It lets nobody wait: a queue would only hide that there are too many.
type limits struct {
	all, each int

	mu      sync.Mutex
	total   int
	callers map[string]int
}

func newLimits(all, each int) *limits {
	return &limits{all: all, each: each, callers: map[string]int{}}
}

// enter counts a call of caller in, unless there are too many; then it says which limit is reached, and leave must not be
// called.
func (l *limits) enter(caller string) (refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total >= l.all:
		return fmt.Sprintf("%d calls are in progress, as many as max_concurrent allows", l.total)
	case l.callers[caller] >= l.each:
		return fmt.Sprintf("%d calls of %s are in progress, as many as max_concurrent_per_caller allows", l.callers[caller], caller)
	}
	l.total++
	l.callers[caller]++
	return ""
}

func (l *limits) leave(caller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.callers[caller]--; l.callers[caller] == 0 {
		delete(l.callers, caller)
	}
}

// inProgress is how many calls there are.
func (l *limits) inProgress() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
