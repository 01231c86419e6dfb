package allowkv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
)

// TestServerRestart stops the server in the middle of a term and starts it again on the same store.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.lead("writer-a", "team-a")
	before := w.lists("team-a")
	w.server.Stop()
	l.source.Set(allowkvtest.List(t, "team-b"))
	l.logged("no certain outcome", "not connected to NATS")
	w.server.Start()
	after := w.lists("team-b")
	// The change was made once, and no number has two meanings: a write in doubt may have used one up.
	if after.Epoch != before.Epoch || after.Revision <= before.Revision {
		t.Errorf("%d.%d was followed by %d.%d", before.Epoch, before.Revision, after.Epoch, after.Revision)
	}
	l.beats(2)
	if pubCount(t, l, "looks_total", "failed") == 0 || pubCount(t, l, "findings_total", "none", "doubt") == 0 {
		t.Error("the outage left no trace in the metrics")
	}
}

// TestWipedStore finds an empty server without a bucket, says so, creates none, and publishes the same revision again
// once somebody has.
func TestWipedStore(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.lead("writer-a", "team-a")
	before := w.lists("team-a")
	w.server.Stop()
	w.server.Wipe()
	w.server.Start()
	l.logged("does not exist")
	w.bootstrap(1)
	after := w.lists("team-a")
	if after.Epoch != before.Epoch || after.Revision != before.Revision {
		t.Errorf("%d.%d became %d.%d", before.Epoch, before.Revision, after.Epoch, after.Revision)
	}
	l.beats(2)
}

// TestTwoWriters lets two lead at once, as a Lease cannot prevent. The journal sees that they never write in turns.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	j := w.journal()
	a := w.lead("writer-a", "team-a")
	b := w.lead("writer-b", "team-b")
	end := a.end()
	if end.Cause != allowlist.EndSuperseded || end.Err == nil || !strings.Contains(end.Err.Error(), "writer-b") {
		t.Errorf("ended by %s: %v", end.Cause, end.Err)
	}
	b.beats(3)
	if s := w.lists("team-b"); s.Revision != 2 || s.Writer != "writer-b" {
		t.Errorf("stored %d by %s", s.Revision, s.Writer)
	}
	pubGauge(t, a, "leading", 0)
	if n := pubCount(t, a, "terms_total", "superseded"); n != 1 {
		t.Errorf("%v terms counted as superseded", n)
	}
	j.terms(2)
}

// TestManyWriters has writers begin together. Exactly one stays.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	j := w.journal()
	var ls []*pubLeader
	for _, name := range []string{"writer-a", "writer-b", "writer-c"} {
		l := w.publisher(name, w.conn, "team-"+name[7:])
		ls = append(ls, l)
	}
	for _, l := range ls {
		l.begin()
	}
	over := func() (n int) {
		for _, l := range ls {
			n += len(l.ended)
		}
		return n
	}
	pubUntil(t, "the end of all terms but one", func() bool { return over() == len(ls)-1 })
	for _, l := range ls {
		if len(l.ended) == 0 {
			l.beats(3)
			continue
		}
		if end := l.end(); end.Cause != allowlist.EndSuperseded && end.Cause != allowlist.EndSplit {
			t.Errorf("ended by %s: %v", end.Cause, end.Err)
		}
	}
	if over() != 0 {
		t.Error("no writer is left")
	}
	j.terms(1)
}

// TestPausedWriter cuts a leader off without its noticing, lets another take over, and brings the first one back.
func TestPausedWriter(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	j := w.journal()
	proxy := netfault.Start(t, w.server.Addr())
	behind := pubConnect(t, func(c *natsconn.Config) {
		c.PingInterval = driverconf.Duration(c.PingInterval.Std() / 10)
		c.ConnectTimeout = driverconf.Duration(500 * time.Millisecond)
	},
		"nats://"+proxy.Addr())
	a := w.publisher("writer-a", behind, "team-a")
	a.begin()
	w.lists("team-a")
	proxy.Blackhole()
	a.source.Set(allowkvtest.List(t, "team-a", "team-late"))
	a.logged("no certain outcome")
	b := w.lead("writer-b", "team-b")
	proxy.Pass()
	if end := a.end(); end.Cause != allowlist.EndSuperseded {
		t.Errorf("ended by %s: %v", end.Cause, end.Err)
	}
	b.beats(3)
	w.lists("team-b")
	j.terms(2)
}

// TestForeignEpoch is a record of another writer with a higher epoch, put there without any condition.
func TestForeignEpoch(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.lead("writer-a", "team-a")
	s := w.lists("team-a")
	s.Epoch, s.Writer = s.Epoch+1000, "writer-z"
	record, _, err := allowlist.SealSnapshot(s, w.signer)
	if err != nil {
		t.Fatal(err)
	}
	w.put(allowlist.SnapshotKey(pubGateway), record, nil)
	end := l.end()
	if end.Cause != allowlist.EndSuperseded || !strings.Contains(end.Err.Error(), "writer-z") {
		t.Errorf("ended by %s: %v", end.Cause, end.Err)
	}
	// The next term goes above it.
	w.lead("writer-b", "team-b")
	if next := w.lists("team-b"); next.Epoch <= s.Epoch {
		t.Errorf("epoch %d after %d", next.Epoch, s.Epoch)
	}
}

// TestClusterLeaderStop stops the server that leads the stream.
func TestClusterLeaderStop(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	w := pubWorldAt(t, cluster.URLs()...)
	w.bootstrap(3)
	l := w.lead("writer-a", "team-a")
	before := w.lists("team-a")
	var leader *natstest.Server
	pubUntil(t, "a leader of the stream", func() bool {
		leader = cluster.StreamLeader("KV_portcullis_allowlist")
		return leader != nil
	})
	leader.Stop()
	l.source.Set(allowkvtest.List(t, "team-b"))
	after := w.lists("team-b")
	if after.Epoch != before.Epoch || after.Revision <= before.Revision {
		t.Errorf("%d.%d was followed by %d.%d", before.Epoch, before.Revision, after.Epoch, after.Revision)
	}
	// A conflict on a replicated stream may have a code of its own; an intruder causes one.
	w.put(allowlist.HeartbeatKey(pubGateway), []byte("garbage"), nil)
	pubUntil(t, "the finding", func() bool { return pubCount(t, l, "findings_total", "malformed", "rejected") > 0 })
	l.beats(2)
}

// TestServerLimitsChange restarts the server with less room than the next list needs.
func TestServerLimitsChange(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.lead("writer-a", "team-a")
	w.server.Restart(func(o *server.Options) { o.MaxPayload = 2000 })
	l.source.Set(allowkvtest.List(t, pubNames(100)...))
	w.until("the withdrawal", func(_ allowlist.Snapshot, h allowlist.Heartbeat) bool {
		return strings.Contains(h.Reason, "max_payload is 2000")
	})
}
