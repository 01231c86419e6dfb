// Package canarytest is a network for canaries without any, with ways that open and shut as a test wants.
//
// Callers: the tests of package canary and of package probe. They run it in a bubble of testing/synctest, where time passes at once.
package canarytest

import (
	"context"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
)

// Addresses of the World.
const (
	// WorkloadIP is the workload canary's.
	WorkloadIP = "10.244.0.5"
	// API is what canary.KubernetesTarget is dialled as.
	API = "10.96.0.1:443"
)

// Way is what becomes of a try at a target, by the time since the World began; nil is an open way.
type Way func(target string, since time.Duration) error

// Blocked and Open are ways that never change.
func Blocked(string, time.Duration) error { return syscall.ECONNREFUSED }

// Open is a way that is always open.
func Open(string, time.Duration) error { return nil }

// Until fails with before until the time, and with after from then on.
func Until(at time.Duration, before, after error) Way {
	return func(_ string, since time.Duration) error {
		if since < at {
			return before
		}
		return after
	}
}

// World is the network that both canaries of one probe are in. The fields are for before it is used.
type World struct {
	Began time.Time
	// Out is the workload's way to targets, In the supervisor's.
	Out, In Way
	// Door and Shut are the supervisor's ways to the two ports of the workload.
	Door, Shut Way

	mu    sync.Mutex
	ports []*listener
}

// Sound is a World in which the fence stands.
func Sound() *World {
	return &World{Began: time.Now(), Out: Blocked, In: Open, Door: Open, Shut: func(string, time.Duration) error { return context.DeadlineExceeded }}
}

type listener struct {
	port   uint16
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{Port: int(l.port)} }

func environment(key string) (string, bool) {
	v, ok := map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}[key]
	return v, ok
}

// Workload is the network as the workload canary has it.
func (w *World) Workload() canary.Network {
	return canary.Network{
		LookupEnv: environment,
		Dial: func(_ context.Context, address string) (net.Conn, error) {
			return pipe(w.Out(address, time.Since(w.Began)))
		},
		Listen: func(_ context.Context, port uint16) (net.Listener, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			l := &listener{port: port, conns: make(chan net.Conn), closed: make(chan struct{})}
			w.ports = append(w.ports, l)
			return l, nil
		},
	}
}

func pipe(err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	_ = theirs.Close()
	return ours, nil
}

// Supervisor is the network as the supervisor canary has it.
func (w *World) Supervisor() canary.Network {
	return canary.Network{LookupEnv: environment, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		host, text, _ := net.SplitHostPort(address)
		if host != WorkloadIP {
			return pipe(w.In(address, time.Since(w.Began)))
		}
		port, _ := strconv.ParseUint(text, 10, 16)
		first, l := w.listens(uint16(port))
		way := w.Shut
		if first {
			way = w.Door
		}
		if err := way(address, time.Since(w.Began)); err != nil {
			return nil, err
		}
		return l.dial(ctx)
	}}
}

// Visit opens a connection to a port of the workload canary, as anybody may who the network lets through.
func (w *World) Visit(ctx context.Context, port uint16) (net.Conn, error) {
	_, l := w.listens(port)
	return l.dial(ctx)
}

// listens finds the newest listener of a port, and says whether the port is the door, at which a canary listens first.
func (w *World) listens(port uint16) (door bool, found *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, l := range w.ports {
		if l.port == port {
			door, found = i%2 == 0, l
		}
	}
	return door, found
}

func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
