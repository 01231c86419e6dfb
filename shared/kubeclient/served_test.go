package kubeclient

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestServed: a group is served when the API server says so, which is believed for a while; what it does not say changes nothing that is
// known, and makes nothing known.
func TestServed(t *testing.T) {
	var status, asked atomic.Int64
	s := startAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/apis/agents.x-k8s.io" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	}, nil)
	served := connect(t, DefaultConfig(), s.kubeconfig(t, static("hunter2"))).Serves("agents.x-k8s.io", "install the CRD")
	now := time.Unix(1, 0)
	served.now = func() time.Time { return now }
	for i, step := range []struct {
		later  time.Duration
		status int64
		asked  int64
		want   string // empty: ready
	}{
		{0, 500, 1, "does not say whether it serves agents.x-k8s.io: it answered 500"},
		{0, 404, 2, "serves no agents.x-k8s.io: install the CRD"},
		{0, 200, 3, ""},
		{askAgain - 1, 404, 3, ""},
		{1, 500, 4, ""},
		{0, 503, 5, ""},
		{0, 404, 6, "serves no agents.x-k8s.io: install the CRD"},
		{0, 503, 7, "does not say"},
		{0, 403, 8, ""},
		{0, 503, 9, "does not say"},
		{0, 200, 10, ""},
		{askAgain, 200, 11, ""},
		{askAgain - 1, 404, 11, ""},
	} {
		now = now.Add(step.later)
		status.Store(step.status)
		err := served.Ready(soon(t))
		if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) || asked.Load() != step.asked {
			t.Errorf("step %d: %v, asked %d times; want %q, %d", i, err, asked.Load(), step.want, step.asked)
		}
	}
	s.Close()
	if err := connect(t, DefaultConfig(), s.kubeconfig(t, static("hunter2"))).Serves("g", "x").Ready(soon(t)); err == nil || !strings.Contains(err.Error(), "could not be asked") {
		t.Errorf("an API server that is gone: %v", err)
	}
}
