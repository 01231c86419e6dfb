package allowkv_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestReaderFollowsTheList is a healthy life: cold start, additions, a removal, a withdrawal, the end.
func TestReaderFollowsTheList(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	conn, _ := connect(t, server.URL())
	x := runReader(t, conn, readerSettings(allowkvtest.KeysFile(t, signer)))
	x.until("that the bucket is missing", func() bool {
		err := x.Ready(t.Context())
		return errors.Is(err, allowkv.ErrNoBucket) && strings.Contains(err.Error(), "unsynced")
	})

	d := newDesk(t, server.URL(), signer)
	d.bucket(1)
	d.publish("team-a", "team-b")
	if a := x.Check("team-a"); a.Allowed() {
		t.Fatalf("granted without a beat: %+v", a)
	}
	d.start()
	x.answers("team-a", "")
	if err := x.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	if a := x.Check("team-a"); a.UID != "uid-team-a" || a.Epoch != 1 || a.Revision != 1 || !a.Proven {
		t.Errorf("the answer is %+v", a)
	}
	x.answers("team-x", verdict.NotListed)

	d.publish("team-b", "team-c")
	x.answers("team-a", verdict.NotListed)
	x.answers("team-c", "")
	if s := x.Status(); s.Revision != 2 || s.Namespaces != 2 || s.Writer != "scribe" || s.Condition.State != allowlist.Fresh {
		t.Errorf("the status is %+v", s)
	}
	for name, want := range map[string]float64{"epoch": 1, "revision": 2, "namespaces": 2, "aging": 0, "marks_stored": 1} {
		x.until("metric "+name, func() bool { return x.counter(name) == want })
	}
	if fresh, all := x.counter("state", "state", "fresh"), x.counter("state"); fresh != 1 || all != 1 {
		t.Errorf("state metrics: fresh %v, all %v", fresh, all)
	}

	d.halt()
	d.put(allowlist.HeartbeatKey(readerGateway), d.beat("the file is gone"))
	x.answers("team-b", verdict.Withdrawn)
	if err := x.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("ready: %v", err)
	}
	d.start()
	x.answers("team-b", "")
	x.stop()
	if a := x.Check("team-b"); a.Allowed() || a.Reason != verdict.Unsynced {
		t.Errorf("after the end of Run: %+v", a)
	}
	if err := x.Run(t.Context()); err == nil {
		t.Error("a second Run is accepted")
	}
	for _, line := range []string{`"state":"fresh"`, `"state":"withdrawn"`, "the file is gone"} {
		if !strings.Contains(x.log.String(), line) {
			t.Errorf("the log does not have %s:\n%s", line, x.log)
		}
	}
}

func TestSnapshotTellsOfChanges(t *testing.T) {
	t.Parallel()
	_, d, x := open(t)
	names := func() (string, <-chan struct{}) {
		l, changed := x.Snapshot()
		var names []string
		for _, e := range l.Namespaces {
			names = append(names, e.Name)
		}
		return l.Condition.State.String() + " " + strings.Join(names, ","), changed
	}
	// await follows the changes only, so a change that is not told of is never seen.
	await := func(want string) {
		t.Helper()
		limit := time.After(readerPatience)
		for {
			got, changed := names()
			if got == want {
				return
			}
			select {
			case <-changed:
			case <-limit:
				t.Fatalf("the listing stays %q, want %q", got, want)
			}
		}
	}
	await("fresh team-a")
	d.publish("team-a", "team-b")
	await("fresh team-a,team-b")
	d.publish()
	await("fresh ")
	d.publish("team-c")
	await("fresh team-c")
	l, unchanged := x.Snapshot()
	if l.Revision != 4 || l.Epoch != 1 || l.Namespaces[0].UID != "uid-team-c" {
		t.Errorf("the listing is %+v", l)
	}
	// Beats are no change.
	beats := x.Status().Marks.Beat
	x.until("more beats", func() bool { return x.Status().Marks.Beat > beats+3 })
	select {
	case <-unchanged:
		t.Error("a beat counts as a change of the list")
	default:
	}
	d.halt()
	await("stale ")
	d.start()
	await("fresh team-c")
	x.stop()
	await("unsynced ")
}

// TestReplayJ05StaleByTheOwnClock: the connection is fine, idle heartbeats come, and the writer does not beat.
func TestReplayJ05StaleByTheOwnClock(t *testing.T) {
	t.Parallel()
	_, d, x := open(t)
	d.halt()
	x.until("a warning before the end", func() bool { return x.counter("aging") == 1 })
	x.answers("team-a", verdict.Stale)
	if err := x.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "stale") || !strings.Contains(err.Error(), "nswatch") {
		t.Errorf("ready: %v", err)
	}
	x.until("a consumer suspected for its silence", func() bool {
		return x.counter("consumers_ended_total", "cause", "silence")+x.counter("consumers_ended_total", "cause", "resync") > 0
	})
	x.until("the age", func() bool { return x.counter("age_seconds") >= 3 })
	d.start()
	x.answers("team-a", "")
	if n := strings.Count(x.log.String(), "no allowlist heartbeat for a while"); n != 1 {
		t.Errorf("%d warnings of an aging list, want 1:\n%s", n, x.log)
	}
}

func TestNewReaderRefuses(t *testing.T) {
	t.Parallel()
	signer := allowkvtest.Signer(t)
	conn, _ := connect(t, natstest.New(t).URL())
	for _, c := range []struct {
		name string
		edit func(*allowkv.ReaderConfig)
		conn allowkv.Connection
		want string
	}{
		{"no gateway", func(c *allowkv.ReaderConfig) { c.GatewayID = "" }, conn, "gateway"},
		{"no name", func(c *allowkv.ReaderConfig) { c.Name = "" }, conn, "name"},
		{"a name that leaves the directory", func(c *allowkv.ReaderConfig) { c.Name = "../x" }, conn, "name"},
		{"no keys", func(c *allowkv.ReaderConfig) { c.Config.PublicKeysFile = "" }, conn, "portcullis.allowlist.public_keys_file"},
		{"a key file that is missing", func(c *allowkv.ReaderConfig) { c.Config.PublicKeysFile += "-not" }, conn, "no such file"},
		{"a relative state directory", func(c *allowkv.ReaderConfig) { c.Config.StateDir = "state" }, conn, "portcullis.allowlist.state_dir"},
		{"a bound that is not valid", func(c *allowkv.ReaderConfig) { c.Config.MaxStaleness = 0 }, conn, "portcullis.allowlist.max_staleness"},
		{"no connection", func(*allowkv.ReaderConfig) {}, nil, "no connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := allowkv.ReaderConfig{GatewayID: readerGateway, Name: "test", Config: readerSettings(allowkvtest.KeysFile(t, signer))}
			c.edit(&cfg)
			_, err := allowkv.NewReader(cfg, c.conn, zerolog.Nop(), prometheus.NewRegistry())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	cfg := allowkv.ReaderConfig{GatewayID: readerGateway, Name: "test", Config: readerSettings(allowkvtest.KeysFile(t, signer))}
	if _, err := allowkv.NewReader(cfg, conn, zerolog.Nop(), nil); err == nil {
		t.Error("no registerer is accepted")
	}
	reg := prometheus.NewRegistry()
	if _, err := allowkv.NewReader(cfg, conn, zerolog.Nop(), reg); err != nil {
		t.Error(err)
	}
	if _, err := allowkv.NewReader(cfg, conn, zerolog.Nop(), reg); err == nil {
		t.Error("two readers share their metrics")
	}
}

// TestReaderThatDoesNotRun denies without having been started.
func TestReaderThatDoesNotRun(t *testing.T) {
	t.Parallel()
	signer := allowkvtest.Signer(t)
	var conn natsconn.Conn
	x, err := allowkv.NewReader(allowkv.ReaderConfig{GatewayID: readerGateway, Name: "test", Config: readerSettings(allowkvtest.KeysFile(t, signer))},
		&conn, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if a := x.Check("team-a"); a.Allowed() || a.Reason != verdict.Unsynced {
		t.Errorf("answer %+v", a)
	}
	if err := x.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("ready: %v", err)
	}
	if l, _ := x.Snapshot(); len(l.Namespaces) != 0 || l.Condition.State != allowlist.Unsynced {
		t.Errorf("listing %+v", l)
	}
}
