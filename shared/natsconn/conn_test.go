package natsconn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// patience bounds every wait; nothing is expected to take nearly so long.
const patience = 60 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logBuffer collects log lines from several goroutines.
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

// harness is a Conn that runs until stop or the end of the test.
type harness struct {
	*natsconn.Conn
	t    *testing.T
	reg  *prometheus.Registry
	log  *logBuffer
	stop func()
}

// fast is a valid Config that comes back quickly. Its pings are the default ones: quick ones would take a stall of a
// loaded machine for a fault.
func fast(urls ...string) natsconn.Config {
	cfg := natsconn.DefaultConfig()
	cfg.URLs = urls
	cfg.ReconnectWait = driverconf.Duration(10 * time.Millisecond)
	cfg.ReconnectWaitMax = driverconf.Duration(100 * time.Millisecond)
	return cfg
}

func run(t *testing.T, cfg natsconn.Config) *harness {
	t.Helper()
	h := &harness{t: t, reg: prometheus.NewRegistry(), log: &logBuffer{}}
	conn, err := natsconn.New(cfg, zerolog.New(h.log), h.reg)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	h.Conn = conn
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- conn.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v, want nil for a requested stop", err)
			}
		case <-time.After(patience):
			t.Errorf("run has not returned %s after the stop", patience)
		}
	})
	t.Cleanup(h.stop)
	return h
}

// await returns the session once connected.
func (h *harness) await() natsconn.Session {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	s, err := h.Await(ctx)
	if err != nil {
		h.t.Fatalf("await: %v\nlog:\n%s", err, h.log)
	}
	return s
}

// until polls a condition.
func (h *harness) until(what string, holds func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			h.t.Fatalf("never saw %s; ready: %v\nlog:\n%s", what, h.Ready(h.t.Context()), h.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// untilReason waits until Ready gives a reason that contains the text, and checks what every reason must hold.
func (h *harness) untilReason(text string) error {
	h.t.Helper()
	var err error
	h.until("readiness reason "+text, func() bool {
		err = h.Ready(h.t.Context())
		return err != nil && strings.Contains(err.Error(), text)
	})
	if !errors.Is(err, natsconn.ErrNotConnected) {
		h.t.Errorf("reason %q does not contain ErrNotConnected", err)
	}
	if strings.Contains(err.Error(), "\n") {
		h.t.Errorf("reason %q has more than one line", err)
	}
	return err
}

// errorCount reads portcullis_nats_errors_total of one kind.
func (h *harness) errorCount(kind string) float64 {
	h.t.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "portcullis_nats_errors_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == kind {
				return metric.GetCounter().GetValue()
			}
		}
	}
	h.t.Fatalf("no series for kind %q", kind)
	return 0
}

func (h *harness) gauge(name string, want float64) {
	h.t.Helper()
	h.until(fmt.Sprintf("%s %v", name, want), func() bool {
		families, err := h.reg.Gather()
		if err != nil {
			h.t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == name {
				m := family.GetMetric()[0]
				return m.GetGauge().GetValue()+m.GetCounter().GetValue() == want
			}
		}
		return false
	})
}

func TestServerLate(t *testing.T) {
	server := natstest.New(t)
	h := run(t, fast(server.URL()))
	err := h.untilReason("connection refused")
	if !strings.Contains(err.Error(), "never connected since") || !strings.Contains(err.Error(), server.Addr()) {
		t.Errorf("reason %q does not say that there never was a connection, or to where", err)
	}
	h.gauge("portcullis_nats_connected", 0)
	server.Start()
	s := h.await()
	if s.Generation != 1 || s.Server != server.URL() || s.Err != nil || s.Since.IsZero() {
		t.Errorf("session %+v, want the first connection to %s", s, server.URL())
	}
	if err := h.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v, want nil", err)
	}
	if _, err := s.JetStream.AccountInfo(t.Context()); err != nil {
		t.Errorf("JetStream: %v", err)
	}
	h.gauge("portcullis_nats_connected", 1)
	h.gauge("portcullis_nats_reconnects_total", 0)
	if h.errorCount("dial") == 0 {
		t.Error("no dial error was counted")
	}
}

func TestServerRestart(t *testing.T) {
	server := natstest.Start(t)
	h := run(t, fast(server.URL()))
	first := h.await()
	_, changed := h.Session()
	iterator := ordered(t, first.JetStream)
	ended := make(chan error, 1)
	go func() { _, err := iterator.Next(); ended <- err }()

	server.Stop()
	select {
	case <-changed:
	case <-time.After(patience):
		t.Fatal("the loss was not announced")
	}
	select {
	case err := <-ended:
		if !errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			t.Errorf("iterator ended with %v, want %v", err, jetstream.ErrMsgIteratorClosed)
		}
	case <-time.After(patience):
		t.Error("an iterator of the lost connection still waits")
	}
	err := h.untilReason("disconnected since")
	if s, _ := h.Session(); s.Connected() || s.JetStream != nil || s.Generation != 1 || s.Err == nil {
		t.Errorf("session after the loss %+v (%v), want generation 1 without a connection", s, err)
	}
	if _, err := first.NATS.Request("$JS.API.INFO", nil, patience); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("request on the lost connection: %v, want %v at once", err, nats.ErrConnectionClosed)
	}

	server.Start()
	second := h.await()
	if second.Generation != 2 || second.NATS == first.NATS {
		t.Errorf("second session %+v, want generation 2 with a connection of its own", second)
	}
	if _, err := second.JetStream.AccountInfo(t.Context()); err != nil {
		t.Errorf("JetStream after restart: %v", err)
	}
	h.gauge("portcullis_nats_reconnects_total", 1)
}

// ordered subscribes an ordered consumer to a new stream.
func ordered(t *testing.T, js jetstream.JetStream) jetstream.MessagesContext {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "events", Subjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	iterator, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	return iterator
}

func TestNothingPublishedWhileDisconnectedIsAppliedLater(t *testing.T) {
	server := natstest.Start(t)
	h := run(t, fast(server.URL()))
	s := h.await()
	iterator := ordered(t, s.JetStream)
	iterator.Stop()
	if _, err := s.JetStream.Publish(t.Context(), "events.before", nil); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	h.untilReason("disconnected since")
	if err := s.NATS.Publish("events.core", nil); err == nil {
		t.Error("a publish without a connection reported success")
	}
	if _, err := s.JetStream.Publish(t.Context(), "events.acked", nil); err == nil {
		t.Error("an acknowledged publish without a connection reported success")
	}
	if _, err := s.JetStream.PublishAsync("events.async", nil); err == nil {
		t.Error("an asynchronous publish without a connection reported success")
	}
	server.Start()
	again := h.await()
	if _, err := again.JetStream.Publish(t.Context(), "events.after", nil); err != nil {
		t.Fatal(err)
	}
	stream, err := again.JetStream.Stream(t.Context(), "events")
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Msgs; got != 2 {
		t.Errorf("the stream has %d messages, want the 2 published while connected", got)
	}
}

func TestOtherServerTakesOver(t *testing.T) {
	one, other := natstest.Start(t), natstest.Start(t)
	h := run(t, fast(one.URL(), other.URL()))
	first := h.await()
	current, spare := one, other
	if first.Server == other.URL() {
		current, spare = other, one
	}
	current.Stop()
	h.untilReason("disconnected since")
	if s := h.await(); s.Server != spare.URL() {
		t.Errorf("connected to %s, want %s", s.Server, spare.URL())
	}
	spare.Stop()
	err := h.untilReason("connection refused")
	h.until("both servers in the reason", func() bool {
		err = h.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), one.Addr()) && strings.Contains(err.Error(), other.Addr())
	})
}

func TestStop(t *testing.T) {
	t.Run("not started", func(t *testing.T) {
		conn, err := natsconn.New(fast("nats://127.0.0.1:1"), zerolog.Nop(), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Ready(t.Context()); !errors.Is(err, natsconn.ErrNotConnected) || !strings.Contains(err.Error(), "not been started") {
			t.Errorf("ready before run: %v", err)
		}
		if s, _ := conn.Session(); s.Connected() {
			t.Error("connected before run")
		}
	})
	t.Run("connected, then twice", func(t *testing.T) {
		server := natstest.Start(t)
		h := run(t, fast(server.URL()))
		s := h.await()
		if err := h.Run(t.Context()); err == nil {
			t.Error("a second run was accepted")
		}
		h.stop()
		if !s.NATS.IsClosed() {
			t.Error("the connection is open after the stop")
		}
		h.untilReason("has been stopped")
		h.gauge("portcullis_nats_connected", 0)
	})
	t.Run("waiting to try again", func(t *testing.T) {
		cfg := fast("nats://127.0.0.1:1")
		cfg.ReconnectWait, cfg.ReconnectWaitMax = driverconf.Duration(time.Minute), driverconf.Duration(time.Minute)
		h := run(t, cfg)
		h.untilReason("connection refused")
		h.stop()
	})
	t.Run("await gives up with the reason", func(t *testing.T) {
		h := run(t, fast("nats://127.0.0.1:1"))
		h.untilReason("connection refused")
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the test has had enough")
		cancel(why)
		_, err := h.Await(ctx)
		if !errors.Is(err, natsconn.ErrNotConnected) || !errors.Is(err, why) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("await: %v, want the reason and the cause", err)
		}
	})
}

func TestDrain(t *testing.T) {
	t.Run("finishes what is under way", func(t *testing.T) {
		server := natstest.Start(t)
		h := run(t, fast(server.URL()))
		s := h.await()
		entered, release, handled := make(chan struct{}), make(chan struct{}), make(chan struct{})
		if _, err := s.NATS.Subscribe("work", func(*nats.Msg) { close(entered); <-release; close(handled) }); err != nil {
			t.Fatal(err)
		}
		if err := s.NATS.Publish("work", nil); err != nil {
			t.Fatal(err)
		}
		<-entered
		go func() { close(release) }()
		h.stop()
		select {
		case <-handled:
		default:
			t.Error("run returned before the handler did")
		}
		if got := h.errorCount("drain"); got != 0 {
			t.Errorf("%v drain errors, want none", got)
		}
	})
	t.Run("is cut short", func(t *testing.T) {
		server := natstest.Start(t)
		cfg := fast(server.URL())
		cfg.DrainTimeout = driverconf.Duration(50 * time.Millisecond)
		h := run(t, cfg)
		s := h.await()
		entered, release := make(chan struct{}), make(chan struct{})
		defer close(release)
		if _, err := s.NATS.Subscribe("work", func(*nats.Msg) { close(entered); <-release }); err != nil {
			t.Fatal(err)
		}
		if err := s.NATS.Publish("work", nil); err != nil {
			t.Fatal(err)
		}
		<-entered
		h.stop()
		if got := h.errorCount("drain"); got == 0 {
			t.Error("no drain error was counted")
		}
	})
}

func TestMetricsAreClean(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := natsconn.New(fast("nats://127.0.0.1:1"), zerolog.Nop(), reg); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	if _, err := natsconn.New(fast("nats://127.0.0.1:1"), zerolog.Nop(), reg); err == nil {
		t.Error("two connections share one registry without labels")
	}
	if _, err := natsconn.New(fast("nats://127.0.0.1:1"), zerolog.Nop(), nil); err == nil {
		t.Error("no registerer was accepted")
	}
}
