package labelsource

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

// script answers the nth list or watch, counted from 1, in the server's stead; it says no to leave it to the server.
type script func(n int, w http.ResponseWriter, r *http.Request) bool

// apiServer speaks the list and watch protocol of a Kubernetes API server over TLS and HTTP/2, for one resource. Lists
// are protobuf and watches JSON, both of which the real one speaks. Unlike client-go's fake it keeps a log, so nothing
// that happens between a list and a watch is lost (bug corpus W08).
type apiServer struct {
	*httptest.Server
	t    *testing.T
	quit chan struct{}

	mu       sync.Mutex
	version  uint64
	objects  []metav1.PartialObjectMetadata
	events   []event
	changed  chan struct{}
	requests []*http.Request
	lists    int
	watches  int
	onList   script
	onWatch  script
}

type event struct {
	version uint64
	line    []byte
}

// startAPI begins with the given namespaces at version 100.
func startAPI(t *testing.T, names ...string) *apiServer {
	s := &apiServer{t: t, quit: make(chan struct{}), changed: make(chan struct{}), version: 100}
	for _, n := range names {
		s.objects = append(s.objects, metadataOf(n, 100, false))
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() {
		close(s.quit)
		s.Close()
	})
	return s
}

// scripted sets what answers lists and watches first. Nil leaves them to the server.
func (s *apiServer) scripted(lists, watches script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onList, s.onWatch, s.lists, s.watches = lists, watches, 0, 0
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isWatch := r.URL.Query().Get("watch") == "true"
	s.mu.Lock()
	s.requests = append(s.requests, r)
	var answer script
	var n int
	if isWatch {
		s.watches++
		answer, n = s.onWatch, s.watches
	} else {
		s.lists++
		answer, n = s.onList, s.lists
	}
	s.mu.Unlock()
	switch {
	case answer != nil && answer(n, w, r):
	case isWatch:
		s.serveWatch(w, r)
	default:
		s.serveList(w)
	}
}

func (s *apiServer) serveList(w http.ResponseWriter) {
	s.mu.Lock()
	list := metadataList(strconv.FormatUint(s.version, 10), slices.Clone(s.objects)...)
	s.mu.Unlock()
	s.writeList(w, list)
}

func (s *apiServer) writeList(w http.ResponseWriter, list *metav1.PartialObjectMetadataList) {
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_, _ = w.Write(encode(s.t, list))
}

func (s *apiServer) serveWatch(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	if err != nil {
		writeStatus(w, metav1.Status{Code: 400, Reason: metav1.StatusReasonBadRequest, Message: "no version"})
		return
	}
	openWatch(w)
	for {
		s.mu.Lock()
		var lines [][]byte
		for _, e := range s.events {
			if e.version > from {
				from = e.version
				lines = append(lines, e.line)
			}
		}
		changed := s.changed
		s.mu.Unlock()
		for _, line := range lines {
			_, _ = w.Write(line)
		}
		flush(w)
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-s.quit:
			return
		}
	}
}

// put adds or changes a namespace. drop removes one, or its label: a watch with a selector sees no difference (bug
// corpus W16). dropSilently tells no watch of it.
func (s *apiServer) put(name string, terminating bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += 3
	object := metadataOf(name, s.version, terminating)
	kind := "ADDED"
	i := slices.IndexFunc(s.objects, func(o metav1.PartialObjectMetadata) bool { return o.Name == name })
	if i >= 0 {
		kind, s.objects[i] = "MODIFIED", object
	} else {
		s.objects = append(s.objects, object)
	}
	s.tell(kind, object)
}

func (s *apiServer) drop(name string) { s.remove(name, true) }

func (s *apiServer) dropSilently(name string) { s.remove(name, false) }

func (s *apiServer) remove(name string, told bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += 3
	s.objects = slices.DeleteFunc(s.objects, func(o metav1.PartialObjectMetadata) bool { return o.Name == name })
	if told {
		// What is embedded looks like a namespace in the best of health (bug corpus W07).
		s.tell("DELETED", metadataOf(name, s.version, false))
	}
}

// tell is called with the lock held.
func (s *apiServer) tell(kind string, object metav1.PartialObjectMetadata) {
	s.events = append(s.events, event{version: s.version, line: eventLine(kind, object)})
	close(s.changed)
	s.changed = make(chan struct{})
}

// seen is the version, how many lists and watches were asked for under this script, and all requests so far.
func (s *apiServer) seen() (version uint64, lists, watches int, requests []*http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.lists, s.watches, slices.Clone(s.requests)
}

// hang waits until the client or the test is gone.
func (s *apiServer) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.quit:
	}
}

func openWatch(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush(w)
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func eventLine(kind string, object any) []byte {
	line, _ := json.Marshal(map[string]any{"type": kind, "object": object})
	return append(line, '\n')
}

// writeEvents is a whole watch with these events.
func writeEvents(w http.ResponseWriter, lines ...[]byte) bool {
	openWatch(w)
	for _, line := range lines {
		_, _ = w.Write(line)
	}
	flush(w)
	return true
}

// status fills in what every failure has.
func status(s metav1.Status) metav1.Status {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	s.Status = metav1.StatusFailure
	return s
}

func writeStatus(w http.ResponseWriter, s metav1.Status) bool {
	body, _ := json.Marshal(status(s))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(body)
	return true
}

func expired() metav1.Status {
	return metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version: 1 (2)"}
}

func tooLargeVersion() metav1.Status {
	return metav1.Status{
		Code: 504, Reason: metav1.StatusReasonTimeout, Message: "Too large resource version: 900, current: 100",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
	}
}

// clients are real ones, with a kubeconfig.
func (s *apiServer) clients(reg prometheus.Registerer) *kubeclient.Clients {
	s.t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	named := func(kind string, value any) []map[string]any { return []map[string]any{{"name": "it", kind: value}} }
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": named("cluster", map[string]any{"server": s.URL, "certificate-authority-data": authority}),
		"users":    named("user", map[string]any{"token": "t"}),
		"contexts": named("context", map[string]any{"cluster": "it", "user": "it"}),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := kubeclient.DefaultConfig()
	cfg.QPS, cfg.Burst, cfg.WatchQPS, cfg.WatchBurst = 1000, 1000, 1000, 1000
	cfg.Kubeconfig = filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(cfg.Kubeconfig, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	clients, err := kubeclient.New(cfg, zerolog.Nop(), reg)
	if err != nil {
		s.t.Fatal(err)
	}
	return clients
}
