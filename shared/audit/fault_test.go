package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
)

func TestServerIsLate(t *testing.T) {
	srv := natstest.New(t)
	conn := connect(t, srv.URL())
	d := open(t, quick(), conn).start()
	d.record(20)
	await(t, "the failure is counted", func() bool { return d.failures(causeDisconnected) > 0 })
	srv.Start()
	bootstrap(t, conn, quick())
	d.awaitPublished(20)
	eachOnce(t, stored(t, conn), 20) // the stream may have come in the middle of an attempt
	if d.droppedAll() != 0 || !strings.Contains(d.log.String(), "audit events are published again") {
		t.Errorf("dropped %d; log:\n%s", d.droppedAll(), d.log)
	}
}

func TestServerRestarts(t *testing.T) {
	srv := natstest.Start(t)
	conn := connect(t, srv.URL())
	bootstrap(t, conn, quick())
	d := open(t, quick(), conn).start()
	for round := 1; round <= 3; round++ {
		d.record(100)
		srv.Restart()
		d.record(100)
		d.awaitPublished(round * 200)
	}
	eachOnce(t, stored(t, conn), 600)
	if d.droppedAll() != 0 {
		t.Errorf("dropped %d", d.droppedAll())
	}
}

// TestStreamIsGone wipes the server, whose stream is then bootstrapped again, with more events than there is room for.
func TestStreamIsGone(t *testing.T) {
	srv := natstest.Start(t)
	conn := connect(t, srv.URL())
	cfg := quick()
	cfg.Buffer = leastBuffer
	bootstrap(t, conn, cfg)
	d := open(t, cfg, conn).start()
	d.record(10)
	d.awaitPublished(10)
	srv.Stop()
	srv.Wipe()
	srv.Start()
	jetStream(t, conn)
	d.record(1)
	await(t, "the missing stream is noticed", func() bool { return d.failures(causeNoStream) > 0 })
	// What is on its way is taken first, so that the queue's length is known.
	d.record(1000)
	await(t, "drops are counted", func() bool { return d.dropped(causeNoStream) > 0 })
	if d.log.decisions() != 1011 {
		t.Errorf("logged %d", d.log.decisions())
	}
	bootstrap(t, conn, cfg)
	await(t, "recovery", func() bool { return d.published()+d.droppedAll() == 1011 })
	if got := len(stored(t, conn)); got != d.published()-10 {
		t.Errorf("%d stored, %d published since the wipe", got, d.published()-10)
	}
	if log := d.log.String(); !strings.Contains(log, "bootstrap the stream") || !strings.Contains(log, `"cause":"no_stream"`) {
		t.Error("the log does not tell what to do")
	}
}

// TestBlackhole: bytes vanish, sockets stay. Nothing is lost or stored twice.
func TestBlackhole(t *testing.T) {
	srv := natstest.Start(t)
	admin := connect(t, srv.URL())
	bootstrap(t, admin, quick())
	proxy := netfault.Start(t, srv.Addr())
	conn := connect(t, "nats://"+proxy.Addr(), func(c *natsconn.Config) {
		c.PingInterval, c.MaxPingsOut = driverconf.Duration(100e6), 2
	})
	cfg := quick()
	cfg.AckTimeout = driverconf.Duration(leastAck)
	d := open(t, cfg, conn).start()
	d.record(10)
	d.awaitPublished(10)
	proxy.Blackhole()
	d.record(10)
	await(t, "a failure is noticed", func() bool { return d.failures(causeUnanswered)+d.failures(causeDisconnected) > 0 })
	proxy.Pass()
	proxy.Cut()
	d.awaitPublished(20)
	inOrder(t, stored(t, admin), 1, 20)
}

// identified gives a connection an NKEY and an inbox of its own.
func identified(t *testing.T, seed []byte) func(*natsconn.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *natsconn.Config) { c.NKeySeedFile, c.InboxPrefix = file, "_INBOX_w" }
}

// TestRights: the rights that the package comment names suffice, and without them events are kept and counted.
func TestRights(t *testing.T) {
	for _, test := range []struct {
		name, publish string
		allowed       bool
	}{
		{"own subject", Subject(origin.GatewayID, origin.Daemon), true},
		{"another gateway's subject", Subject("gw-2", origin.Daemon), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			admin, adminSeed := natstest.NKey(t)
			user, seed := natstest.NKey(t)
			srv := natstest.Start(t, func(o *server.Options) {
				o.Nkeys = []*server.NkeyUser{{Nkey: admin}, {Nkey: user, Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: []string{test.publish}},
					Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_w.>"}},
				}}}
			})
			bootstrap(t, connect(t, srv.URL(), identified(t, adminSeed)), quick())
			cfg := quick()
			cfg.Buffer, cfg.FlushTimeout = leastBuffer, 0
			d := open(t, cfg, connect(t, srv.URL(), identified(t, seed))).start()
			d.record(1)
			if test.allowed {
				d.awaitPublished(1)
				return
			}
			await(t, "silence is noticed", func() bool { return d.failures(causeUnanswered) > 0 })
			d.record(1000)
			if d.dropped(causeUnanswered) == 0 || d.published() != 0 {
				t.Errorf("dropped %d, published %d", d.dropped(causeUnanswered), d.published())
			}
			d.stop()
			if d.droppedAll() != 1001 {
				t.Errorf("%d of 1001 accounted for", d.droppedAll())
			}
		})
	}
}

// TestAccountIsFull: the server refuses, events are kept, and arrive when there is room.
func TestAccountIsFull(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 })
	conn := connect(t, srv.URL())
	js := jetStream(t, conn)
	unbounded := streamConfig(quick())
	unbounded.MaxBytes = -1 // a stream with its own bound has its room reserved
	if _, err := js.CreateStream(t.Context(), unbounded); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILL", Subjects: []string{"fill"}}); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if _, err := js.Publish(t.Context(), "fill", make([]byte, 16<<10)); err != nil {
			break
		} else if i > 1000 {
			t.Fatal("the account never was full")
		}
	}
	d := open(t, quick(), conn).start()
	d.record(200)
	await(t, "the refusal is counted", func() bool { return d.failures(causeRefused) > 0 })
	if err := js.DeleteStream(t.Context(), "FILL"); err != nil {
		t.Fatal(err)
	}
	d.awaitPublished(200)
	if d.droppedAll() != 0 {
		t.Errorf("dropped %d", d.droppedAll())
	}
}

// TestTooLargeAlone: an event that can never be stored does not hold up the others.
func TestTooLargeAlone(t *testing.T) {
	for _, test := range []struct {
		name   string
		stream int32
		server int32
	}{{"for the stream", 700, 1 << 20}, {"for the server", -1, 1024}} {
		t.Run(test.name, func(t *testing.T) {
			srv := natstest.Start(t, func(o *server.Options) { o.MaxPayload = test.server })
			conn := connect(t, srv.URL())
			small := streamConfig(quick())
			small.MaxMsgSize = test.stream
			if _, err := jetStream(t, conn).CreateStream(t.Context(), small); err != nil {
				t.Fatal(err)
			}
			d := open(t, quick(), conn)
			long := strings.Repeat("x", 300)
			d.record(2)
			d.Record(Event{Namespace: long, Caller: long, PodUID: long, SandboxID: long, RequestID: long})
			d.record(2)
			d.start()
			d.awaitPublished(4)
			if d.dropped(causeRefused) != 1 || d.droppedAll() != 1 {
				t.Errorf("dropped %d as refused, %d in all", d.dropped(causeRefused), d.droppedAll())
			}
			entries := stored(t, conn)
			if len(entries) != 4 || entries[2].Seq != 4 {
				t.Errorf("stored %+v", entries)
			}
		})
	}
}

// TestForeignStream: a stream that has taken the subject does not count.
func TestForeignStream(t *testing.T) {
	srv := natstest.Start(t)
	conn := connect(t, srv.URL())
	js := jetStream(t, conn)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{subjects}}); err != nil {
		t.Fatal(err)
	}
	d := open(t, quick(), conn).start()
	d.record(3)
	await(t, "the refusal is counted", func() bool { return d.failures(causeRefused) > 0 })
	other, err := js.Stream(t.Context(), "OTHER")
	if err != nil {
		t.Fatal(err)
	}
	if kept := other.CachedInfo().State.LastSeq; kept != 0 || d.published() != 0 {
		t.Errorf("the other stream took %d events, published %d", kept, d.published())
	}
	if err := js.DeleteStream(t.Context(), "OTHER"); err != nil {
		t.Fatal(err)
	}
	bootstrap(t, conn, quick())
	d.awaitPublished(3)
}

// TestWindow: what is on its way is bounded while no acknowledgement comes, so the queue's bound is one.
func TestWindow(t *testing.T) {
	srv := natstest.Start(t)
	proxy := netfault.Start(t, srv.Addr())
	conn := connect(t, "nats://"+proxy.Addr())
	jetStream(t, conn)
	d := open(t, quick(), conn)
	d.record(3 * window)
	proxy.Blackhole()
	session, changed := conn.Session()
	p := d.publisher()
	problem := p.serve(t.Context(), session, changed)
	if problem == nil || problem.why != causeUnanswered || len(p.sent) != window || len(d.queue) != 2*window {
		t.Errorf("%+v, %d on their way, %d in the queue", problem, len(p.sent), len(d.queue))
	}
	proxy.Pass()
	proxy.Cut()
}
