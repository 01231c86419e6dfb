package allowkv_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// patientReader outlasts every restart of a test's server.
func patientReader(cfg *allowkv.Config) { cfg.MaxStaleness = driverconf.Duration(30 * time.Second) }

// denials counts the refusals of team-a from now on, asked without a pause.
func (x *rig) denials() (count func() int64) {
	var n atomic.Int64
	inBackground(x.t, "the questions", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if !x.Check("team-a").Allowed() {
				n.Add(1)
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	return n.Load
}

// TestReplayJ01ShortRestartStaysOpen: the proof outlives the server, and the reader sees what comes after (bug corpus J01).
func TestReplayJ01ShortRestartStaysOpen(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	d, x := openOn(t, s.URL(), s.URL(), patientReader)
	denied := x.denials()
	s.Restart()
	d.publish("team-a", "team-b")
	x.answers("team-b", "")
	if n := denied(); n != 0 {
		t.Errorf("team-a was refused %d times", n)
	}
	if x.counter("consumers_total") < 2 {
		t.Error("the consumer was not made afresh")
	}
}

// TestReplayJ02LongOutageCloses: server gone, link cut off silently; both close by the reader's clock, and open again after.
func TestReplayJ02LongOutageCloses(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	proxy := netfault.Start(t, s.Addr())
	d, x := openOn(t, s.URL(), "nats://"+proxy.Addr())
	proxy.Blackhole()
	x.answers("team-a", verdict.Stale)
	proxy.Pass()
	x.answers("team-a", "")
	s.Stop()
	x.answers("team-a", verdict.Stale)
	s.Start()
	x.answers("team-a", "")
	d.publish("team-b")
	x.answers("team-a", verdict.NotListed)
}

// TestReplayJ12FlappingLink: consumers do not pile up on the server when the link breaks all the time (bug corpus J12).
func TestReplayJ12FlappingLink(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	proxy := netfault.Start(t, s.Addr())
	d, x := openOn(t, s.URL(), "nats://"+proxy.Addr(), patientReader)
	const flaps = 40
	for range flaps {
		before := proxy.Accepted()
		proxy.Cut()
		poll(t, "the next connection", func() bool { return proxy.Accepted() > before })
		time.Sleep(30 * time.Millisecond) // time for a consumer, which is what this is about; nothing waits for it
	}
	stream, err := d.js.Stream(t.Context(), allowkv.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Consumers; n > flaps/2 {
		t.Errorf("%d consumers after %d flaps", n, flaps)
	}
	d.publish("team-a", "team-b")
	x.answers("team-b", "")
}

// TestRecreatedBucket: what comes after a deletion is judged by what was seen before it (nats-server #6614).
func TestRecreatedBucket(t *testing.T) {
	t.Parallel()
	_, d, x := open(t)
	old := d.publish("team-a", "team-old")
	x.answers("team-old", "")
	d.publish("team-a")
	x.answers("team-old", verdict.NotListed)
	d.halt()
	if err := d.js.DeleteKeyValue(t.Context(), allowkv.Bucket); err != nil {
		t.Fatal(err)
	}
	x.until("that the bucket is gone", func() bool { return errors.Is(x.Ready(t.Context()), allowkv.ErrNoBucket) })
	// Recreated with the older list: the stream is much shorter than the one that the reader knew.
	d.bucket(1)
	d.put(allowlist.SnapshotKey(readerGateway), old)
	x.until("a rollback", func() bool { return x.counter("findings_total", "kind", "rollback") > 0 })
	if a := x.Check("team-old"); a.Allowed() {
		t.Errorf("an older list is used: %+v", a)
	}
	d.publish("team-a", "team-new")
	d.start()
	x.answers("team-new", "")
}

// TestReplayJ09RestoredStore: the store goes back to a copy, and then grows past where it was with another history.
func TestReplayJ09RestoredStore(t *testing.T) {
	t.Parallel()
	var store string
	s := natstest.Start(t, func(o *server.Options) { store = o.StoreDir })
	d, x := openOn(t, s.URL(), s.URL())
	s.Stop()
	copied := t.TempDir() + "/copy"
	if err := os.CopyFS(copied, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	d.publish("team-a", "team-b")
	d.publish("team-b")
	x.answers("team-b", "")
	d.halt()
	beats := x.Status().Marks.Beat

	s.Stop()
	s.Wipe()
	if err := os.CopyFS(store, os.DirFS(copied)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	denied := x.Check("team-a")
	x.until("a rollback", func() bool { return x.counter("findings_total", "kind", "rollback") > 0 })
	if again := x.Check("team-a"); denied.Allowed() || again.Allowed() {
		t.Errorf("the restored list is used: %+v", again)
	}
	// A writer that does not know what was lost goes on where the copy ended, past the old end, with other content.
	forged := newScribe(t, d.signer, 1)
	forged.beats = beats + 100
	for range 3 {
		d.put(allowlist.SnapshotKey(readerGateway), forged.list("team-a", "team-forked"))
	}
	x.answers("team-forked", verdict.Forked)
	if x.counter("findings_total", "kind", "fork") == 0 || x.Check("team-a").Allowed() {
		t.Error("the fork is not found, or granted from")
	}
	// A take-over ends it.
	d.scribe = newScribe(t, d.signer, 2)
	d.revision = 9
	d.publish("team-a")
	d.start()
	x.answers("team-a", "")
	x.answers("team-forked", verdict.NotListed)
}

// TestGoneRecords: whatever takes a value from a key ends Fresh, and is never an empty list (rule R6).
func TestGoneRecords(t *testing.T) {
	t.Parallel()
	_, d, x := open(t)
	list := d.publish("team-a")
	for _, key := range []string{allowlist.SnapshotKey(readerGateway), allowlist.HeartbeatKey(readerGateway)} {
		for _, c := range []struct {
			name   string
			value  []byte
			header []string
		}{
			{"delete", nil, []string{"KV-Operation", "DEL"}},
			{"purge", nil, []string{"KV-Operation", "PURGE", "Nats-Rollup", "sub"}},
			{"unknown operation", []byte("x"), []string{"KV-Operation", "MOVE"}},
			{"expiry marker", nil, []string{"Nats-Marker-Reason", "MaxAge"}},
			{"empty value", nil, nil},
			{"rollup of a sound list", list, []string{"Nats-Rollup", "sub"}},
		} {
			found := x.counter("findings_total", "kind", "gone")
			d.put(key, c.value, c.header...)
			x.until(c.name+" of "+key, func() bool { return x.counter("findings_total", "kind", "gone") > found })
			if key == allowlist.SnapshotKey(readerGateway) {
				x.answers("team-a", verdict.Withdrawn)
				d.put(key, list)
			}
			x.answers("team-a", "")
		}
	}
	// A server's own marker: a beat whose time is up, with none before it that could come back.
	d.halt()
	stream, err := d.js.Stream(t.Context(), allowkv.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+allowkv.Bucket+"."+allowlist.HeartbeatKey(readerGateway))); err != nil {
		t.Fatal(err)
	}
	d.put(allowlist.HeartbeatKey(readerGateway), d.beat(""), "Nats-TTL", "1s")
	x.answers("team-a", verdict.Stale)
	d.start()
	x.answers("team-a", "")
}

// TestBadRecords: what was not signed for this list and this moment counts, and does not count as a record.
func TestBadRecords(t *testing.T) {
	t.Parallel()
	_, d, x := open(t)
	old := d.publish("team-a", "team-old")
	oldBeat := d.beat("")
	list := d.publish("team-a")
	x.answers("team-old", verdict.NotListed)
	snapshotKey, heartbeatKey := allowlist.SnapshotKey(readerGateway), allowlist.HeartbeatKey(readerGateway)

	stranger := newScribe(t, allowkvtest.Signer(t), 9)
	foreign := newScribe(t, d.signer, 9)
	foreign.gateway = "gw-2"
	flipped := append([]byte{}, list...)
	flipped[len(flipped)-10] ^= 1
	for _, c := range []struct {
		name, cause string
		value       []byte
	}{
		{"garbage", "malformed", []byte("\x00\xffgarbage")},
		{"another key", "unknown_key", stranger.list("team-x")},
		{"another gateway", "foreign_gateway", foreign.list("team-x")},
	} {
		before := x.counter("findings_total", "kind", "rejected", "cause", c.cause)
		d.put(snapshotKey, c.value)
		x.answers("team-a", verdict.Invalid)
		if x.counter("findings_total", "kind", "rejected", "cause", c.cause) <= before {
			t.Errorf("%s is not counted as %s", c.name, c.cause)
		}
		d.put(snapshotKey, list)
		x.answers("team-a", "")
	}
	d.put(snapshotKey, flipped)
	x.answers("team-a", verdict.Invalid)
	d.put(snapshotKey, list)
	x.answers("team-a", "")

	denied := x.denials()
	for key, value := range map[string][]byte{snapshotKey: old, heartbeatKey: oldBeat} {
		before := x.counter("findings_total", "kind", "rollback")
		d.put(key, value)
		x.until("a rollback on "+key, func() bool { return x.counter("findings_total", "kind", "rollback") > before })
		if a := x.Check("team-old"); a.Allowed() {
			t.Errorf("an old record on %s is used: %+v", key, a)
		}
	}
	d.put(readerGateway+".other", []byte("x"))
	x.until("a stray", func() bool { return x.counter("findings_total", "kind", "stray") > 0 })
	if n := denied(); n != 0 {
		t.Errorf("old and stray records closed the gate %d times", n)
	}
}

// TestWrongWallClock: a writer whose wall clock is far off opens no reader that has just started (rule R4).
func TestWrongWallClock(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, s.URL(), signer)
	d.bucket(1)
	d.wrong = 10 * time.Minute
	d.publish("team-a")
	d.start()
	conn, _ := connect(t, s.URL())
	x := runReader(t, conn, readerSettings(allowkvtest.KeysFile(t, signer)))
	x.until("many beats with another wall clock", func() bool { return x.counter("findings_total", "kind", "clock_skew") > 5 })
	if a := x.Check("team-a"); a.Allowed() {
		t.Errorf("granted: %+v", a)
	}
	d.halt()
	d.wrong = 0
	d.start()
	x.answers("team-a", "")
}

// TestReplayJ16Burst: a reader that is behind ends at the newest list.
func TestReplayJ16Burst(t *testing.T) {
	t.Parallel()
	_, d, x := open(t)
	for range 300 {
		d.publish("team-a", "team-x")
	}
	d.publish("team-last")
	x.answers("team-last", "")
	x.answers("team-a", verdict.NotListed)
}

// TestNoConsumerLeft: a reader that gets no consumer says so, and tries on.
func TestNoConsumerLeft(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, s.URL(), signer)
	stream, err := d.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: allowkv.Stream, Subjects: []string{"$KV." + allowkv.Bucket + ".>"}, MaxMsgsPerSubject: 8, MaxConsumers: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	rogue, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "rogue", AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	d.publish("team-a")
	d.start()
	conn, _ := connect(t, s.URL())
	x := runReader(t, conn, readerSettings(allowkvtest.KeysFile(t, signer)))
	x.until("that no consumer is left", func() bool { return errors.Is(x.Ready(t.Context()), jetstream.ErrMaximumConsumersLimit) })
	if err := stream.DeleteConsumer(t.Context(), rogue.CachedInfo().Name); err != nil {
		t.Fatal(err)
	}
	x.answers("team-a", "")
}

// dilator forwards TCP connections and, once slow, hands the server's bytes on later and later: at twice the time that
// has passed since.
type dilator struct {
	target string
	since  atomic.Int64 // unix nanoseconds; zero is no delay
	ended  chan struct{}
}

func newDilator(t *testing.T, target string) (*dilator, string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &dilator{target: target, ended: make(chan struct{})}
	var wg sync.WaitGroup
	t.Cleanup(func() { close(p.ended); ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(client) })
		}
	})
	return p, ln.Addr().String()
}

func (p *dilator) serve(client net.Conn) {
	defer client.Close()
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer upstream.Close()
	type chunk struct {
		due  time.Time
		data []byte
	}
	queue := make(chan chunk, 1<<16)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer client.Close()
	defer upstream.Close()
	wg.Go(func() { _, _ = io.Copy(upstream, client); upstream.Close() })
	wg.Go(func() {
		defer client.Close()
		for c := range queue {
			select {
			case <-time.After(time.Until(c.due)):
			case <-p.ended:
				return
			}
			if _, err := client.Write(c.data); err != nil {
				return
			}
		}
	})
	defer close(queue)
	stop := context.AfterFunc(endOf(p.ended), func() { upstream.Close(); client.Close() })
	defer stop()
	for {
		buf := make([]byte, 16<<10)
		n, err := upstream.Read(buf)
		if n > 0 {
			now := time.Now()
			due := now
			if since := p.since.Load(); since != 0 {
				due = now.Add(now.Sub(time.Unix(0, since)))
			}
			queue <- chunk{due, buf[:n]}
		}
		if err != nil {
			return
		}
	}
}

// endOf is a context that ends with a channel.
func endOf(ended <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-ended; cancel() }()
	return ctx
}

// TestSteadyDelay: beats that come in order, each later than the one before, extend nothing (rule R3).
func TestSteadyDelay(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p, addr := newDilator(t, s.Addr())
	d, x := openOn(t, s.URL(), "nats://"+addr)
	p.since.Store(time.Now().UnixNano())
	d.publish("team-b")
	x.until("team-a refused", func() bool { return !x.Check("team-a").Allowed() })
	x.until("stale", func() bool { return x.Check("team-a").Reason == verdict.Stale })
	p.since.Store(0)
	x.answers("team-b", "")
}
