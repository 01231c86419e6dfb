package leadership_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// apiServer is the part of an API server that an election needs: one Lease, with optimistic concurrency, behind real
// HTTP. Each client has a name, by which the server can be told to misbehave.
type apiServer struct {
	t    *testing.T
	http *httptest.Server

	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	writes  []write
	fault   func(client, method string) fault
	gaveUp  int // requests that were hanging when their client went away
}

// write is one change of the Lease.
type write struct{ client, holder string }

// fault is what happens to a request. The zero value is nothing.
type fault int

const (
	healthy fault = iota
	refused       // 500
	hanging       // no answer, and no effect
	mute          // it takes effect, and no answer comes
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/mesh/leases"

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{t: t}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.http.Close)
	return s
}

// client is a client that the server knows by its name.
func (s *apiServer) client(name string) coordinationclient.CoordinationV1Interface {
	s.t.Helper()
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	c, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: s.http.URL, UserAgent: name, QPS: -1}, &http.Client{
		Transport: named{name, transport},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c.CoordinationV1()
}

type named struct {
	name string
	next http.RoundTripper
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", n.name)
	return n.next.RoundTrip(r)
}

// misbehave sets what happens to requests from now on.
func (s *apiServer) misbehave(fault func(client, method string) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// holder is who holds the Lease, and changes are all writes so far.
func (s *apiServer) holder() (holder string, changes []write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease != nil && s.lease.Spec.HolderIdentity != nil {
		holder = *s.lease.Spec.HolderIdentity
	}
	return holder, append([]write(nil), s.writes...)
}

// abandoned is how many hanging requests were given up.
func (s *apiServer) abandoned() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaveUp
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	client := r.Header.Get("User-Agent")
	var sent coordinationv1.Lease
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body) // JSON or protobuf
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &sent)
		}
		if err != nil {
			s.answer(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
	}
	s.mu.Lock()
	what := healthy
	if s.fault != nil {
		what = s.fault(client, r.Method)
	}
	s.mu.Unlock()
	switch what {
	case healthy:
	case refused:
		s.answer(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	case hanging:
		s.hang(r.Context())
		return
	case mute:
		s.apply(httptest.NewRecorder(), r, client, &sent)
		s.hang(r.Context())
		return
	}
	s.apply(w, r, client, &sent)
}

func (s *apiServer) hang(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaveUp++
}

func (s *apiServer) apply(w http.ResponseWriter, r *http.Request, client string, sent *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !strings.HasPrefix(r.URL.Path, leasePath):
		s.answer(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	case r.Method == http.MethodPost && s.lease != nil:
		s.answer(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	case r.Method != http.MethodPost && s.lease == nil:
		s.answer(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	case r.Method == http.MethodPut && sent.ResourceVersion != s.lease.ResourceVersion:
		s.answer(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	if r.Method != http.MethodGet {
		s.version++
		sent.ResourceVersion = strconv.Itoa(s.version)
		s.lease = sent
		s.writes = append(s.writes, write{client, *sent.Spec.HolderIdentity})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.lease)
}

func (s *apiServer) answer(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: fmt.Sprintf("the test says %s", reason),
	})
}
