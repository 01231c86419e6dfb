package kubeclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
)

// patience bounds every wait; nothing is expected to take nearly so long.
const patience = 60 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quickPings is for tests of what only a ping can tell. Elsewhere the default pings do not take a stall of a loaded
// machine for a fault.
func quickPings() Config {
	cfg := DefaultConfig()
	cfg.PingInterval = driverconf.Duration(200 * time.Millisecond)
	cfg.PingTimeout = driverconf.Duration(time.Second)
	return cfg
}

// nowhere is a process that is in no Pod and has no kubeconfig.
func nowhere() environment {
	return environment{getenv: func(string) string { return "" }, serviceAccount: "/nowhere"}
}

// apiServer is an HTTPS server with HTTP/2 that records what it was asked.
type apiServer struct {
	*httptest.Server
	ca *certtest.CA

	mu   sync.Mutex
	seen []*http.Request
	cert tls.Certificate
}

// startAPI serves handler; nil answers 200 "ok". clients, when not nil, is the authority of client certificates.
func startAPI(t *testing.T, handler http.HandlerFunc, clients *certtest.CA) *apiServer {
	t.Helper()
	s := &apiServer{ca: certtest.New(t, "cluster")}
	s.present(s.ca)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		if handler == nil {
			_, _ = w.Write([]byte("ok"))
			return
		}
		handler(w, r)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are refused on purpose
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		cfg := &tls.Config{Certificates: []tls.Certificate{s.cert}, NextProtos: []string{"h2", "http/1.1"}}
		if clients != nil {
			cfg.ClientCAs, cfg.ClientAuth = clients.Pool(), tls.RequireAndVerifyClientCert
		}
		return cfg, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// present changes the server's certificate for new connections to one of ca.
func (s *apiServer) present(ca *certtest.CA) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cert = ca.Keypair("kube-apiserver")
}

// requests are those seen so far.
func (s *apiServer) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.seen...)
}

func (s *apiServer) last(t *testing.T) *http.Request {
	t.Helper()
	all := s.requests()
	if len(all) == 0 {
		t.Fatal("no request arrived")
	}
	return all[len(all)-1]
}

// kubeconfig is the text of a kubeconfig as a value to break in tests.
type kubeconfig struct {
	Cluster, User map[string]any
}

func (s *apiServer) kubeconfig(t *testing.T, user map[string]any) kubeconfig {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	certtest.Replace(t, ca, s.ca.PEM())
	return kubeconfig{
		Cluster: map[string]any{"server": s.URL, "certificate-authority": ca},
		User:    user,
	}
}

// text is JSON, which is YAML.
func (k kubeconfig) text(t *testing.T) []byte {
	t.Helper()
	named := func(kind string, value any) []map[string]any { return []map[string]any{{"name": "it", kind: value}} }
	out, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": named("cluster", k.Cluster), "users": named("user", k.User),
		"contexts": named("context", map[string]any{"cluster": "it", "user": "it"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (k kubeconfig) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	certtest.Replace(t, path, k.text(t))
	return path
}

// clock is a time that moves when told.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// harness is a pair of clients with what they report to.
type harness struct {
	*Clients
	t     *testing.T
	clock *clock
	reg   *prometheus.Registry
	log   *logBuffer
}

// connect builds clients of a kubeconfig that close with the test.
func connect(t *testing.T, cfg Config, k kubeconfig) *harness {
	t.Helper()
	cfg.Kubeconfig = k.write(t)
	h := &harness{t: t, clock: newClock(), reg: prometheus.NewRegistry(), log: &logBuffer{}}
	clients, err := build(cfg, zerolog.New(h.log), h.reg, nowhere(), h.clock.now)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	h.Clients = clients
	t.Cleanup(func() { hangUp(clients) })
	return h
}

// metric reads one series, by name and all label values joined with commas in the order of their names.
func (h *harness) metric(name, labels string) float64 {
	h.t.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if strings.Join(values, ",") == labels {
				return metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// hangUp closes the connections that nothing uses, for the search for leaks.
func hangUp(c *Clients) {
	c.Calls.http.CloseIdleConnections()
	c.Watches.http.CloseIdleConnections()
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func static(token string) map[string]any { return map[string]any{"token": token} }

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

func status(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":%q}`, code, message)
}
