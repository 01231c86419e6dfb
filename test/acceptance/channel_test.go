package acceptance_test

import (
	"context"
	"flag"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// patience bounds every wait; nothing is expected to take nearly so long.
const patience = 80 * time.Second

// TestMain fails the package when a goroutine of any test is left behind. The tests wait most of the time, for votes and
// for clocks, so more of them run at once than there are cores.
//
// With serverConfig in its environment the test binary is one NATS server instead, which a test can kill.
func TestMain(m *testing.M) {
	if file := os.Getenv(serverConfig); file != "" {
		serve(file)
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// until polls a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never saw %s", what)
		}
	}
}

// inBackground runs until the returned function, or the test, ends it.
func inBackground(t testing.TB, what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v, want nil for a requested stop", what, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// The bounds under which a test runs.
var (
	// stated are those of the protocol. What must stay open does so under them.
	stated = func(*allowlist.Settings) {}
	// quick close a few seconds after the last proof.
	quick = bounds(200*time.Millisecond, 3*time.Second)
	// patient close after the last proof only when a test is long over: what refuses before has another cause.
	patient = bounds(200*time.Millisecond, 10*time.Minute)
)

// bounds are those of a beat's life, in the bucket and in readers, and of the time between two.
func bounds(interval, staleness time.Duration) func(*allowlist.Settings) {
	return func(s *allowlist.Settings) {
		s.HeartbeatInterval, s.MaxStaleness = driverconf.Duration(interval), driverconf.Duration(staleness)
		s.HeartbeatTTL, s.StopGrace = s.MaxStaleness, driverconf.Duration(time.Second)
	}
}

// channel is the allowlist of one gateway: its key and its bounds, whatever carries it.
type channel struct {
	t       testing.TB
	gateway string
	signer  *allowlist.Signer
	config  allowkv.Config
}

func newChannel(t testing.TB, gateway string, bounds func(*allowlist.Settings)) *channel {
	t.Helper()
	c := &channel{t: t, gateway: gateway, signer: allowkvtest.Signer(t), config: allowkv.DefaultConfig()}
	bounds(&c.config.Settings)
	c.config.Validate(func(key, problem string) { t.Fatalf("the bounds of the test: %s %s", key, problem) })
	c.config.PublicKeysFile = allowkvtest.KeysFile(t, c.signer)
	return c
}

// snapshot and heartbeat are the keys of the channel.
func (c *channel) snapshot() string  { return allowlist.SnapshotKey(c.gateway) }
func (c *channel) heartbeat() string { return allowlist.HeartbeatKey(c.gateway) }

// connect keeps a connection, as a daemon does, until the test ends.
func connect(t testing.TB, urls []string, edits ...func(*natsconn.Config)) *natsconn.Conn {
	t.Helper()
	cfg := natsconn.DefaultConfig()
	cfg.URLs = urls
	for _, edit := range edits {
		edit(&cfg)
	}
	conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	inBackground(t, "the connection", conn.Run)
	return conn
}

// operate is JetStream for whoever operates, or attacks, the servers: with the stock client and no rule of ours.
func operate(t testing.TB, url string, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// bootstrap makes the bucket and opens it.
func bootstrap(t testing.TB, js jetstream.JetStream, replicas int) jetstream.KeyValue {
	t.Helper()
	until(t, "the bucket", func() bool {
		_, err := allowkv.Bootstrap(t.Context(), js, replicas)
		return err == nil
	})
	kv, err := js.KeyValue(t.Context(), allowkv.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// single is a server with the bucket, and the stock client on it.
func single(t testing.TB, options ...natstest.Option) (*natstest.Server, jetstream.JetStream, jetstream.KeyValue) {
	t.Helper()
	s := natstest.Start(t, options...)
	_, js := operate(t, s.URL())
	return s, js, bootstrap(t, js, 1)
}

// reader is a Reader that runs.
type reader struct {
	*allowkv.Reader
	t   testing.TB
	reg *prometheus.Registry
}

// read runs a reader.
func (c *channel) read(conn allowkv.Connection) *reader {
	c.t.Helper()
	r := &reader{t: c.t, reg: prometheus.NewRegistry()}
	var err error
	r.Reader, err = allowkv.NewReader(allowkv.ReaderConfig{GatewayID: c.gateway, Name: "test", Config: c.config}, conn, zerolog.Nop(), r.reg)
	if err != nil {
		c.t.Fatal(err)
	}
	inBackground(c.t, "the reader", r.Run)
	return r
}

// until is until, with the reader's own account of what is missing.
func (r *reader) until(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never saw %s; ready: %v\nstatus: %+v", what, r.Ready(r.t.Context()), r.Status())
		}
	}
}

// beats waits for proof that the whole way works: the reader has accepted so many more beats.
func (r *reader) beats(more uint64) {
	r.t.Helper()
	last, seen := r.Status().Marks, uint64(0)
	r.until("more beats", func() bool {
		next := r.Status().Marks
		if next.Epoch == last.Epoch && next.Beat > last.Beat {
			seen += next.Beat - last.Beat
		}
		last = next
		return seen >= more
	})
}

// count sums a counter of the reader over the series that have all the label values.
func (r *reader) count(name string, values ...string) (sum float64) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "portcullis_allowlist_reader_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetValue())
			}
			if !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(has, v) }) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// throughout asks about a namespace every few milliseconds until end is called, and fails the test when an answer is
// wrong.
func (r *reader) throughout(namespace, wrong string, is func(allowlist.Answer) bool) (end func()) {
	asked := 0
	stop := inBackground(r.t, "the questions", func(ctx context.Context) error {
		for told := false; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
			asked++
			if a := r.Check(namespace); is(a) && !told {
				told = true
				r.t.Errorf("%s was %s: %+v", namespace, wrong, a)
			}
		}
		return nil
	})
	return func() {
		r.t.Helper()
		if stop(); asked < 2 {
			r.t.Errorf("asked about %s %d times", namespace, asked)
		}
	}
}

// staysOpen fails the test when the namespace is refused before end.
func (r *reader) staysOpen(namespace string) (end func()) {
	return r.throughout(namespace, "refused", func(a allowlist.Answer) bool { return !a.Allowed() })
}

// staysShut fails the test when the namespace is allowed before end.
func (r *reader) staysShut(namespace string) (end func()) {
	return r.throughout(namespace, "allowed", allowlist.Answer.Allowed)
}
