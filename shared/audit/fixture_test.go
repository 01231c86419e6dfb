package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// patience bounds every wait; nothing is expected to take nearly so long.
const patience = 60 * time.Second

var origin = Origin{Daemon: "tokenauth", GatewayID: "gw-1"}

// quick is a valid configuration with short waits.
func quick() Config {
	cfg := DefaultConfig()
	cfg.MaxBytes = 16 << 20
	cfg.AckTimeout = driverconf.Duration(300 * time.Millisecond)
	return cfg
}

// sample is an event with every field set.
func sample(t testing.TB) Event {
	t.Helper()
	return Event{
		Time: time.Date(2026, 11, 30, 1, 2, 3, 450_000_000, time.FixedZone("CET", 3600)),
		Call: "authenticate",
		Decision: verdict.Refuse(verdict.NotListed, "namespace.listed", "the explanation is not kept").
			WithMessage("nor the message").
			WithAllowlist(verdict.Evidence{Namespace: "team-a", Epoch: 7, Revision: 42, Proven: true, Age: 1250 * time.Millisecond}),
		Namespace: "team-a", PodUID: "0c1d2e3f-0000-4000-8000-000000000001", SandboxID: "sb-1",
		Token:     Fingerprint{hash: "00112233445566778899aabbccddeeff", key: "01020304"},
		RequestID: "req-1", Caller: "spiffe://portcullis/lifecycle", Duration: 3500 * time.Microsecond,
	}
}

// logged collects log lines.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// decisions is how many decisions are in the log.
func (l *logged) decisions() int { return strings.Count(l.String(), `"message":"decision"`) }

// desk is a Trail with what a test wants to see of it.
type desk struct {
	*Trail
	t    testing.TB
	log  *logged
	stop func()
}

// open makes a Trail that does not run.
func open(t testing.TB, cfg Config, conn Connection) *desk {
	t.Helper()
	log := &logged{}
	trail, err := New(cfg, origin, conn, zerolog.New(log), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return &desk{Trail: trail, t: t, log: log}
}

// start runs d until stop or the test's end, whichever is first.
func (d *desk) start() *desk {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			d.t.Errorf("run: %v", err)
		}
	})
	d.t.Cleanup(d.stop)
	return d
}

// record keeps n events that are told apart by their request ids.
func (d *desk) record(n int) {
	for i := range n {
		d.Record(Event{Call: "authenticate", RequestID: fmt.Sprintf("r-%d", i)})
	}
}

func (d *desk) published() int { return int(testutil.ToFloat64(d.metrics.published)) }

func (d *desk) dropped(c cause) int {
	return int(testutil.ToFloat64(d.metrics.dropped.WithLabelValues(string(c))))
}

func (d *desk) droppedAll() (sum int) {
	for _, c := range dropCauses {
		sum += d.dropped(c)
	}
	return sum
}

func (d *desk) failures(c cause) int {
	return int(testutil.ToFloat64(d.metrics.failures.WithLabelValues(string(c))))
}

// await waits until condition holds.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (d *desk) awaitPublished(n int) {
	d.t.Helper()
	await(d.t, fmt.Sprintf("%d published", n), func() bool { return d.published() >= n })
}

// connect runs a connection until the test ends.
func connect(t testing.TB, url string, edit ...func(*natsconn.Config)) *natsconn.Conn {
	t.Helper()
	cfg := natsconn.DefaultConfig()
	cfg.URLs = []string{url}
	cfg.ReconnectWait = driverconf.Duration(10 * time.Millisecond)
	cfg.ReconnectWaitMax = driverconf.Duration(100 * time.Millisecond)
	for _, e := range edit {
		e(&cfg)
	}
	conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- conn.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("connection: %v", err)
		}
	})
	return conn
}

// jetStream is JetStream over conn's connection, when there is one.
func jetStream(t testing.TB, conn *natsconn.Conn) jetstream.JetStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := conn.Await(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return session.JetStream
}

func bootstrap(t testing.TB, conn *natsconn.Conn, cfg Config) {
	t.Helper()
	if _, err := Bootstrap(t.Context(), jetStream(t, conn), cfg); err != nil {
		t.Fatal(err)
	}
}

// stored is everything in the stream, in order.
func stored(t testing.TB, conn *natsconn.Conn) []Entry {
	t.Helper()
	stream, err := jetStream(t, conn).Stream(t.Context(), Stream)
	if err != nil {
		t.Fatal(err)
	}
	state := stream.CachedInfo().State
	var entries []Entry
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		message, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if message.Subject != "portcullis.audit.gw-1.tokenauth" {
			t.Errorf("subject %s", message.Subject)
		}
		var e Entry
		if err := json.Unmarshal(message.Data, &e); err != nil {
			t.Fatalf("%s: %v", message.Data, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// inOrder checks that entries are those with the sequences from first to last, each once.
func inOrder(t testing.TB, entries []Entry, first, last uint64) {
	t.Helper()
	if len(entries) != int(last-first)+1 {
		t.Errorf("%d entries, want %d to %d", len(entries), first, last)
	}
	for i, e := range entries {
		if e.Seq != first+uint64(i) || e.Instance != entries[0].Instance {
			t.Fatalf("entry %d is %s-%d, want seq %d", i, e.Instance, e.Seq, first+uint64(i))
		}
	}
}

// eachOnce checks that entries are those with the sequences from 1 to last, each once, in whatever order.
func eachOnce(t testing.TB, entries []Entry, last uint64) {
	t.Helper()
	seen := map[uint64]int{}
	for _, e := range entries {
		seen[e.Seq]++
	}
	for seq := uint64(1); seq <= last; seq++ {
		if seen[seq] != 1 {
			t.Errorf("event %d is stored %d times", seq, seen[seq])
		}
	}
	if len(entries) != int(last) {
		t.Errorf("%d entries, want %d", len(entries), last)
	}
}
