package bench_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// relay forwards connections to one target and delivers every byte a while after it came, in both directions: what distance does. It
// bounds nothing but the time.
type relay struct {
	target   string
	delay    time.Duration
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// startRelay forwards to target, "host:port", until the test ends.
func startRelay(t testing.TB, target string, delay time.Duration) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{target: target, delay: delay, listener: listener, open: map[net.Conn]struct{}{}}
	r.running.Go(r.accept)
	t.Cleanup(r.stop)
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) stop() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for conn := range r.open {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.serve(near) })
	}
}

func (r *relay) serve(near net.Conn) {
	far, err := net.DialTimeout("tcp", r.target, 10*time.Second)
	if err != nil {
		_ = near.Close()
		return
	}
	if !r.keep(near, far) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.carry(far, near) })
	both.Go(func() { r.carry(near, far) })
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, near)
	delete(r.open, far)
}

// keep has the connections closed at the end; false when that has come.
func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		if r.closed {
			_ = conn.Close()
		}
		r.open[conn] = struct{}{}
	}
	return !r.closed
}

// parcel is what came at one instant.
type parcel struct {
	came  time.Time
	bytes []byte
}

// carry takes from one connection to the other until one of them ends. Reading goes on while parcels are on their way.
func (r *relay) carry(to, from net.Conn) {
	under := make(chan parcel, 1024)
	var delivering sync.WaitGroup
	delivering.Go(func() {
		for p := range under {
			time.Sleep(time.Until(p.came.Add(r.delay))) // it is the distance
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close()
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			under <- parcel{time.Now(), append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			break
		}
	}
	close(under)
	delivering.Wait()
	_, _ = to.Close(), from.Close()
}

// A byte goes there and back, and in no less than twice the delay.
func TestRelay(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var echo sync.WaitGroup
	echo.Go(func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(conn, conn)
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	conn, err := net.Dial("tcp", startRelay(t, listener.Addr().String(), distance).address())
	if err != nil {
		t.Fatal(err)
	}
	for n := range byte(20) {
		got := make([]byte, 1)
		start := time.Now()
		if _, err = conn.Write([]byte{n}); err == nil {
			_, err = io.ReadFull(conn, got)
		}
		if took := time.Since(start); err != nil || got[0] != n || took < 2*distance {
			t.Fatalf("sent %d, got %d in %s, %v", n, got[0], took, err)
		}
	}
	_, _ = conn.Close(), listener.Close()
	echo.Wait()
}
