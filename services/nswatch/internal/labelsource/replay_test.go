package labelsource

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// on is a script for the nth request only.
func on(nth int, answer func(w http.ResponseWriter, r *http.Request)) script {
	return func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n == nth {
			answer(w, r)
		}
		return n == nth
	}
}

// from is a script for the nth request and all after it, until off.
func from(nth int, off *atomic.Bool, answer func(w http.ResponseWriter, r *http.Request)) script {
	return func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n < nth || off != nil && off.Load() {
			return false
		}
		answer(w, r)
		return true
	}
}

func TestReplayW01AnOlderListAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := start(t, api, often)
	_, n := r.wantList(0, "a")
	api.drop("a")
	_, n = r.wantList(n)
	var caughtUp atomic.Bool
	// Another server answers from a cache in which "a" still exists.
	api.scripted(from(1, &caughtUp, func(w http.ResponseWriter, _ *http.Request) {
		api.writeList(w, metadataList("101", metadataOf("a", 100, false)))
	}), nil)
	n = r.wantFailure(n, "could not find out", "version 101", "restart nswatch")
	n = r.wantFailure(n, "version 101")
	if r.metric("label_lists_total", "older") < 2 {
		t.Error("the older lists are not counted")
	}
	caughtUp.Store(true)
	n = r.wantProof(n)
	r.wish()
	r.wantList(n)
	r.orders()
}

func TestReplayW02ARelistDoesNotGoBackInTime(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := start(t, api, seldom)
	_, n := r.wantList(0, "a")
	api.drop("a")
	_, n = r.wantList(n)
	api.scripted(on(1, func(w http.ResponseWriter, _ *http.Request) {
		api.writeList(w, metadataList("99", metadataOf("a", 99, false)))
	}), nil)
	r.wish()
	n = r.wantFailure(n, "version 99")
	r.wantProof(n)
	r.orders()
	if got := r.metric("label_namespaces", ""); got != 0 {
		t.Errorf("%v namespaces came back", got)
	}
}

func TestReplayW04AServerThatDoesNotKnowTheVersionYet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
	}{
		{"as a status", func(w http.ResponseWriter) { writeStatus(w, tooLargeVersion()) }},
		{"as an event", func(w http.ResponseWriter) { writeEvents(w, eventLine("ERROR", status(tooLargeVersion()))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := startAPI(t, "a")
			r := newRig(t, api, often)
			var caughtUp atomic.Bool
			api.scripted(nil, from(1, &caughtUp, func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
			r.run()
			_, n := r.wantList(0, "a")
			r.until("refused watches", func() bool { return r.metric("label_watch_ends_total", "too_large") >= 3 })
			n = r.wantProof(n)
			caughtUp.Store(true)
			r.until("watch", func() bool {
				return r.metric("label_watch_starts_total", "") > r.metric("label_watch_ends_total", "too_large")
			})
			api.put("b", false)
			r.wantList(n, "a", "b")
			r.orders()
		})
	}
}

func TestReplayW05AWatchThatIsAlwaysTooOld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
	}{
		{"as a status", func(w http.ResponseWriter) { writeStatus(w, expired()) }},
		{"as an event", func(w http.ResponseWriter) { writeEvents(w, eventLine("ERROR", status(expired()))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := startAPI(t, "a")
			r := newRig(t, api, seldom) // so that every list but the first is there because of the watch
			var healed atomic.Bool
			var mu sync.Mutex
			stale := make(map[string]int)
			api.scripted(nil, func(_ int, w http.ResponseWriter, q *http.Request) bool {
				if healed.Load() {
					return false
				}
				mu.Lock()
				stale[q.URL.Query().Get("resourceVersion")]++
				mu.Unlock()
				api.put("c", false) // so that each list has another version
				c.answer(w)
				return true
			})
			r.run()
			r.until("expired watches", func() bool { return r.metric("label_watch_ends_total", "expired") >= 4 })
			_, lists, watches, _ := api.seen()
			if lists < watches-1 {
				t.Errorf("%d lists for %d watches", lists, watches)
			}
			healed.Store(true)
			r.until("watch", func() bool {
				return r.metric("label_watch_starts_total", "") > r.metric("label_watch_ends_total", "expired")
			})
			mu.Lock()
			for v, n := range stale {
				if n > 1 {
					t.Errorf("version %s was asked for %d times", v, n)
				}
			}
			mu.Unlock()
			n := r.count()
			api.put("b", false)
			r.wantList(n, "a", "b", "c")
			r.orders()
		})
	}
}

func TestReplayW07ADeleteIsFinalWhateverItShows(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a", "b")
	r := start(t, api, seldom)
	_, n := r.wantList(0, "a", "b")
	api.put("a", true)
	_, n = r.wantList(n, "b")
	api.drop("a") // shows a namespace that is not being deleted
	r.wantList(n, "b")
	if got := r.metric("label_namespaces", ""); got != 1 {
		t.Errorf("%v namespaces are left", got)
	}
}

func TestReplayW08ADeleteBetweenListAndWatchIsNotLost(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a", "b")
	r := newRig(t, api, seldom)
	api.scripted(nil, func(n int, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 1 {
			api.drop("a") // after the list, before the watch
		}
		return false
	})
	r.run()
	_, n := r.wantList(0, "a", "b")
	r.wantList(n, "b")
}

func TestReplayW10AWatchThatHangsIsOvertakenByTheLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		open bool
	}{{"without a byte", false}, {"after its header", true}} {
		t.Run(c.name, func(t *testing.T) {
			api := startAPI(t, "a", "b")
			r := newRig(t, api, often)
			api.scripted(nil, on(1, func(w http.ResponseWriter, q *http.Request) {
				if c.open {
					openWatch(w)
				}
				api.hang(q)
			}))
			r.run()
			_, n := r.wantList(0, "a", "b")
			r.until("watch", func() bool { _, _, watches, _ := api.seen(); return watches == 1 })
			api.drop("a")
			removed, n := r.wantList(n, "b")
			if removed.Kind != allowlist.ProofList {
				t.Errorf("the removal is reported as %+v", removed)
			}
			r.until("another watch", func() bool { _, _, watches, _ := api.seen(); return watches > 1 })
			if got := r.metric("label_watch_ends_total", "behind"); got < 1 {
				t.Errorf("%v watches were given up", got)
			}
			api.put("c", false)
			r.wantList(n, "b", "c")
			if !strings.Contains(r.log.String(), "lists showed changes that the watch did not") {
				t.Error("nothing says so in the log")
			}
		})
	}
}

func TestReplayW11ARequestThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := newRig(t, api, often)
	var free atomic.Bool
	api.scripted(func(n int, w http.ResponseWriter, q *http.Request) bool {
		switch {
		case n == 1 || free.Load():
			return false
		case n%2 == 0:
			api.hang(q) // no header
		default:
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			_, _ = w.Write([]byte("k8s\x00\x0a"))
			flush(w)
			api.hang(q) // in the middle
		}
		return true
	}, nil)
	r.run()
	_, n := r.wantList(0, "a")
	r.until("list that hangs", func() bool { _, lists, _, _ := api.seen(); return lists > 1 })
	api.put("b", false)
	_, n = r.wantList(n, "a", "b") // by the watch
	n = r.wantFailure(n, "could not find out", "no answer in time")
	n = r.wantFailure(n, "no answer in time")
	if r.metric("label_lists_total", "timeout") < 2 {
		t.Error("the lists that hung are not counted")
	}
	free.Store(true)
	r.wantProof(n)
}

func TestReplayW12WhatTheWatchLostAListPutsRight(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a", "b")
	r := start(t, api, often)
	_, n := r.wantList(0, "a", "b")
	r.until("watch", func() bool { _, _, watches, _ := api.seen(); return watches == 1 })
	api.dropSilently("a")
	if l, _ := r.wantList(n, "b"); l.Kind != allowlist.ProofList {
		t.Errorf("the removal is reported as %+v", l)
	}
}

func TestReplayW14AnOutageLeavesTheListAndNoProof(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := start(t, api, often)
	_, n := r.wantList(0, "a")
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }
	api.scripted(from(1, nil, refuse), from(1, nil, refuse))
	n = r.wantFailure(n, "could not find out", "list namespaces")
	for range 2 {
		n = r.wantFailure(n, "list namespaces")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range r.reports[n-1:] {
		if _, failed := in.(allowlist.SourceFailed); !failed {
			t.Errorf("without an answer it reports %+v", in)
		}
	}
}

func TestReplayW16LeavingTheSelectorIsRemoval(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a", "b")
	r := start(t, api, seldom)
	_, n := r.wantList(0, "a", "b")
	api.drop("b")
	if l, _ := r.wantList(n, "a"); l.Kind != allowlist.ProofWatch {
		t.Errorf("the removal is reported as %+v", l)
	}
}

func TestReplayW20AnExpiredWatchIsRepairedInside(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a", "b")
	r := newRig(t, api, seldom)
	api.scripted(nil, on(1, func(w http.ResponseWriter, _ *http.Request) {
		api.dropSilently("a") // what the gap hides
		writeEvents(w, eventLine("ERROR", status(expired())))
	}))
	r.run()
	_, n := r.wantList(0, "a", "b")
	r.wantList(n, "b")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range r.reports {
		if _, failed := in.(allowlist.SourceFailed); failed {
			t.Errorf("the publisher is told %+v", in)
		}
	}
}

func TestReplayW24TerminatingIsNotPublished(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a", "b")
	r := start(t, api, seldom)
	_, n := r.wantList(0, "a", "b")
	api.put("a", true)
	_, n = r.wantList(n, "b")
	r.wish()
	if l, _ := r.wantList(n, "b"); l.Kind != allowlist.ProofList {
		t.Errorf("a list with a namespace that is being deleted is reported as %+v", l)
	}
}

func TestReplayW25NothingIsEverWritten(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := start(t, api, seldom)
	_, n := r.wantList(0, "a")
	api.drop("a")
	_, n = r.wantList(n)
	r.wish()
	r.wantList(n)
	_, _, _, requests := api.seen()
	for _, q := range requests {
		if q.Method != http.MethodGet {
			t.Errorf("request %s %s", q.Method, q.URL)
		}
	}
}
