package natsconn_test

import (
	"net"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
)

// TestHalfOpenConnection is the fault that no callback tells: both sockets stay open and nothing moves. Without pings
// the test would wait for its limit.
func TestHalfOpenConnection(t *testing.T) {
	server := natstest.Start(t)
	proxy := netfault.Start(t, server.Addr())
	cfg := fast("nats://" + proxy.Addr())
	cfg.PingInterval = driverconf.Duration(100 * time.Millisecond)
	cfg.ConnectTimeout = driverconf.Duration(200 * time.Millisecond)
	h := run(t, cfg)
	first := h.await()

	proxy.Blackhole()
	h.untilReason("stale connection")
	if h.errorCount("stale") == 0 {
		t.Error("no stale connection was counted")
	}
	h.untilReason("timeout")
	proxy.Pass()
	if s := h.await(); s.Generation <= first.Generation {
		t.Errorf("generation %d after %d", s.Generation, first.Generation)
	}
}

func TestCutConnection(t *testing.T) {
	server := natstest.Start(t)
	proxy := netfault.Start(t, server.Addr())
	h := run(t, fast("nats://"+proxy.Addr()))
	first := h.await()
	_, changed := h.Session()
	proxy.Cut()
	<-changed
	h.until("a new connection", func() bool {
		s, _ := h.Session()
		return s.Connected() && s.Generation > first.Generation
	})
	if h.errorCount("lost") == 0 {
		t.Errorf("the cut was not counted as a lost connection:\n%s", h.log)
	}
}

// TestStopDuringHandshake stops while a server that never speaks holds the handshake; the long timeout must not hold
// the stop.
func TestStopDuringHandshake(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cfg := fast("tls://" + ln.Addr().String())
	cfg.ConnectTimeout, cfg.TLSHandshakeFirst = driverconf.Duration(time.Minute), true
	h := run(t, cfg)
	silent, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := silent.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the client does not begin its handshake: %v", err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); h.stop() }()
	select {
	case <-stopped:
	case <-time.After(patience / 2):
		t.Error("the stop waits for the handshake")
		<-stopped
	}
}

// TestServerThatDropsEveryone accepts and closes: every attempt fails, none is a tight loop, the reason is there.
func TestServerThatDropsEveryone(t *testing.T) {
	proxy := netfault.Start(t, "127.0.0.1:1")
	h := run(t, fast("nats://"+proxy.Addr()))
	h.untilReason("EOF")
	h.until("several attempts", func() bool { return proxy.Accepted() > 3 })
	if h.errorCount("lost") == 0 {
		t.Errorf("not counted as lost:\n%s", h.log)
	}
}
