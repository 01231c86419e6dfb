package lifecycle

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// Request is one that a daemon sends to the API server. What is not about a resource has the path in its place.
type Request struct {
	apiproxy.Use
	text string
}

// Mentions reports whether one of the texts stands in the request's path, its query or its body.
func (r Request) Mentions(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(r.text, text) })
}

// Harm is what is done to a request.
type Harm string

// The harms.
const (
	Refused Harm = "refused" // answered 503, and not passed on
	Dropped Harm = "dropped" // neither passed on nor answered
	Lost    Harm = "lost"    // passed on, and not answered
	Kept    Harm = "kept"    // not passed on until Release, or for ever when its sender has gone
	Done    Harm = "done"    // passed on, and answered after Release
	Late    Harm = "late"    // passed on at Release, though its sender may have gone, and not answered
)

// Trap waits for requests.
type Trap struct {
	harm    Harm
	fits    func(Request) bool
	number  int // of the first that is harmed among those that fit, from 1
	onward  bool
	seen    int
	at      Request
	reached chan struct{}
	left    chan struct{}
	release chan struct{}
	free    sync.Once
}

// Reached is closed when the first request is in the trap; with Done, the API server has done it.
func (t *Trap) Reached() <-chan struct{} { return t.reached }

// Left is closed when the sender of the first request has gone while it was Kept: it is not passed on any more, whenever Release comes.
func (t *Trap) Left() <-chan struct{} { return t.left }

// At is the first request that was harmed, once Reached is closed.
func (t *Trap) At() Request { return t.at }

// Release lets those go that are held, and harms no more.
func (t *Trap) Release() { t.free.Do(func() { close(t.release) }) }

// Gate stands between a daemon and the API server, sees every request and harms some. Safe for concurrent use.
type Gate struct {
	proxy *apiproxy.Proxy

	mu     sync.Mutex
	uses   map[apiproxy.Use]int
	denied []apiproxy.Use
	seen   []Request
	traps  []*Trap
	record func(Exchange)
}

// Exchange is a request that changes something, and the API server's answer to it.
type Exchange struct {
	Method, URL, ContentType string
	Body, Answer             []byte
	Status                   int
}

// NewGate serves until the test ends.
func NewGate(t testing.TB, c *cluster.Cluster) *Gate {
	t.Helper()
	g := &Gate{proxy: apiproxy.New(t, c), uses: map[apiproxy.Use]int{}}
	t.Cleanup(g.Open) // the proxy waits for what is held
	g.proxy.Break(apiproxy.Every, g.pass)
	return g
}

// redirect has a kubeconfig lead to another address.
func redirect(path, address string, authority []byte) error {
	cfg, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	for _, to := range cfg.Clusters {
		to.Server, to.CertificateAuthority, to.CertificateAuthorityData, to.TLSServerName = address, "", authority, ""
	}
	return clientcmd.WriteToFile(*cfg, path)
}

// Cut ends every connection of the daemon, its watches with them. New ones can be made.
func (g *Gate) Cut() { g.proxy.Link.Cut() }

// Silence lets nothing through any more, in either direction, while every connection stays open and new ones come about.
func (g *Gate) Silence() { g.proxy.Link.Blackhole() }

// Pass has new connections lead somewhere again after Silence. Those of before stay as they are until a Cut.
func (g *Gate) Pass() { g.proxy.Link.Pass() }

// Set sets a trap for the n-th request that fits, counted from now on; onward, for all after it too.
func (g *Gate) Set(harm Harm, n int, onward bool, fits func(Request) bool) *Trap {
	t := &Trap{harm: harm, fits: fits, number: n, onward: onward, reached: make(chan struct{}), left: make(chan struct{}), release: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.traps = append(g.traps, t)
	return t
}

// Record tells of every request from now on that changes something, after its answer; nil tells nobody.
func (g *Gate) Record(tell func(Exchange)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.record = tell
}

// Open releases every trap.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.traps {
		t.Release()
	}
	g.traps = nil
}

// Requests are those so far that fit.
func (g *Gate) Requests(fits func(Request) bool) []Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Request
	for _, r := range g.seen {
		if fits(r) {
			all = append(all, r)
		}
	}
	return all
}

// Uses are what was asked for and granted, each with how often, and what was denied.
func (g *Gate) Uses() (granted map[apiproxy.Use]int, denied []apiproxy.Use) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.uses), slices.Clone(g.denied)
}

// pass is the proxy's Fault.
func (g *Gate) pass(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // its sender has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := Request{Use: apiproxy.UseOf(r), text: r.URL.Path + "?" + r.URL.RawQuery + " " + string(body)}
	ask := func(w http.ResponseWriter, r *http.Request) {
		g.proxy.Pass(&answer{ResponseWriter: w, told: func(status int) { g.answered(request.Use, status) }}, r)
	}
	trap, first, record := g.caught(request)
	switch {
	case trap != nil:
		if !trap.harms(w, r, first, ask) {
			panic(http.ErrAbortHandler)
		}
	case record != nil && r.Method != http.MethodGet:
		kept := &nowhere{header: http.Header{}}
		ask(kept, r)
		record(Exchange{
			Method: r.Method, URL: r.URL.RequestURI(), ContentType: r.Header.Get("Content-Type"), Body: body, Answer: kept.body.Bytes(), Status: kept.status,
		})
		kept.give(w)
	default:
		ask(w, r)
	}
	return false
}

// harms does to a request what the trap is for, and reports whether it was answered; ask passes it on. first says that it is the first in the trap.
func (t *Trap) harms(w http.ResponseWriter, r *http.Request, first bool, ask func(http.ResponseWriter, *http.Request)) (answered bool) {
	reached := func() {
		if first {
			close(t.reached)
		}
	}
	kept, lasting := &nowhere{header: http.Header{}}, r.WithContext(context.WithoutCancel(r.Context()))
	switch t.harm {
	case Refused:
		reached()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","message":"the test refuses it","code":503}`)
		return true
	case Dropped:
		reached()
	case Lost:
		ask(kept, lasting)
		reached()
	case Late:
		reached()
		<-t.release
		ask(kept, lasting)
	case Kept:
		reached()
		return t.keeps(w, r, first, ask)
	case Done:
		ask(kept, lasting)
		reached()
		select {
		case <-t.release:
			kept.give(w)
			return true
		case <-r.Context().Done():
		}
	}
	return false
}

// keeps holds a request until the trap releases it or its sender has gone.
func (t *Trap) keeps(w http.ResponseWriter, r *http.Request, first bool, ask func(http.ResponseWriter, *http.Request)) (answered bool) {
	select {
	case <-t.release:
		if r.Context().Err() == nil {
			ask(w, r)
			return true
		}
	case <-r.Context().Done():
		if first {
			close(t.left)
		}
	}
	return false
}

// caught enters a request and says which trap it is in, whether it is the first there, and who else is to be told of it.
func (g *Gate) caught(request Request) (trap *Trap, first bool, record func(Exchange)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, request)
	for _, t := range g.traps {
		select {
		case <-t.release:
			continue
		default:
		}
		if !t.fits(request) {
			continue
		}
		if t.seen++; t.seen == t.number {
			t.at = request
			return t, true, g.record
		}
		if t.seen > t.number && t.onward {
			return t, false, g.record
		}
	}
	return nil, false, g.record
}

func (g *Gate) answered(use apiproxy.Use, status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if status == http.StatusForbidden || status == http.StatusUnauthorized {
		g.denied = append(g.denied, use)
		return
	}
	g.uses[use]++
}

// answer tells the status when the answer begins, which for a watch is long before it ends.
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

// nowhere takes an answer that its asker does not get, or not yet.
type nowhere struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header, WriteHeader and Write implement http.ResponseWriter.
func (n *nowhere) Header() http.Header { return n.header }

// WriteHeader keeps the status.
func (n *nowhere) WriteHeader(status int) { n.status = status }

// Write keeps the body.
func (n *nowhere) Write(b []byte) (int, error) { return n.body.Write(b) }

// give passes the answer on.
func (n *nowhere) give(w http.ResponseWriter) {
	maps.Copy(w.Header(), n.header)
	w.WriteHeader(n.status)
	_, _ = w.Write(n.body.Bytes())
}
