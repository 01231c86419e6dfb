package service

import (
	"fmt"
	"sync"
)

// limits counts the calls in progress. It lets nobody wait: a queue would only hide that there are too many.
type limits struct {
	all, perCaller, perBearer int

	mu      sync.Mutex
	total   int
	callers map[string]int
	bearers map[bearer]int
}

func newLimits(s *Settings) *limits {
	l := &limits{
		all: s.MaxConcurrent, perCaller: s.MaxConcurrentPerCaller, perBearer: s.MaxConcurrentPerBearer,
		callers: map[string]int{}, bearers: map[bearer]int{},
	}
	if l.perCaller == 0 {
		l.perCaller = l.all
	}
	return l
}

// enter counts a call of caller for b in, unless there are too many; then it says which limit is reached, and leave must not
// be called. It names the bearer's limit first, since that one is the bearer's own doing.
func (l *limits) enter(caller string, b bearer) (refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.bearers[b] >= l.perBearer:
		return fmt.Sprintf("%d calls for this credential are in progress, as many as max_concurrent_per_bearer allows", l.bearers[b])
	case l.total >= l.all:
		return fmt.Sprintf("%d calls are in progress, as many as max_concurrent allows", l.total)
	case l.callers[caller] >= l.perCaller:
		return fmt.Sprintf("%d calls of %s are in progress, as many as max_concurrent_per_caller allows", l.callers[caller], caller)
	}
	l.total++
	l.callers[caller]++
	l.bearers[b]++
	return ""
}

func (l *limits) leave(caller string, b bearer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	release(l.callers, caller)
	release(l.bearers, b)
}

// release takes one off, and keeps nothing of who has no more.
func release[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

// inProgress is how many calls there are.
func (l *limits) inProgress() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
