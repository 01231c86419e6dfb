package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// served is a running admin listener.
type served struct {
	t      *testing.T
	url    string
	checks *Checks
	log    *logBuffer
	client *http.Client
	cancel context.CancelCauseFunc
	result <-chan error
}

func serveAdmin(t *testing.T, cfg Config) *served {
	t.Helper()
	noLeaks(t)
	registry, err := telemetry.NewRegistry("test", telemetry.ReadBuild())
	must(t, err)
	s := &served{t: t, log: &logBuffer{}, client: &http.Client{Transport: &http.Transport{}}}
	s.checks, err = NewChecks(slow, zerolog.Nop(), registry)
	must(t, err)
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	s.url = "http://" + listener.Addr().String()
	admin, err := NewAdmin(cfg, listener, s.checks, registry, s.log.logger(zerolog.InfoLevel))
	must(t, err)
	s.cancel, s.result = start(admin.Run)
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func (s *served) stop() {
	s.t.Helper()
	s.cancel(nil)
	must(s.t, receive(s.t, "Run", s.result))
}

func (s *served) do(method, path string) (code int, body string, header http.Header) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
	must(s.t, err)
	response, err := s.client.Do(request)
	must(s.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(s.t, err)
	return response.StatusCode, string(text), response.Header
}

func TestProbes(t *testing.T) {
	s := serveAdmin(t, DefaultConfig())
	defer s.stop()
	expect := func(path string, code int, body string) {
		t.Helper()
		gotCode, gotBody, header := s.do(http.MethodGet, path)
		if diff := cmp.Diff(body, gotBody); gotCode != code || diff != "" {
			t.Errorf("%s: code %d, want %d, body (-want +got):\n%s", path, gotCode, code, diff)
		}
		if code != http.StatusNotFound && (header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(header.Get("Content-Type"), "text/plain")) {
			t.Errorf("%s: header %v", path, header)
		}
	}
	expect("/livez", 200, "ok\n")
	expect("/livez?verbose", 200, "livez passed\n")
	expect("/readyz", 503, "[-] no readiness check was added\nreadyz failed\n")

	broken := true
	must(t, s.checks.AddReadiness("nats", func(context.Context) error {
		if broken {
			return errors.New("never connected:\nauth \x1b[31merror")
		}
		return nil
	}))
	must(t, s.checks.AddReadiness("kube", passing))
	must(t, s.checks.AddLiveness("loop", passing))
	expect("/readyz", 503, "[-] nats: never connected:; auth ?[31merror\nreadyz failed\n")
	expect("/readyz?verbose", 503, "[-] nats: never connected:; auth ?[31merror\n[+] kube: ok\nreadyz failed\n")
	expect("/readyz/nats", 503, "[-] nats: never connected:; auth ?[31merror\nreadyz failed\n")
	expect("/readyz/kube", 200, "ok\n")
	expect("/readyz/kube?verbose", 200, "[+] kube: ok\nreadyz passed\n")
	expect("/livez/loop", 200, "ok\n")
	expect("/readyz/loop", 404, "readyz has no check \"loop\"\n")
	expect("/readyz/a%0Ab", 404, "readyz has no check \"a\\nb\"\n")

	broken = false
	expect("/readyz", 200, "ok\n")
	expect("/readyz?verbose", 200, "[+] nats: ok\n[+] kube: ok\nreadyz passed\n")

	s.checks.Drain(StopRequest{Signal: 15})
	for _, path := range []string{"/readyz", "/readyz?verbose", "/readyz/nats", "/readyz/kube?verbose"} {
		expect(path, 503, "[-] stopping: stop requested by SIGTERM\nreadyz failed\n")
	}
	expect("/readyz/other", 404, "readyz has no check \"other\"\n")
	expect("/livez/loop", 200, "ok\n")
	expect("/livez", 200, "ok\n")
}

func TestLongReasonsAreCut(t *testing.T) {
	s := serveAdmin(t, DefaultConfig())
	defer s.stop()
	must(t, s.checks.AddReadiness("nats", func(context.Context) error { return errors.New(strings.Repeat("é", 100_000)) }))
	if _, body, _ := s.do(http.MethodGet, "/readyz"); len(body) > 2*maxReason || !strings.Contains(body, "é...\n") {
		t.Errorf("body has %d bytes: %.100q", len(body), body)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	s := serveAdmin(t, DefaultConfig())
	defer s.stop()
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{http.MethodHead, "/livez", 200},
		{http.MethodPost, "/livez", 405},
		{http.MethodPut, "/readyz", 405},
		{http.MethodDelete, "/readyz/nats", 405},
		{http.MethodPost, "/metrics", 405},
		{http.MethodGet, "/", 404},
		{http.MethodGet, "/livezz", 404},
		{http.MethodGet, "/readyz/", 404},
		{http.MethodGet, "/readyz/a/b", 404},
		{http.MethodGet, "/debug/pprof/", 404},
		{http.MethodGet, "/debug/pprof/heap", 404},
		{http.MethodGet, "/debug/vars", 404},
	} {
		code, body, header := s.do(c.method, c.path)
		if code != c.code {
			t.Errorf("%s %s: code %d, want %d: %s", c.method, c.path, code, c.code, body)
		}
		if code == 405 && header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: allow %q", c.method, c.path, header.Get("Allow"))
		}
	}
}

func TestMetrics(t *testing.T) {
	s := serveAdmin(t, DefaultConfig())
	defer s.stop()
	must(t, s.checks.AddReadiness("nats", passing))
	code, body, _ := s.do(http.MethodGet, "/metrics")
	for _, want := range []string{"portcullis_build_info{", `portcullis_check_up{check="nats"} 0`, "portcullis_ready 0", "go_goroutines "} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("code %d, metrics lack %q", code, want)
		}
	}
}

func TestProfiles(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Pprof = true
	s := serveAdmin(t, cfg)
	defer s.stop()
	for path, code := range map[string]int{
		"/debug/pprof/":                  200,
		"/debug/pprof/goroutine?debug=1": 200,
		"/debug/pprof/symbol":            200,
		"/debug/pprof/cmdline":           404,
		"/debug/pprof/nothing":           404,
	} {
		if got, body, _ := s.do(http.MethodGet, path); got != code {
			t.Errorf("%s: code %d, want %d: %.200s", path, got, code, body)
		}
	}
}

func TestProfilesAreForLoopback(t *testing.T) {
	ok := loopbackOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for peer, code := range map[string]int{
		"127.0.0.1:4711":        200,
		"127.8.9.10:4711":       200,
		"[::1]:4711":            200,
		"[::ffff:127.0.0.1]:99": 200,
		"10.0.0.7:4711":         403,
		"[2001:db8::1]:4711":    403,
		"[::ffff:10.0.0.7]:1":   403,
		"":                      403,
		"@":                     403,
		"localhost:4711":        403,
	} {
		request := httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil)
		request.RemoteAddr = peer
		recorder := httptest.NewRecorder()
		ok.ServeHTTP(recorder, request)
		if recorder.Code != code {
			t.Errorf("peer %q: code %d, want %d", peer, recorder.Code, code)
		}
	}
}

// raw speaks to the listener below HTTP.
func (s *served) raw() net.Conn {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
	must(s.t, err)
	must(s.t, conn.SetDeadline(time.Now().Add(patience)))
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestHeadersAreLimited(t *testing.T) {
	s := serveAdmin(t, DefaultConfig())
	defer s.stop()
	conn := s.raw()
	// The server may cut the connection while we still write.
	_, _ = fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Big: %s\r\n\r\n", strings.Repeat("x", 4*maxHeader))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("code %d", response.StatusCode)
		}
	}
}

// TestServerLimitsAreSet: a forgotten one leaves the default, which is no limit.
func TestServerLimitsAreSet(t *testing.T) {
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	admin, err := NewAdmin(DefaultConfig(), listener, newChecks(t, slow), prometheus.NewRegistry(), zerolog.Nop())
	must(t, err)
	server := admin.server
	for name, value := range map[string]time.Duration{
		"header": server.ReadHeaderTimeout, "read": server.ReadTimeout, "write": server.WriteTimeout, "idle": server.IdleTimeout,
	} {
		if value <= 0 {
			t.Errorf("%s timeout is %s", name, value)
		}
	}
	if server.MaxHeaderBytes <= 0 {
		t.Error("headers are unlimited")
	}
}

// TestStopWithRequestInProgress: what is quick finishes, what hangs is cut off, and
// Run waits for both handlers.
func TestStopWithRequestInProgress(t *testing.T) {
	s := serveAdmin(t, DefaultConfig())
	entered, cut := make(chan struct{}), make(chan error, 1)
	must(t, s.checks.AddReadiness("hangs", func(context.Context) error {
		close(entered)
		return nil
	}))
	release := make(chan struct{})
	must(t, s.checks.AddLiveness("hangs-longer", func(context.Context) error {
		<-release
		return nil
	}))
	// A half-sent request and an idle connection must not hold the stop up.
	_, err := io.WriteString(s.raw(), "GET /livez HTT")
	must(t, err)
	s.raw()
	go func() {
		response, err := s.client.Get(s.url + "/livez")
		if err == nil {
			_ = response.Body.Close()
		}
		cut <- err
	}()
	if code, _, _ := s.do(http.MethodGet, "/readyz"); code != 200 {
		t.Errorf("code %d", code)
	}
	receive(t, "check", entered)
	eventually(t, "the other check runs", func() bool {
		only := s.checks.liveness[0]
		only.mu.Lock()
		defer only.mu.Unlock()
		return only.running != nil
	})
	s.stop()
	if err := receive(t, "client", cut); err == nil {
		t.Error("the request that hangs was answered")
	}
	close(release)
	s.checks.finish()
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience); err == nil {
		t.Error("the listener is still open")
	}
}

// TestRunWaitsForHandlers: also for one that does not notice that its connection
// was cut off.
func TestRunWaitsForHandlers(t *testing.T) {
	noLeaks(t)
	entered, release := make(chan struct{}), make(chan struct{})
	registry := prometheus.NewRegistry()
	must(t, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		close(entered)
		<-release
		return 0
	})))
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	admin, err := NewAdmin(DefaultConfig(), listener, newChecks(t, slow), registry, zerolog.Nop())
	must(t, err)
	cancel, result := start(admin.Run)
	s := &served{t: t, url: "http://" + listener.Addr().String()}
	_, err = io.WriteString(s.raw(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	receive(t, "scrape", entered)
	cancel(nil)
	select {
	case err := <-result:
		t.Fatalf("Run returned %v although a handler runs", err)
	case <-time.After(stopTimeout + stopTimeout/2): // the connection is cut off by now
	}
	close(release)
	must(t, receive(t, "Run", result))
}

// TestProbesAreAnsweredDuringTheStop: in a group, the admin listener is the last to
// go.
func TestProbesAreAnsweredDuringTheStop(t *testing.T) {
	s := serveAdmin(t, DefaultConfig())
	must(t, s.checks.AddReadiness("works", passing))
	group, err := NewGroup(patience, s.checks, zerolog.Nop())
	must(t, err)
	started, answered := make(chan struct{}), make(chan struct{})
	group.Add("admin", func(ctx context.Context) error {
		<-ctx.Done()
		s.stop()
		return nil
	})
	group.Add("grpc", func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		if code, body, _ := s.do(http.MethodGet, "/readyz"); code != 503 || !strings.Contains(body, "stopping") {
			t.Errorf("readiness while stopping: code %d, %q", code, body)
		}
		if code, _, _ := s.do(http.MethodGet, "/livez"); code != 200 {
			t.Errorf("liveness while stopping: code %d", code)
		}
		close(answered)
		return nil
	})
	cancel, result := start(group.Run)
	receive(t, "start", started)
	cancel(StopRequest{Signal: 15})
	receive(t, "answers", answered)
	must(t, receive(t, "Run", result))
}

func TestServeFailureIsAnError(t *testing.T) {
	noLeaks(t)
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	admin, err := NewAdmin(DefaultConfig(), listener, newChecks(t, slow), prometheus.NewRegistry(), zerolog.Nop())
	must(t, err)
	must(t, listener.Close())
	if err := admin.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "serve HTTP on 127.0.0.1:") {
		t.Errorf("Run on a closed listener: %v", err)
	}
	if _, err := NewAdmin(DefaultConfig(), nil, nil, nil, zerolog.Nop()); err == nil {
		t.Error("an admin listener was made of nothing")
	}
}

func TestServerComplaintsAreLogLines(t *testing.T) {
	var log logBuffer
	text := "http: panic serving\x1b\ngoroutine 7\n"
	n, err := lineWriter{log.logger(zerolog.InfoLevel)}.Write([]byte(text))
	if n != len(text) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if lines := log.lines(t, "http: panic serving?; goroutine 7"); len(lines) != 1 || lines[0]["level"] != "warn" {
		t.Errorf("log is %s", log.String())
	}
}
