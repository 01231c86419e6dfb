package labelsource

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

func forbidden(verb string) metav1.Status {
	return metav1.Status{
		Code: 403, Reason: metav1.StatusReasonForbidden,
		Message: `namespaces is forbidden: User "system:serviceaccount:mesh:nswatch" cannot ` + verb + ` resource "namespaces"`,
	}
}

func TestListsThatFailAreToldAndTriedAgain(t *testing.T) {
	t.Parallel()
	answer := func(s metav1.Status) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, s) }
	}
	body := func(contentType, text string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(text))
		}
	}
	const protobufType = "application/vnd.kubernetes.protobuf"
	list := func(l *metav1.PartialObjectMetadataList) func(w http.ResponseWriter, r *http.Request) {
		return body(protobufType, string(encode(t, l)))
	}
	page := metadataList("500", metadataOf("evil", 500, false))
	page.Continue = "more"
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		result string
		words  []string
	}{
		{"401", answer(metav1.Status{Code: 401, Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized"}), "unauthorized", []string{"does not accept our credentials"}},
		{"403", answer(forbidden("list")), "forbidden", []string{`grant nswatch's ServiceAccount the verb "list" on the resource "namespaces"`}},
		{"404", answer(metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "nothing here"}), "server_error", []string{"nothing here"}},
		{"410", answer(expired()), "expired", []string{"too old"}},
		{"429", answer(metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "slow down"}), "throttled", []string{"slow down"}},
		{"500", answer(metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcd is away"}), "server_error", []string{"etcd is away"}},
		{"504 too large", answer(tooLargeVersion()), "too_large", []string{"Too large resource version"}},
		{"a proxy's page", body("text/html", "<html>login</html>"), "malformed", []string{"not in Kubernetes' protobuf form"}},
		{"no bytes", body(protobufType, ""), "malformed", []string{"cut short"}},
		{"garbage", body(protobufType, "k8s\x00"+strings.Repeat("\xff", 40)), "malformed", []string{"cannot be understood"}},
		{"JSON", body("application/json", `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"500"},"items":[]}`), "malformed", []string{"not in Kubernetes' protobuf form"}},
		{"a page", list(page), "malformed", []string{"a part of the list"}},
		{"a version that is no number", list(metadataList("abc", metadataOf("evil", 500, false))), "malformed", []string{`"abc"`, "positive number"}},
		{"no version", list(metadataList("")), "malformed", []string{"positive number"}},
		{"the connection breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "unreachable", []string{"list namespaces"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := startAPI(t, "a")
			r := start(t, api, seldom)
			_, n := r.wantList(0, "a")
			var healed atomic.Bool
			api.scripted(from(1, &healed, c.answer), nil)
			r.wish()
			n = r.wantFailure(n, append(c.words, "could not find out which namespaces match \"a=b\"")...)
			n = r.wantFailure(n, c.words...) // without another wish
			if got := r.metric("label_lists_total", c.result); got < 2 {
				t.Errorf("%v lists are counted as %s", got, c.result)
			}
			if got := r.metric("label_namespaces", ""); got != 1 {
				t.Errorf("the set has %v namespaces after a failure", got)
			}
			healed.Store(true)
			n = r.wantProof(n)
			if !strings.Contains(r.log.String(), `"kind":"`+c.result+`"`) || !strings.Contains(r.log.String(), "the namespaces are listed") {
				t.Errorf("the log does not tell the failure and its end:\n%s", r.log)
			}
			api.put("b", false)
			r.wantList(n, "a", "b")
		})
	}
}

func TestAServerThatIsBusyOnceIsAskedAgain(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := newRig(t, api, often)
	api.scripted(on(1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		writeStatus(w, metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "slow down", Details: &metav1.StatusDetails{RetryAfterSeconds: 1}})
	}), nil)
	r.run()
	r.wantList(0, "a")
}

func TestWatchesThatFailAreToldOrMended(t *testing.T) {
	t.Parallel()
	event := func(line []byte) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { writeEvents(w, line) }
	}
	answer := func(s metav1.Status) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, s) }
	}
	odd := metadataOf("evil", 500, false)
	odd.ResourceVersion = "abc"
	nameless := metadataOf("", 500, false)
	internal := metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcd event received with PrevKv=nil"}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		reason string
		// words of the failure that is told; none when it is mended without one.
		words []string
	}{
		{"closed at once", func(w http.ResponseWriter, _ *http.Request) { openWatch(w) }, "closed", nil},
		{"410 as a status", answer(expired()), "expired", nil},
		{"410 as an event", event(eventLine("ERROR", status(expired()))), "expired", nil},
		{"too large as an event", event(eventLine("ERROR", status(tooLargeVersion()))), "too_large", nil},
		{"401", answer(metav1.Status{Code: 401, Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized"}), "unauthorized", []string{"watch namespaces", "does not accept our credentials"}},
		{"403", answer(forbidden("watch")), "forbidden", []string{`the verb "watch" on the resource "namespaces"`}},
		{"403 as an event", event(eventLine("ERROR", status(forbidden("watch")))), "forbidden", []string{`the verb "watch"`}},
		{"429", answer(metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "slow down"}), "throttled", []string{"slow down"}},
		{"500", answer(internal), "server_error", []string{"PrevKv"}},
		{"500 as an event", event(eventLine("ERROR", status(internal))), "server_error", []string{"PrevKv"}},
		{"unknown type of event", event(eventLine("RENAMED", metadataOf("evil", 500, false))), "malformed", []string{"RENAMED"}},
		{"garbage", event([]byte("{{{ no JSON\n")), "malformed", []string{"watch namespaces"}},
		{"event about another kind", event([]byte(`{"type":"ADDED","object":{"kind":"Cat","apiVersion":"zoo/v1"}}` + "\n")), "malformed", []string{"watch namespaces"}},
		{"event about a status", event(eventLine("ADDED", status(expired()))), "malformed", []string{"about no namespace"}},
		{"error that is no status", event(eventLine("ERROR", metadataOf("evil", 500, false))), "malformed", []string{"unexpected object"}},
		{"version that is no number", event(eventLine("ADDED", odd)), "malformed", []string{`"abc"`}},
		{"bookmark without a version", event(eventLine("BOOKMARK", metadataOf("", 0, false))), "malformed", []string{`"0"`}},
		{"namespace without a name", event(eventLine("ADDED", nameless)), "malformed", []string{"without a name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := startAPI(t, "a")
			r := newRig(t, api, seldom)
			var healed atomic.Bool
			api.scripted(nil, from(1, &healed, c.answer))
			r.run()
			_, n := r.wantList(0, "a")
			if c.words != nil {
				n = r.wantFailure(n, append(c.words, "could not find out")...)
			}
			r.until("ends", func() bool { return r.metric("label_watch_ends_total", c.reason) >= 3 })
			if got := r.metric("label_namespaces", ""); got != 1 {
				t.Errorf("the set has %v namespaces after a failure", got)
			}
			healed.Store(true)
			api.put("b", false)
			r.wantList(n, "a", "b")
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, in := range r.reports {
				if f, failed := in.(allowlist.SourceFailed); failed && c.words == nil {
					t.Errorf("the publisher is told %v", f.Err)
				}
			}
		})
	}
}

func TestBookmarksMoveThePlaceToWatchFrom(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := newRig(t, api, seldom)
	mark := metav1.PartialObjectMetadata{TypeMeta: metadataOf("", 1, false).TypeMeta}
	mark.ResourceVersion = "777"
	second := make(chan string, 1)
	api.scripted(nil, func(n int, w http.ResponseWriter, q *http.Request) bool {
		if n == 1 {
			return writeEvents(w, eventLine("BOOKMARK", mark))
		}
		select {
		case second <- q.URL.Query().Get("resourceVersion"):
		default:
		}
		return false
	})
	r.run()
	_, n := r.wantList(0, "a")
	r.next(n, "proof by a bookmark", func(in allowlist.Input) bool {
		p, ok := in.(allowlist.Proved)
		return ok && p.Kind == allowlist.ProofWatch
	})
	if got := <-second; got != "777" {
		t.Errorf("the next watch is from %s", got)
	}
	if r.metric("label_events_total", "bookmark") != 1 {
		t.Error("the bookmark is not counted")
	}
}

func TestEventsThatTheListShowedAreCounted(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := newRig(t, api, seldom)
	api.scripted(nil, on(1, func(w http.ResponseWriter, q *http.Request) {
		writeEvents(w, eventLine("DELETED", metadataOf("a", 90, false)), eventLine("ADDED", metadataOf("b", 120, false)))
		api.hang(q)
	}))
	r.run()
	_, n := r.wantList(0, "a")
	r.wantList(n, "a", "b")
	if r.metric("label_ignored_events_total", "not_newer") != 1 {
		t.Error("the old event is not counted")
	}
	r.orders()
}

func TestStopsWhileEverythingHangs(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := newRig(t, api, seldom)
	hang := func(_ http.ResponseWriter, q *http.Request) { api.hang(q) }
	api.scripted(from(2, nil, hang), from(1, nil, hang))
	r.run()
	r.wantList(0, "a")
	r.wish()
	r.until("hanging requests", func() bool { _, lists, watches, _ := api.seen(); return lists == 2 && watches == 1 })
	r.stop()
}

func TestManyNamespacesInABurstAreOneListOrFew(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a")
	r := start(t, api, seldom)
	_, n := r.wantList(0, "a")
	r.until("watch", func() bool { _, _, watches, _ := api.seen(); return watches == 1 })
	want := []string{"a"}
	for i := range 300 {
		name := "n" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		want = append(want, name)
		api.put(name, false)
	}
	r.wantList(n, want...)
	r.orders()
}

// TestRemovalThatComesWithTheEndOfItsWatchIsReported: rule W6. The removal and the error wait together for the loop.
func TestRemovalThatComesWithTheEndOfItsWatchIsReported(t *testing.T) {
	t.Parallel()
	api := startAPI(t, "a", "b")
	r := newRig(t, api, seldom)
	reporting := make(chan struct{})
	api.scripted(nil, on(1, func(w http.ResponseWriter, q *http.Request) {
		writeEvents(w, eventLine("ADDED", metadataOf("c", 103, false)))
		select {
		case <-reporting:
		case <-q.Context().Done():
		}
		writeEvents(w, eventLine("DELETED", metadataOf("a", 106, false)),
			eventLine("ERROR", status(metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcd event received with PrevKv=nil"})))
	}))
	var l *loop
	l = newLoop(r.source, nil, func(in allowlist.Input) {
		if listed, ok := in.(allowlist.Listed); ok && listed.Order == 103 {
			close(reporting)
			for limit := time.Now().Add(testPatience); len(l.events) < 2 && time.Now().Before(limit); time.Sleep(time.Millisecond) {
			}
		}
		r.take(in)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	_, n := r.wantList(0, "a", "b", "c")
	if removed, after := r.wantList(n, "b", "c"); removed.Kind != allowlist.ProofWatch || after != n+1 {
		t.Errorf("the report after the added namespace is number %d, and that without a is number %d, proven by %v", n, after-1, removed.Kind)
	}
	r.wantFailure(n, "PrevKv")
}
