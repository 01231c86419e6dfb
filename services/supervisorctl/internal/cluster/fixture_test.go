package cluster_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is a deadline that no answer takes.
const patience = time.Minute

// request is what the API server was sent.
type request struct {
	method, path, contentType string
	body                      []byte
}

// site is an API server that answers as it is told to.
type site struct {
	t      *testing.T
	server *httptest.Server
	mu     sync.Mutex
	sent   []request
	answer http.HandlerFunc
}

func newSite(t *testing.T, answer http.HandlerFunc) *site {
	t.Helper()
	s := &site{t: t, answer: answer}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.sent = append(s.sent, request{r.Method, r.URL.Path, r.Header.Get("Content-Type"), body})
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) on(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.sent = answer, nil
}

func (s *site) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// one is the only request that there was.
func (s *site) one() request {
	s.t.Helper()
	all := s.requests()
	if len(all) != 1 {
		s.t.Fatalf("%d requests: %+v", len(all), all)
	}
	return all[0]
}

func (s *site) cluster(timeout time.Duration) *cluster.Cluster {
	return s.limited(timeout, flowcontrol.NewFakeAlwaysRateLimiter())
}

func (s *site) limited(timeout time.Duration, limit flowcontrol.RateLimiter) *cluster.Cluster {
	s.t.Helper()
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	config, client := &rest.Config{
		Host: s.server.URL, RateLimiter: limit, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}, &http.Client{Transport: transport}
	typed, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		s.t.Fatal(err)
	}
	untyped, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := cluster.New(kubeclient.Client{Typed: typed, Dynamic: untyped}, timeout)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// object answers with an object.
func object(o any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o)
	}
}

// refusal answers with a Status of the API server.
func refusal(code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, Details: details,
		})
	}
}

// plain answers as a proxy does, or the API server for a path that it does not know.
func plain(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
}

// cut breaks the connection in the middle of the answer; before it, the client would try again for a while.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"kind":`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// hang answers when the client has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// sandbox is a Sandbox as the API server has it in a version.
func sandbox(version string) map[string]any {
	spec := map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "i"}}}}}
	if version == "v1alpha1" {
		spec["replicas"] = 0
	} else {
		spec["operatingMode"] = "Suspended"
	}
	return map[string]any{
		"apiVersion": "agents.x-k8s.io/" + version, "kind": "Sandbox",
		"metadata": map[string]any{"namespace": "team", "name": "box", "uid": "uid-box", "resourceVersion": "41", "generation": 2},
		"spec":     spec,
	}
}
