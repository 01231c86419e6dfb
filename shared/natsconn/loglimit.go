package natsconn

import (
	"sync"
	"time"
)

// logEvery is how often one kind of error is logged at most. A server that is away for an hour makes a line every
// ten seconds, not one per attempt; the counter metric has them all.
const logEvery = 10 * time.Second

// logLimit decides which errors are logged. The zero value is ready.
type logLimit struct {
	mu   sync.Mutex
	last map[kind]time.Time
	held map[kind]int
}

// allow reports whether an error of this kind is to be logged now, and how many were not since the last one.
func (l *logLimit) allow(now time.Time, k kind) (held int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, seen := l.last[k]; seen && now.Sub(last) < logEvery {
		l.held[k]++
		return 0, false
	}
	if l.last == nil {
		l.last, l.held = map[kind]time.Time{}, map[kind]int{}
	}
	held = l.held[k]
	l.last[k], l.held[k] = now, 0
	return held, true
}
