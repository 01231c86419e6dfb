package daemon

import (
	"net/http"
	"sync"
)

// inflight counts the requests in progress, because http.Server does not wait for
// handlers whose connections it closed.
type inflight struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// enter reports whether a request may begin; the WaitGroup must not grow once
// somebody waits.
func (f *inflight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.wg.Add(1)
	return true
}

// close turns new requests away and waits for the others.
func (f *inflight) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *inflight) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.enter() {
			http.Error(w, "the daemon has stopped", http.StatusServiceUnavailable)
			return
		}
		defer f.wg.Done()
		next.ServeHTTP(w, r)
	})
}
