package apiproxy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// Proxy stands between a daemon and the API server, speaks HTTP to both, and fails for one resource as it is told to. Safe for
// concurrent use.
type Proxy struct {
	// Link is what the daemon connects to; it can fail as a network does.
	Link *netfault.Proxy

	server *httptest.Server
	pass   *httputil.ReverseProxy

	mu       sync.Mutex
	resource string
	fault    Fault
	mended   chan struct{}
}

// Fault stands in for the API server, unless it says that the request is to be passed on. It ends with the request, and when mended
// is closed.
type Fault func(w http.ResponseWriter, r *http.Request, mended <-chan struct{}) (pass bool)

// New serves until the test ends, and passes everything on.
func New(t testing.TB, c *cluster.Cluster) *Proxy {
	t.Helper()
	rc := c.RESTConfig()
	target, err := url.Parse(rc.Host)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(rc.CAData)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	silent := log.New(io.Discard, "", 0) // what goes wrong is asked for, and the caller sees it
	p := &Proxy{mended: make(chan struct{}), pass: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, ErrorLog: silent,
	}}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.EnableHTTP2, p.server.Config.ErrorLog = true, silent
	p.server.StartTLS()
	t.Cleanup(func() {
		p.Mend()
		p.server.CloseClientConnections()
		p.server.Close()
		transport.CloseIdleConnections()
	})
	p.Link = netfault.Start(t, p.server.Listener.Addr().String())
	return p
}

// Address is where the daemon finds the API server then, "https://host:port".
func (p *Proxy) Address() string { return "https://" + p.Link.Addr() }

// Authority is the certificate, PEM, of who answers there.
func (p *Proxy) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// Pass has the API server answer a request; for a Fault that wants to do something afterwards.
func (p *Proxy) Pass(w http.ResponseWriter, r *http.Request) { p.pass.ServeHTTP(w, r) }

// Every stands for all resources.
const Every = "*"

// Break has a resource, such as "pods", or Every, fail in place of what failed before.
func (p *Proxy) Break(resource string, fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resource, p.fault = resource, fault
}

// Mend ends the fault, also for the requests that are in its hands.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = nil
	close(p.mended)
	p.mended = make(chan struct{})
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault, mended := p.fault, p.mended
	if p.resource != Every && resourceOf(r.URL.Path) != p.resource {
		fault = nil
	}
	p.mu.Unlock()
	if fault == nil || fault(w, r, mended) {
		p.pass.ServeHTTP(w, r)
	}
}

// resourceOf is the resource that a path of the API is about.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		return parts[2]
	}
	return parts[0]
}

// Reply answers with a status, a content type and a body, and headers in pairs.
func Reply(status int, kind, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) bool {
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return false
	}
}

// Hang answers nothing until it is mended.
func Hang(_ http.ResponseWriter, r *http.Request, mended <-chan struct{}) bool {
	select {
	case <-r.Context().Done():
	case <-mended:
	}
	return false
}

// Cut ends the request without an answer.
func Cut(http.ResponseWriter, *http.Request, <-chan struct{}) bool { panic(http.ErrAbortHandler) }

// CutShort ends the answer before it is complete.
func CutShort(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) bool {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"kind":"`)
	_ = http.NewResponseController(w).Flush() // else nothing would be sent
	panic(http.ErrAbortHandler)
}

// Once is a fault that one request has, and none after it.
func Once(fault Fault) Fault {
	var had atomic.Bool
	return func(w http.ResponseWriter, r *http.Request, mended <-chan struct{}) bool {
		return had.Swap(true) || fault(w, r, mended)
	}
}
