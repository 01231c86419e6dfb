package allowkv_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// TestTakeOver takes an empty bucket, and what the stock client then reads verifies.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	j := w.journal()
	l := w.publisher("writer-a", w.conn, "team-a", "team-b")
	if s := l.Status(); s != (allowlist.WriterStatus{}) {
		t.Errorf("before the first term: %+v", s)
	}
	l.begin()
	s := w.lists("team-a", "team-b")
	if s.Revision != 1 || s.Writer != "writer-a" || s.Source.Selector != "team=a" {
		t.Errorf("stored %+v", s)
	}
	l.source.Set(allowkvtest.List(t, "team-b", "team-c"))
	next := w.lists("team-b", "team-c")
	if next.Revision != 2 || next.Epoch != s.Epoch {
		t.Errorf("the change became %d.%d, after %d.%d", next.Epoch, next.Revision, s.Epoch, s.Revision)
	}
	l.beats(3)
	j.terms(1)
	status := l.Status()
	if !status.Leading || status.Epoch != s.Epoch || status.Revision != 2 || status.Namespaces != 2 || !status.Proven {
		t.Errorf("status %+v", status)
	}
	l.logged("took over the list", `"revision":1`)
	l.logged("published a revision", `"revision":2`, `"added":1`, `"removed":1`, `"added_names":["team-c"]`, `"removed_names":["team-a"]`)
	for metric, want := range map[string]float64{"leading": 1, "revision": 2, "namespaces": 2, "withdrawn": 0} {
		pubGauge(t, l, metric, want)
	}
	l.lose()
	if end := l.end(); end.Cause != allowlist.EndLeaseLost {
		t.Errorf("ended by %s: %v", end.Cause, end.Err)
	}
	if s := l.Status(); s != (allowlist.WriterStatus{}) {
		t.Errorf("after the term: %+v", s)
	}
	pubGauge(t, l, "leading", 0)
	if n := pubCount(t, l, "writes_total", "snapshot", "stored"); n != 2 {
		t.Errorf("%v snapshots counted as stored", n)
	}
	// The last records stay, and nothing is written any more.
	if again := w.lists("team-b", "team-c"); again.Revision != 2 {
		t.Errorf("after the end revision %d is stored", again.Revision)
	}
}

// pubGauge checks one gauge.
func pubGauge(t *testing.T, l *pubLeader, name string, want float64) {
	t.Helper()
	if got := pubMetric(t, l, name); got != want {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// pubCount is the value of one counter, by its label values in the order of their names.
func pubCount(t *testing.T, l *pubLeader, name string, values ...string) float64 {
	t.Helper()
	return pubMetric(t, l, name, values...)
}

func pubMetric(t *testing.T, l *pubLeader, name string, values ...string) float64 {
	t.Helper()
	families, err := l.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "portcullis_allowlist_writer_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetValue())
			}
			if strings.Join(labels, ",") == strings.Join(values, ",") {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s with %v", name, values)
	return 0
}

// TestTermsOfOneProcess leads twice with one publisher.
func TestTermsOfOneProcess(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	j := w.journal()
	l := w.lead("writer-a", "team-a")
	first := w.lists("team-a")
	if _, err := l.Lead(t.Context(), l.source, nil); err == nil {
		t.Error("two terms at once")
	}
	l.lose()
	l.end()
	l.begin()
	s, _ := w.until("the next epoch", func(s allowlist.Snapshot, h allowlist.Heartbeat) bool {
		return s.Epoch > first.Epoch && h.Epoch == s.Epoch
	})
	if s.Revision != 2 {
		t.Errorf("the fencing write is revision %d", s.Revision)
	}
	j.terms(2)
}

// TestEpochsOutliveTheBucket loses the bucket and an hour of the wall clock between two terms of a process.
func TestEpochsOutliveTheBucket(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	var late atomic.Bool
	clock := allowkv.NewClock()
	w.clock = func() allowlist.Instant {
		at := clock()
		if late.Load() {
			at.Wall = at.Wall.Add(-time.Hour)
		}
		return at
	}
	l := w.lead("writer-a", "team-a")
	first := w.lists("team-a")
	l.lose()
	l.end()
	if err := w.js().DeleteStream(t.Context(), allowkv.Stream); err != nil {
		t.Fatal(err)
	}
	w.bootstrap(1)
	late.Store(true)
	l.begin()
	if next := w.lists("team-a"); next.Epoch <= first.Epoch {
		t.Errorf("epoch %d after %d", next.Epoch, first.Epoch)
	}
}

// TestTooLarge withdraws a list that the server does not take, and publishes again once it fits.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t, func(o *server.Options) { o.MaxPayload = 8 << 10 })
	l := w.lead("writer-a", "team-a")
	l.source.Set(allowkvtest.List(t, pubNames(500)...))
	s, h := w.until("the withdrawal", func(_ allowlist.Snapshot, h allowlist.Heartbeat) bool { return h.Reason != "" })
	if !strings.Contains(h.Reason, "max_payload is 8192") || s.Namespaces.Len() != 1 {
		t.Errorf("withdrawn because %q with %d names", h.Reason, s.Namespaces.Len())
	}
	pubGauge(t, l, "withdrawn", 1)
	l.logged(`"level":"error"`, "is withdrawn", "max_payload")
	l.source.Set(allowkvtest.List(t, "team-b"))
	w.lists("team-b")
	l.logged("no longer withdrawn")
	if n := pubCount(t, l, "writes_total", "snapshot", "too_large"); n != 1 {
		t.Errorf("%v writes counted as too large", n)
	}
}

// TestIntruder overwrites the keys without conditions, as everyone with the right to write can.
func TestIntruder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		key     string
		value   string
		header  nats.Header
		finding []string
	}{
		{"snapshot", allowlist.SnapshotKey(pubGateway), "garbage", nil, []string{"malformed", "rejected"}},
		{"heartbeat", allowlist.HeartbeatKey(pubGateway), "garbage", nil, []string{"malformed", "rejected"}},
		{"delete", allowlist.SnapshotKey(pubGateway), "", nats.Header{"KV-Operation": {"DEL"}}, []string{"none", "gone"}},
		{"rollup of everything", allowlist.SnapshotKey(pubGateway), "x", nats.Header{"Nats-Rollup": {"all"}}, []string{"none", "gone"}},
		{"sequence of its own", allowlist.SnapshotKey(pubGateway), "x", nats.Header{"Nats-Sequence": {"1"}}, []string{"malformed", "rejected"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newPubWorld(t)
			l := w.lead("writer-a", "team-a")
			before := w.lists("team-a")
			w.put(test.key, []byte(test.value), test.header)
			pubUntil(t, "the finding", func() bool { return pubCount(t, l, "findings_total", test.finding...) > 0 })
			if after := w.lists("team-a"); after.Revision != before.Revision || after.Epoch != before.Epoch {
				t.Errorf("repaired as %d.%d, was %d.%d", after.Epoch, after.Revision, before.Epoch, before.Revision)
			}
			l.beats(2)
		})
	}
}

// TestWriterPermissions leads with the rights that a writer needs and none besides.
func TestWriterPermissions(t *testing.T) {
	t.Parallel()
	w, seed := pubRestricted(t, "$KV."+allowkv.Bucket+"."+allowlist.SnapshotKey(pubGateway),
		"$KV."+allowkv.Bucket+"."+allowlist.HeartbeatKey(pubGateway), "$JS.API.STREAM.MSG.GET."+allowkv.Stream)
	conn := pubConnect(t, pubIdentity(t, seed, "_INBOX_w"), w.server.URL())
	l := w.publisher("writer-a", conn, "team-a")
	l.begin()
	w.lists("team-a")
	l.source.Set(allowkvtest.List(t, "team-b"))
	w.lists("team-b")

	// It can do nothing to the bucket itself.
	js := pubJetStream(t, conn)
	ctx, cancel := contextFor(t, 300*time.Millisecond)
	defer cancel()
	if err := js.DeleteStream(ctx, allowkv.Stream); err == nil {
		t.Error("a writer has deleted the bucket")
	}
}

// TestWithoutRights finds no way in, and says why.
func TestWithoutRights(t *testing.T) {
	t.Parallel()
	w, seed := pubRestricted(t, "$KV."+allowkv.Bucket+".other.snapshot")
	l := w.publisher("writer-a", pubConnect(t, pubIdentity(t, seed, "_INBOX_w"), w.server.URL()), "team-a")
	l.begin()
	l.logged("no certain outcome", "this identity may not ask")
	if s := l.Status(); s.Leading {
		t.Errorf("leads without rights: %+v", s)
	}
}

func TestNewPublisherRefuses(t *testing.T) {
	t.Parallel()
	signer, other := allowkvtest.Signer(t), allowkvtest.Signer(t)
	file := allowkvtest.KeysFile(t, signer)
	type parts struct {
		config allowkv.PublisherConfig
		conn   allowkv.Connection
		signer *allowlist.Signer
		clock  allowkv.Clock
		reg    prometheus.Registerer
	}
	for _, test := range []struct {
		name  string
		spoil func(*parts)
		want  string
	}{
		{"gateway", func(p *parts) { p.config.GatewayID = "" }, "gateway"},
		{"name", func(p *parts) { p.config.Name = "a b" }, "name"},
		{"settings", func(p *parts) { p.config.Settings = allowlist.Settings{} }, "heartbeat_interval"},
		{"no key", func(p *parts) { p.signer = nil }, "key"},
		{"another key", func(p *parts) { p.signer = other }, "not among the public keys"},
		{"no public keys", func(p *parts) { p.config.PublicKeysFile = "" }, "public_keys_file"},
		{"no connection", func(p *parts) { p.conn = nil }, "must be given"},
		{"no clock", func(p *parts) { p.clock = nil }, "must be given"},
		{"no registerer", func(p *parts) { p.reg = nil }, "must be given"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := parts{
				config: allowkv.PublisherConfig{GatewayID: pubGateway, Name: "writer-a", Settings: pubSettings(), PublicKeysFile: file},
				conn:   pubNoConnection{}, signer: signer, clock: allowkv.NewClock(), reg: prometheus.NewRegistry(),
			}
			test.spoil(&p)
			_, err := allowkv.NewPublisher(p.config, p.conn, p.signer, p.clock, zerolog.Nop(), p.reg)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestPublisherMetricsAreClean(t *testing.T) {
	t.Parallel()
	signer := allowkvtest.Signer(t)
	reg := prometheus.NewRegistry()
	config := allowkv.PublisherConfig{GatewayID: pubGateway, Name: "writer-a", Settings: pubSettings(), PublicKeysFile: allowkvtest.KeysFile(t, signer)}
	if _, err := allowkv.NewPublisher(config, pubNoConnection{}, signer, allowkv.NewClock(), zerolog.Nop(), reg); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	if _, err := allowkv.NewPublisher(config, pubNoConnection{}, signer, allowkv.NewClock(), zerolog.Nop(), reg); err == nil {
		t.Error("two publishers share their metrics")
	}
}

// TestTakeOverAfterExpiry takes over after the heartbeats of the last writer have expired.
func TestTakeOverAfterExpiry(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.lead("writer-a", "team-a")
	l.lose()
	l.end()
	kv, err := w.js().KeyValue(t.Context(), allowkv.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	pubUntil(t, "the end of the heartbeat", func() bool {
		_, err := kv.Get(t.Context(), allowlist.HeartbeatKey(pubGateway))
		return err != nil
	})
	// An older beat does not come back: the history of the key holds no value that would.
	w.lead("writer-b", "team-a", "team-b")
	if s := w.lists("team-a", "team-b"); s.Revision != 2 {
		t.Errorf("revision %d after 1", s.Revision)
	}
	info, err := w.js().Stream(t.Context(), allowkv.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.CachedInfo().Config.SubjectDeleteMarkerTTL; got != time.Second {
		t.Errorf("markers last %s", got)
	}
}
