package apitest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Resources that the server knows, as faults name them.
const (
	TokenReviews = "tokenreviews"
	Namespaces   = "namespaces"
	Pods         = "pods"
	Sandboxes    = "sandboxes"
)

// Fault answers a request in the server's place when it returns true. It may take its time.
type Fault func(w http.ResponseWriter, r *http.Request) bool

// Server is the API server.
type Server struct {
	http *httptest.Server
	dir  string

	mu     sync.Mutex
	world  *World
	faults map[string]Fault
	seen   []string
	tokens []string
	sent   map[string]int
}

// HTTP1 makes a server that knows no HTTP/2, as some that stand before API servers; faults can take its connections over.
func HTTP1(h *httptest.Server) { h.EnableHTTP2 = false }

// Start runs a server that knows world, until the test ends. World changes by Change only.
func Start(t testing.TB, world *World, change ...func(*httptest.Server)) *Server {
	t.Helper()
	s := &Server{dir: t.TempDir(), world: world, faults: map[string]Fault{}, sent: map[string]int{}}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.EnableHTTP2 = true
	for _, c := range change {
		c(s.http)
	}
	s.http.StartTLS()
	t.Cleanup(s.http.Close)
	replace(t, s.path("ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}))
	s.Rotate(t, "own-token-1")
	return s
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// Rotate replaces the token with which the clients come, as the kubelet does.
func (s *Server) Rotate(t testing.TB, token string) { replace(t, s.path("token"), []byte(token)) }

// replace writes a file so that a reader sees all of the old content or all of the new.
func replace(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Kubeconfig is the path of a kubeconfig for the server.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"it",
"clusters":[{"name":"it","cluster":{"server":%q,"certificate-authority":%q}}],
"users":[{"name":"it","user":{"tokenFile":%q}}],
"contexts":[{"name":"it","context":{"cluster":"it","user":"it"}}]}`, s.http.URL, s.path("ca.crt"), s.path("token"))
	replace(t, s.path("kubeconfig"), []byte(text))
	return s.path("kubeconfig")
}

// Clients are real clients of the server; change may change their settings.
func (s *Server) Clients(t testing.TB, log zerolog.Logger, reg prometheus.Registerer, change ...func(*kubeclient.Config)) *kubeclient.Clients {
	t.Helper()
	cfg := kubeclient.DefaultConfig()
	cfg.QPS, cfg.Burst = 10000, 20000
	cfg.Kubeconfig = s.Kubeconfig(t)
	for _, c := range change {
		c(&cfg)
	}
	clients, err := kubeclient.New(cfg, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// Change changes the world between two answers.
func (s *Server) Change(change func(*World)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.world)
}

// On sets the fault of a resource; nil takes it away.
func (s *Server) On(resource string, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[resource] = fault
}

// Seen are the requests so far, such as "GET pods team/name", in the order in which they came.
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// Count is how many requests begin with prefix.
func (s *Server) Count(prefix string) int {
	n := 0
	for _, request := range s.Seen() {
		if strings.HasPrefix(request, prefix) {
			n++
		}
	}
	return n
}

// Sent is how many bytes the answers about a resource had, those of faults not counted.
func (s *Server) Sent(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[resource]
}

// OwnTokens are the tokens with which the requests came.
func (s *Server) OwnTokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.tokens...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	q := parse(r.URL.Path)
	s.mu.Lock()
	s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+q.String()))
	s.tokens = append(s.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	fault := s.faults[q.resource]
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	status, text := s.encoded(q, r, body)
	send(w, status, text)
}

// encoded is the answer in JSON. It is made under the lock, since what it is made of may change as soon as the lock is free.
func (s *Server) encoded(q object, r *http.Request, body []byte) (int, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, answer := s.answer(q, r, body)
	text := encode(answer)
	s.sent[q.resource] += len(text)
	return status, text
}

// answer is what a real server says; the lock is held.
func (s *Server) answer(q object, r *http.Request, body []byte) (int, any) {
	switch {
	case r.URL.Path == "/readyz" || r.URL.Path == "/apis/"+sandboxapi.Group:
		return http.StatusOK, map[string]string{}
	case q.resource == TokenReviews && r.Method == http.MethodPost:
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		review, ok := decoded.(*authenticationv1.TokenReview)
		if err != nil || !ok {
			return http.StatusBadRequest, Status(http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprint(err))
		}
		review.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
		review.Status = s.world.review(review.Spec)
		return http.StatusCreated, review
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, Status(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "no")
	case r.URL.Query().Get("resourceVersion") != "":
		return http.StatusBadRequest, Status(http.StatusBadRequest, metav1.StatusReasonBadRequest, "a live read has no resource version")
	}
	if found := s.world.find(q, strings.Contains(r.Header.Get("Accept"), "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")); found != nil {
		return http.StatusOK, found
	}
	status := Status(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", q.resource, q.name))
	status.Details = &metav1.StatusDetails{Name: q.name, Group: q.group, Kind: q.resource}
	return http.StatusNotFound, status
}

// Status is an error as the API server sends it.
func Status(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

// Write sends an answer.
func Write(w http.ResponseWriter, status int, answer any) { send(w, status, encode(answer)) }

func encode(answer any) []byte {
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return text
}

func send(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) //nolint:gosec // JSON, for clients that are no browsers, in tests
}

// Fail is a fault that answers with an error.
func Fail(code int, reason metav1.StatusReason, message string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		Write(w, code, Status(code, reason, message))
		return true
	}
}

// Hang is a fault that answers nothing until the client gives up.
func Hang(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// Plain is a fault of something that is not the API server.
func Plain(code int, text string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
		return true
	}
}
