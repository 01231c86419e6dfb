package allowkv_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	// readerPatience bounds every wait of the reader tests; nothing is expected to take nearly so long.
	readerPatience = 60 * time.Second
	readerGateway  = "gw-1"
	beatInterval   = 200 * time.Millisecond
)

// readerSettings are quick. They are those of the scribe too.
func readerSettings(keysFile string) allowkv.Config {
	cfg := allowkv.DefaultConfig()
	cfg.PublicKeysFile = keysFile
	cfg.HeartbeatInterval = driverconf.Duration(beatInterval)
	cfg.HeartbeatTTL = driverconf.Duration(time.Second)
	cfg.MaxStaleness = driverconf.Duration(3 * time.Second)
	cfg.StopGrace = driverconf.Duration(time.Second)
	return cfg
}

// scribe makes the records of one term of one writer. Its methods may be called by several goroutines.
type scribe struct {
	t       testing.TB
	gateway string

	mu       sync.Mutex
	signer   *allowlist.Signer
	epoch    uint64
	revision uint64
	digest   allowlist.Digest
	vouched  vouched // what beats name
	beats    uint64
	began    time.Time
	wrong    time.Duration // how far its wall clock is behind
}

type vouched struct {
	revision uint64
	digest   allowlist.Digest
}

// vouch makes beats name the newest list, which must be stored by then.
func (s *scribe) vouch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vouched = vouched{s.revision, s.digest}
}

func newScribe(t testing.TB, signer *allowlist.Signer, epoch uint64) *scribe {
	return &scribe{t: t, gateway: readerGateway, signer: signer, epoch: epoch, began: time.Now()}
}

// list is the next revision.
func (s *scribe) list(names ...string) []byte {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	list := allowkvtest.List(s.t, names...)
	record, digest, err := allowlist.SealSnapshot(allowlist.Snapshot{
		GatewayID: s.gateway, Epoch: s.epoch, Revision: s.revision, Previous: s.digest, Writer: "scribe",
		PublishedAt: time.Now().UTC().Truncate(time.Millisecond),
		Source:      allowlist.Source{Kind: allowlist.SourceLabel, Selector: "a=b", Version: "1"},
		Namespaces:  list,
	}, s.signer)
	if err != nil {
		s.t.Error(err)
	}
	s.digest = digest
	return record
}

// beat vouches for the newest list that is stored; a reason withdraws it.
func (s *scribe) beat(reason string) []byte {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	record, err := allowlist.SealHeartbeat(allowlist.Heartbeat{
		GatewayID: s.gateway, Epoch: s.epoch, Revision: s.vouched.revision, Digest: s.vouched.digest, Beat: s.beats,
		Issued:      time.Since(s.began).Truncate(time.Millisecond),
		PublishedAt: time.Now().Add(-s.wrong).UTC().Truncate(time.Millisecond),
		Writer:      "scribe", Reason: reason, Proof: allowlist.Proof{Kind: allowlist.ProofList}, TTL: time.Second,
	}, s.signer)
	if err != nil {
		s.t.Error(err)
	}
	return record
}

// desk is the writer's side of a bucket: a direct connection, and a scribe whose beats go out by themselves.
type desk struct {
	t  testing.TB
	js jetstream.JetStream
	*scribe

	halt func()
}

func newDesk(t testing.TB, url string, signer *allowlist.Signer) *desk {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, js: js, scribe: newScribe(t, signer, 1), halt: func() {}}
	t.Cleanup(func() { d.halt() })
	return d
}

// bucket makes the bucket, and returns when it is there.
func (d *desk) bucket(replicas int) {
	d.t.Helper()
	poll(d.t, "the bucket", func() bool {
		ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Second)
		defer cancel()
		_, err := d.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: allowkv.Bucket, History: 8, LimitMarkerTTL: time.Second, Replicas: replicas,
		})
		return err == nil
	})
}

// put stores a value on a key, with headers in pairs, however often it takes.
func (d *desk) put(key string, value []byte, header ...string) {
	d.t.Helper()
	poll(d.t, "the record stored", func() bool { return d.try(key, value, header...) == nil })
}

func (d *desk) try(key string, value []byte, header ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	msg := nats.NewMsg("$KV." + allowkv.Bucket + "." + key)
	msg.Data = value
	for pair := range slices.Chunk(header, 2) {
		msg.Header.Set(pair[0], pair[1])
	}
	_, err := d.js.PublishMsg(ctx, msg)
	return err
}

func (d *desk) publish(names ...string) []byte {
	d.t.Helper()
	record := d.list(names...)
	d.put(allowlist.SnapshotKey(d.gateway), record)
	d.vouch()
	return record
}

// start beats every interval until halt.
func (d *desk) start() {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(beatInterval)
		defer ticker.Stop()
		for {
			_ = d.try(allowlist.HeartbeatKey(d.gateway), d.beat(""))
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	d.halt = sync.OnceFunc(func() { close(stop); <-done })
}

// syncBuffer collects log lines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// rig is a Reader that runs, with its connection.
type rig struct {
	*allowkv.Reader
	t    testing.TB
	reg  *prometheus.Registry
	log  *syncBuffer
	stop func()
}

func connect(t testing.TB, url string, edits ...func(*natsconn.Config)) (*natsconn.Conn, func()) {
	t.Helper()
	cfg := natsconn.DefaultConfig()
	cfg.URLs = strings.Split(url, ",")
	cfg.ReconnectWait = driverconf.Duration(10 * time.Millisecond)
	cfg.ReconnectWaitMax = driverconf.Duration(100 * time.Millisecond)
	for _, edit := range edits {
		edit(&cfg)
	}
	conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return conn, inBackground(t, "the connection", conn.Run)
}

// inBackground runs until the returned function, or the test, ends it.
func inBackground(t testing.TB, what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v, want nil for a requested stop", what, err)
			}
		case <-time.After(readerPatience):
			t.Errorf("%s has not ended %s after the stop", what, readerPatience)
		}
	})
	t.Cleanup(stop)
	return stop
}

func runReader(t testing.TB, conn allowkv.Connection, cfg allowkv.Config) *rig {
	t.Helper()
	x := &rig{t: t, reg: prometheus.NewRegistry(), log: &syncBuffer{}}
	reader, err := allowkv.NewReader(allowkv.ReaderConfig{GatewayID: readerGateway, Name: "test", Config: cfg}, conn, zerolog.New(x.log), x.reg)
	if err != nil {
		t.Fatal(err)
	}
	x.Reader = reader
	x.stop = inBackground(t, "the reader", reader.Run)
	return x
}

// poll waits for a condition.
func poll(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(readerPatience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never saw %s", what)
		}
	}
}

func (x *rig) until(what string, holds func() bool) {
	x.t.Helper()
	for deadline := time.Now().Add(readerPatience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.t.Fatalf("never saw %s; ready: %v\nstatus: %+v\nlog:\n%s", what, x.Ready(x.t.Context()), x.Status(), x.log)
		}
	}
}

// answers waits for an answer; an empty reason is a yes.
func (x *rig) answers(name string, want verdict.Reason) {
	x.t.Helper()
	x.until(name+" answered "+string(want), func() bool {
		a := x.Check(name)
		return a.Reason == want && a.Allowed() == (want == "")
	})
}

// counter sums a metric of the reader over the series that have all the label pairs.
func (x *rig) counter(name string, labels ...string) float64 {
	x.t.Helper()
	families, err := x.reg.Gather()
	if err != nil {
		x.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "portcullis_allowlist_reader_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := func(key, value string) bool {
				for _, l := range m.GetLabel() {
					if l.GetName() == key && l.GetValue() == value {
						return true
					}
				}
				return false
			}
			matches := true
			for pair := range slices.Chunk(labels, 2) {
				matches = matches && has(pair[0], pair[1])
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// open is a running server with a bucket, a writer that beats, and a reader that grants team-a.
func open(t testing.TB, options ...natstest.Option) (*natstest.Server, *desk, *rig) {
	t.Helper()
	server := natstest.Start(t, options...)
	d, x := openOn(t, server.URL(), server.URL())
	return server, d, x
}

// openOn is open with a writer and a reader on different addresses.
func openOn(t testing.TB, writer, reader string, edits ...func(*allowkv.Config)) (*desk, *rig) {
	t.Helper()
	signer := allowkvtest.Signer(t)
	d := newDesk(t, writer, signer)
	d.bucket(1)
	d.publish("team-a")
	d.start()
	cfg := readerSettings(allowkvtest.KeysFile(t, signer))
	for _, edit := range edits {
		edit(&cfg)
	}
	conn, _ := connect(t, reader)
	x := runReader(t, conn, cfg)
	x.answers("team-a", "")
	return d, x
}
