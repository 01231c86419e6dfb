package audit

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// away is a connection that never is.
type away struct{}

func (away) Session() (natsconn.Session, <-chan struct{}) { return natsconn.Session{}, nil }

func TestEventsArriveInOrder(t *testing.T) {
	srv := natstest.Start(t)
	conn := connect(t, srv.URL())
	bootstrap(t, conn, quick())
	d := open(t, quick(), conn)
	event := sample(t)
	d.Record(event) // before Run
	d.start()
	const more = 1000
	d.record(more)
	d.awaitPublished(more + 1)
	entries := stored(t, conn)
	inOrder(t, entries, 1, more+1)
	want := entry(&event, time.Now())
	want.Instance, want.Seq, want.Daemon, want.Gateway = d.instance, 1, "tokenauth", "gw-1"
	if entries[0] != want {
		t.Errorf("got %+v, want %+v", entries[0], want)
	}
	if got := entries[more].RequestID; got != "r-999" {
		t.Errorf("the last is %s", got)
	}
	if d.droppedAll() != 0 || d.log.decisions() != more+1 {
		t.Errorf("dropped %d, logged %d", d.droppedAll(), d.log.decisions())
	}
}

// TestConcurrentRecords: the order in the stream is that of the sequence.
func TestConcurrentRecords(t *testing.T) {
	srv := natstest.Start(t)
	conn := connect(t, srv.URL())
	bootstrap(t, conn, quick())
	d := open(t, quick(), conn).start()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() { d.record(50) })
	}
	callers.Wait()
	d.awaitPublished(400)
	inOrder(t, stored(t, conn), 1, 400)
}

// TestFullQueue: with nobody to take events, Record comes back all the same, and each event beyond the queue is counted.
func TestFullQueue(t *testing.T) {
	cfg := quick()
	cfg.Buffer, cfg.FlushTimeout = leastBuffer, 0
	d := open(t, cfg, away{}) // not running
	d.record(100)
	if got := d.dropped(causeFull); got != 100-leastBuffer || d.droppedAll() != got || d.log.decisions() != 100 {
		t.Errorf("dropped %d as full, %d in all; logged %d", got, d.droppedAll(), d.log.decisions())
	}
	// Once the cause is known, it is the label.
	d.start()
	await(t, "the trouble is known", func() bool { return d.trouble.Load() == causeDisconnected })
	d.record(10)
	if got := d.dropped(causeDisconnected); got != 10 {
		t.Errorf("dropped %d as disconnected", got)
	}
	d.stop()
	if got := d.dropped(causeStopped); got != leastBuffer {
		t.Errorf("dropped %d at the stop, want the whole queue", got)
	}
	d.record(5)
	if got := d.dropped(causeStopped); got != leastBuffer+5 || d.log.decisions() != 115 {
		t.Errorf("dropped %d after the stop; logged %d", got, d.log.decisions())
	}
}

// TestStopFlushes: what was recorded before the stop is in the stream after it.
func TestStopFlushes(t *testing.T) {
	srv := natstest.Start(t)
	conn := connect(t, srv.URL())
	cfg := quick()
	cfg.FlushTimeout = driverconf.Duration(mostFlush)
	bootstrap(t, conn, cfg)
	d := open(t, cfg, conn)
	d.record(500)
	d.start()
	d.stop()
	inOrder(t, stored(t, conn), 1, 500)
	if d.droppedAll() != 0 || d.published() != 500 {
		t.Errorf("published %d, dropped %d", d.published(), d.droppedAll())
	}
}

// TestLostAcknowledgements: events that are stored, but not known to be, are sent again and not stored again.
func TestLostAcknowledgements(t *testing.T) {
	srv := natstest.Start(t)
	conn := connect(t, srv.URL())
	bootstrap(t, conn, quick())
	d := open(t, quick(), conn)
	d.record(2 * window)
	d.close()
	p := d.publisher()
	var lost []flight
	for range window {
		lost = append(lost, flight{entry: <-p.queue})
	}
	for attempt := 1; attempt <= 2; attempt++ {
		p.sent = append(p.sent, lost...)
		session, changed := conn.Session()
		if problem := p.serve(t.Context(), session, changed); problem != nil || !p.finished() {
			t.Fatalf("attempt %d: %v, %d left", attempt, problem, len(p.sent))
		}
	}
	inOrder(t, stored(t, conn), 1, 2*window)
	if d.published() != 3*window {
		t.Errorf("%d acknowledgements", d.published())
	}
}

// TestLogOnly: without a stream nothing is queued, and nothing counts as dropped.
func TestLogOnly(t *testing.T) {
	off := quick()
	off.Publish = false
	for name, d := range map[string]*desk{"switched off": open(t, off, away{}), "no connection": open(t, quick(), nil)} {
		d.start()
		d.record(3)
		d.stop()
		d.record(1)
		if d.droppedAll() != 0 || d.log.decisions() != 4 {
			t.Errorf("%s: dropped %d, logged %d", name, d.droppedAll(), d.log.decisions())
		}
	}
}

// TestTheLevelSilencesNoDecision: nor where they go. Everything else may be.
func TestTheLevelSilencesNoDecision(t *testing.T) {
	for name, test := range map[string]struct {
		conn Connection
		edit func(*Config)
		want []string
	}{
		"no NATS":      {nil, func(*Config) {}, []string{`"cause":"no NATS is configured"`, "decisions are recorded in this log only"}},
		"switched off": {away{}, func(c *Config) { c.Publish = false }, []string{`"cause":"publish of portcullis.audit is false"`, "decisions are recorded in this log only"}},
		"stream":       {away{}, func(*Config) {}, []string{`"stream":"PORTCULLIS_AUDIT","subject":"portcullis.audit.gw-1.tokenauth"`, "decisions are recorded in this log and in the stream"}},
	} {
		log, cfg := &logged{}, quick()
		cfg.FlushTimeout = 0
		test.edit(&cfg)
		trail, err := New(cfg, origin, test.conn, telemetry.NewLogger(log, zerolog.ErrorLevel, "d"), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		d := (&desk{Trail: trail, t: t, log: log}).start()
		d.record(2)
		for _, want := range test.want {
			await(t, name+" is told", func() bool { return strings.Contains(log.String(), want) })
		}
		d.stop()
		if n := strings.Count(log.String(), "\n"); n != 3 || d.log.decisions() != 2 || strings.Count(log.String(), `"level":"info"`) != 3 {
			t.Errorf("%s: %d lines\n%s", name, n, log.String())
		}
	}
}

func TestRunTwice(t *testing.T) {
	d := open(t, quick(), nil).start()
	await(t, "started", d.started.Load)
	if err := d.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("second run: %v", err)
	}
}

// BenchmarkRecord is Record with the queue full, and with a queue that is taken from.
func BenchmarkRecord(b *testing.B) {
	for _, bench := range []struct {
		name    string
		drained bool
	}{{"full", false}, {"queued", true}} {
		b.Run(bench.name, func(b *testing.B) {
			cfg := DefaultConfig()
			trail, err := New(cfg, origin, away{}, zerolog.New(io.Discard), prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			event := sample(b)
			b.ReportAllocs()
			for b.Loop() {
				trail.Record(event)
				if bench.drained {
					<-trail.queue
				}
			}
		})
	}
}
