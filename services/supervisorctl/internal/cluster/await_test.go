package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// events answers a watch with them and then, as then says, ends it or is silent.
func events(then http.HandlerFunc, all ...map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, e := range all {
			_ = json.NewEncoder(w).Encode(e)
		}
		_ = http.NewResponseController(w).Flush()
		then(w, r)
	}
}

func event(kind string, o any) map[string]any { return map[string]any{"type": kind, "object": o} }

// TestAwaitPod asks for one Pod from one version on, and says whether anything was told of it.
func TestAwaitPod(t *testing.T) {
	pod := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metadata()}
	gone := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
	end := func(http.ResponseWriter, *http.Request) {}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		told   bool
	}{
		"made":             {events(hang, event("ADDED", pod)), true},
		"changed":          {events(hang, event("MODIFIED", pod)), true},
		"deleted":          {events(hang, event("DELETED", pod)), true},
		"too old":          {events(hang, event("ERROR", gone)), false},
		"ends":             {events(end), false},
		"breaks":           {cut, false},
		"may not be asked": {refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "no", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			var query map[string][]string
			s := newSite(t, func(w http.ResponseWriter, r *http.Request) { query = r.URL.Query(); tc.answer(w, r) })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := s.cluster(patience).AwaitPod(ctx, "team", "box", "41"); (err == nil) != tc.told || ctx.Err() != nil {
				t.Errorf("%v", err)
			}
			if got := s.one(); got.method != http.MethodGet || got.path != "/api/v1/namespaces/team/pods" {
				t.Errorf("%+v", got)
			}
			for key, want := range map[string]string{"watch": "true", "fieldSelector": "metadata.name=box", "resourceVersion": "41"} {
				if got := query[key]; len(got) != 1 || got[0] != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// TestAwaitPodEndsWithItsCall, before the API server answers and after.
func TestAwaitPodEndsWithItsCall(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{"before": hang, "after": events(hang)} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			s := newSite(t, func(w http.ResponseWriter, r *http.Request) { close(asked); answer(w, r) })
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.cluster(time.Nanosecond).AwaitPod(ctx, "team", "box", "") }()
			<-asked
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}
