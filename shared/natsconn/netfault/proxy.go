package netfault

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// dialTimeout bounds the connection to the target, so that a proxy in front of nothing refuses instead of hanging.
const dialTimeout = 10 * time.Second

// Proxy forwards TCP connections on a loopback port to one target. All methods are safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	pairs  map[*pair]struct{}
	black  bool
	closed bool
	total  int
}

// pair is one accepted connection and its way on. swallow is closed when the pair must drop bytes from then on.
type pair struct {
	client, server net.Conn
	swallow        chan struct{}
	once           sync.Once
}

// Start listens on 127.0.0.1 and forwards to target ("host:port") until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for the proxy: %v", err)
	}
	p := &Proxy{target: target, listener: ln, pairs: map[*pair]struct{}{}}
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(p.stop)
	return p
}

// Addr is the proxy's "host:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted is the number of connections accepted so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Blackhole drops every byte from now on, in both directions, while all sockets stay open. Connections made
// during the blackhole are accepted and reach nothing.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.black = true
	for pr := range p.pairs {
		pr.drop()
	}
}

// Pass forwards new connections again.
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.black = false
}

// Cut closes every open connection. New ones are still accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pr := range p.pairs {
		pr.close()
	}
}

func (p *Proxy) stop() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for pr := range p.pairs {
		pr.close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go p.serve(client)
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.wg.Done()
	pr := &pair{client: client, swallow: make(chan struct{})}
	if !p.add(pr) {
		_ = client.Close()
		return
	}
	defer p.remove(pr)
	select {
	case <-pr.swallow:
		pr.copy(nil, client)
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	if !p.attach(pr, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pr.copy(server, client) })
	both.Go(func() { pr.copy(client, server) })
	both.Wait()
}

func (p *Proxy) add(pr *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.total++
	p.pairs[pr] = struct{}{}
	if p.black {
		pr.drop()
	}
	return true
}

// attach gives the pair its target connection unless the pair was cut meanwhile.
func (p *Proxy) attach(pr *pair, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = server.Close()
		return false
	}
	pr.server = server
	return true
}

func (p *Proxy) remove(pr *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pr.close()
	delete(p.pairs, pr)
}

func (pr *pair) drop() { pr.once.Do(func() { close(pr.swallow) }) }

// close is called with the proxy's lock held.
func (pr *pair) close() {
	_ = pr.client.Close()
	if pr.server != nil {
		_ = pr.server.Close()
	}
}

// copy moves bytes until src fails, dropping them once the pair swallows. An end of stream is passed on by closing
// both sides, except in a blackhole, where nothing is passed on.
func (pr *pair) copy(dst, src net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		select {
		case <-pr.swallow:
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			if _, werr := dst.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_ = dst.Close()
			_ = src.Close()
			return
		}
	}
}
