package supervisor

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// Gate stands between the daemon and the API server and sees every write to the Site's namespaces. Safe for concurrent use.
type Gate struct {
	proxy *apiproxy.Proxy

	mu     sync.Mutex
	writes map[string][]Write // by namespace
	uses   map[Use]int
	holds  map[string]*Hold
	killed chan struct{}
	ended  <-chan struct{} // with the test
}

// Write is one request that changes something, or tries to.
type Write struct {
	Method, Path string
	// Status is the API server's answer; zero while there is none.
	Status int
}

// Took reports whether the API server did it.
func (w Write) Took() bool { return w.Status >= 200 && w.Status < 300 }

func newGate(t testing.TB, c *cluster.Cluster) *Gate {
	t.Helper()
	g := &Gate{
		proxy: apiproxy.New(t, c), writes: map[string][]Write{}, uses: map[Use]int{}, holds: map[string]*Hold{}, killed: make(chan struct{}), ended: t.Context().Done(),
	}
	t.Cleanup(g.Open) // the proxy waits for what is held
	g.proxy.Break(apiproxy.Every, g.pass)
	return g
}

// Writes are those to a namespace so far.
func (g *Gate) Writes(namespace string) []Write {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Write(nil), g.writes[namespace]...)
}

// Hold is one point at which a namespace's writes stop.
type Hold struct {
	number int // of the write, counted from when the Hold was set, from 1
	after  bool
	seen   int
	at     Write
	// reached is closed when the write is held, late when it is to be passed on after all.
	reached, late chan struct{}
	deliver       sync.Once
	// pauses chooses the write that goes on when late is closed; no other is held then.
	pauses func(Write) bool
	// counts is what the path of a write that is counted has in it.
	counts string
}

// Reached is closed when the write is held; with after, the API server has done it.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// Held is the write that is held, once Reached is closed.
func (h *Hold) Held() Write { return h.at }

// Deliver passes the held write on: of a Stop as a network may long after its sender has died, of a Pause to who waits for it. After an
// API server that has done it there is nothing to pass on.
func (h *Hold) Deliver() { h.deliver.Do(func() { close(h.late) }) }

// Stop holds the n-th write to a namespace from now on whose path has at in it, before or after the API server does it, and loses every
// further one, whatever it is.
func (g *Gate) Stop(namespace, at string, n int, after bool) *Hold {
	return g.hold(namespace, &Hold{counts: at, number: n, after: after})
}

func (g *Gate) hold(namespace string, h *Hold) *Hold {
	h.reached, h.late = make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds[namespace] = h
	return h
}

// Pause holds the first write to a namespace that is chosen until Deliver, while its sender waits for the answer, and no other.
func (g *Gate) Pause(namespace string, chosen func(Write) bool) *Hold {
	return g.hold(namespace, &Hold{number: 1, pauses: chosen})
}

// Open ends all Holds for those who write from now on. It is for after the end of the process that was held.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.killed)
	g.killed, g.holds = make(chan struct{}), map[string]*Hold{}
}

// pass is the proxy's Fault.
func (g *Gate) pass(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
	use := apiproxy.UseOf(r)
	namespace := use.Namespace
	if r.Method == http.MethodGet || namespace == "" || use.Resource == "leases" { // which say nothing about a set
		g.proxy.Pass(&answer{ResponseWriter: w, told: func(status int) { g.used(use, status) }}, r)
		return false
	}
	index, hold, killed, first := g.count(namespace, Write{Method: r.Method, Path: r.URL.Path})
	if hold != nil && hold.pauses != nil {
		if first {
			close(hold.reached)
			select {
			case <-hold.late:
			case <-r.Context().Done():
			case <-g.ended:
			}
		}
		hold = nil
	}
	if hold == nil {
		g.proxy.Pass(&answer{ResponseWriter: w, told: func(status int) {
			g.used(use, status)
			g.mu.Lock()
			defer g.mu.Unlock()
			g.writes[namespace][index].Status = status
		}}, r)
		return false
	}
	if first {
		g.keep(hold, r, killed)
	}
	select {
	case <-killed:
	case <-r.Context().Done():
	}
	panic(http.ErrAbortHandler)
}

// keep is what becomes of the one write that a Stop is for.
func (g *Gate) keep(h *Hold, r *http.Request, killed <-chan struct{}) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender died before it was sent
	}
	kept := r.Clone(context.WithoutCancel(r.Context())) // its sender will be gone
	kept.Body = io.NopCloser(bytes.NewReader(body))
	if h.after {
		g.proxy.Pass(httptest.NewRecorder(), kept)
	}
	close(h.reached)
	<-killed
	if !h.after {
		select {
		case <-h.late:
			g.proxy.Pass(httptest.NewRecorder(), kept)
		case <-g.ended:
		}
	}
}

// answer tells the status when the answer begins, which for a watch is long before it ends. The proxy writes every header.
type answer struct {
	http.ResponseWriter
	told func(status int)
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.told(status)
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController: a watch is passed on as it comes.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// count enters a write and says whether it is to be held, and whether it is the first that is.
func (g *Gate) count(namespace string, write Write) (index int, hold *Hold, killed <-chan struct{}, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	index = len(g.writes[namespace])
	g.writes[namespace] = append(g.writes[namespace], write)
	h := g.holds[namespace]
	if h == nil || h.pauses != nil && !h.pauses(write) || h.seen < h.number && !strings.Contains(write.Path, h.counts) {
		return index, nil, nil, false
	}
	if h.seen++; h.seen < h.number {
		return index, nil, nil, false
	}
	first = h.seen == h.number
	if first {
		h.at = write
	}
	return index, h, g.killed, first
}
