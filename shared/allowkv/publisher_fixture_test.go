package allowkv_test

import (
	"bytes"
	"context"
	"fmt"
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
)

const (
	// pubPatience bounds every wait; nothing is expected to take nearly so long.
	pubPatience = 60 * time.Second
	// pubAttempt bounds one of several attempts.
	pubAttempt = 2 * time.Second
	pubGateway = "gw-1"
)

// pubSettings make a quick writer, whose terms outlast every outage of a test.
func pubSettings() allowlist.Settings {
	s := allowlist.DefaultSettings()
	s.HeartbeatInterval = driverconf.Duration(100 * time.Millisecond)
	s.HeartbeatTTL = driverconf.Duration(2 * time.Second)
	s.MaxStaleness = driverconf.Duration(pubPatience)
	s.StopGrace = driverconf.Duration(300 * time.Millisecond)
	return s
}

// pubKeys are a signer and the keys that verify it.
func pubKeys(t testing.TB) (*allowlist.Signer, allowlist.KeySet) {
	t.Helper()
	signer := allowkvtest.Signer(t)
	keys, err := allowlist.NewKeySet(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	return signer, keys
}

// pubNames are so many names.
func pubNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("team-%04d", i)
	}
	return names
}

// pubLog collects log lines.
type pubLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *pubLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *pubLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// pubUntil polls a condition.
func pubUntil(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(pubPatience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("never saw %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// pubConnect runs a connection until the test ends.
func pubConnect(t testing.TB, edit func(*natsconn.Config), urls ...string) *natsconn.Conn {
	t.Helper()
	cfg := natsconn.DefaultConfig()
	cfg.URLs = urls
	cfg.ReconnectWait = driverconf.Duration(10 * time.Millisecond)
	cfg.ReconnectWaitMax = driverconf.Duration(100 * time.Millisecond)
	if edit != nil {
		edit(&cfg)
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

// pubJetStream is JetStream over a new connection.
func pubJetStream(t testing.TB, conn *natsconn.Conn) jetstream.JetStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pubPatience)
	defer cancel()
	session, err := conn.Await(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return session.JetStream
}

// pubWorld is a server with the bucket, and what all writers of it share.
type pubWorld struct {
	t        testing.TB
	server   *natstest.Server
	conn     *natsconn.Conn
	settings allowlist.Settings
	signer   *allowlist.Signer
	keys     allowlist.KeySet
	keysFile string
	// clock is that of every publisher; nil gives each one of its own.
	clock allowkv.Clock
}

func newPubWorld(t testing.TB, options ...natstest.Option) *pubWorld {
	t.Helper()
	server := natstest.Start(t, options...)
	w := pubWorldAt(t, server.URL())
	w.server = server
	w.bootstrap(1)
	return w
}

func pubWorldAt(t testing.TB, urls ...string) *pubWorld {
	t.Helper()
	w := &pubWorld{t: t, settings: pubSettings(), conn: pubConnect(t, nil, urls...)}
	w.makeKeys()
	return w
}

func (w *pubWorld) makeKeys() {
	w.t.Helper()
	w.signer, w.keys = pubKeys(w.t)
	w.keysFile = allowkvtest.KeysFile(w.t, w.signer)
}

func (w *pubWorld) js() jetstream.JetStream { return pubJetStream(w.t, w.conn) }

func (w *pubWorld) bootstrap(replicas int) {
	w.t.Helper()
	if created, err := allowkv.Bootstrap(w.t.Context(), w.js(), replicas); err != nil || !created {
		w.t.Fatalf("bootstrap: created %t, %v", created, err)
	}
}

// pubLeader is a publisher in a term.
type pubLeader struct {
	*allowkv.Publisher
	w       *pubWorld
	source  *allowkvtest.Source
	log     *pubLog
	metrics *prometheus.Registry
	lose    context.CancelFunc
	release func()
	ended   chan allowlist.End
}

// publisher is a publisher that has not led yet.
func (w *pubWorld) publisher(name string, conn allowkv.Connection, names ...string) *pubLeader {
	w.t.Helper()
	clock := w.clock
	if clock == nil {
		clock = allowkv.NewClock()
	}
	l := &pubLeader{w: w, log: &pubLog{}, metrics: prometheus.NewRegistry(), source: allowkvtest.NewSource(clock, allowkvtest.List(w.t, names...))}
	var err error
	l.Publisher, err = allowkv.NewPublisher(allowkv.PublisherConfig{GatewayID: pubGateway, Name: name, Settings: w.settings, PublicKeysFile: w.keysFile},
		conn, w.signer, clock, zerolog.New(l.log), l.metrics)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// begin starts a term. At the end of the test it is cut off and has to end.
func (l *pubLeader) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	released := make(chan struct{})
	l.lose, l.release = cancel, sync.OnceFunc(func() { close(released) })
	ended, done := make(chan allowlist.End, 1), make(chan struct{})
	l.ended = ended
	go func() {
		defer close(done)
		end, err := l.Lead(ctx, l.source, released)
		if err != nil {
			l.w.t.Errorf("lead: %v", err)
		}
		ended <- end
	}()
	l.w.t.Cleanup(func() {
		cancel()
		<-done
		if l.w.t.Failed() {
			l.w.t.Logf("log of the publisher:\n%s", l.log)
		}
	})
}

// lead is a publisher that has taken over and beats.
func (w *pubWorld) lead(name string, names ...string) *pubLeader {
	w.t.Helper()
	l := w.publisher(name, w.conn, names...)
	l.begin()
	l.beats(1)
	return l
}

// beats waits until so many more heartbeats were sent and answered than now.
func (l *pubLeader) beats(more uint64) {
	l.w.t.Helper()
	from := l.Status()
	pubUntil(l.w.t, "more heartbeats", func() bool {
		s := l.Status()
		if s.Epoch != from.Epoch {
			from.Beats = 0
		}
		// A beat is counted when it is made; the one after it says that it was answered.
		return s.Leading && s.Beats > from.Beats+more
	})
}

// end is how the term ended.
func (l *pubLeader) end() allowlist.End {
	l.w.t.Helper()
	select {
	case end := <-l.ended:
		return end
	case <-time.After(pubPatience):
		l.w.t.Fatal("the term does not end")
		return allowlist.End{}
	}
}

// logged waits for a line with all the texts.
func (l *pubLeader) logged(texts ...string) {
	l.w.t.Helper()
	pubUntil(l.w.t, "log line with "+strings.Join(texts, " and "), func() bool {
		for line := range strings.Lines(l.log.String()) {
			found := true
			for _, text := range texts {
				found = found && strings.Contains(line, text)
			}
			if found {
				return true
			}
		}
		return false
	})
}

// stored is the newest record of each key, by the stock client. It opens both. A request that is lost, as one to a
// replica that stops is, must not use up the patience of whoever polls.
func (w *pubWorld) stored() (allowlist.Snapshot, allowlist.Heartbeat, bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), pubAttempt)
	defer cancel()
	kv, err := w.js().KeyValue(ctx, allowkv.Bucket)
	if err != nil {
		return allowlist.Snapshot{}, allowlist.Heartbeat{}, false
	}
	s, err := kv.Get(ctx, allowlist.SnapshotKey(pubGateway))
	if err != nil {
		return allowlist.Snapshot{}, allowlist.Heartbeat{}, false
	}
	h, err := kv.Get(ctx, allowlist.HeartbeatKey(pubGateway))
	if err != nil {
		return allowlist.Snapshot{}, allowlist.Heartbeat{}, false
	}
	snapshot, _, err := allowlist.OpenSnapshot(s.Value(), w.keys, pubGateway)
	if err != nil {
		return allowlist.Snapshot{}, allowlist.Heartbeat{}, false
	}
	heartbeat, err := allowlist.OpenHeartbeat(h.Value(), w.keys, pubGateway)
	return snapshot, heartbeat, err == nil
}

// until waits for the stored records to be as holds says.
func (w *pubWorld) until(what string, holds func(allowlist.Snapshot, allowlist.Heartbeat) bool) (s allowlist.Snapshot, h allowlist.Heartbeat) {
	w.t.Helper()
	pubUntil(w.t, what, func() bool {
		var ok bool
		s, h, ok = w.stored()
		return ok && holds(s, h)
	})
	return s, h
}

// lists waits until a list of just these names is stored and vouched for.
func (w *pubWorld) lists(names ...string) allowlist.Snapshot {
	w.t.Helper()
	want := allowkvtest.List(w.t, names...)
	s, _ := w.until("the list "+strings.Join(names, ","), func(s allowlist.Snapshot, h allowlist.Heartbeat) bool {
		return s.Namespaces.Equal(want) && h.Epoch == s.Epoch && h.Revision == s.Revision && h.Reason == ""
	})
	return s
}

// put stores a value the way an intruder would, without any condition.
func (w *pubWorld) put(key string, value []byte, header nats.Header) {
	w.t.Helper()
	pubUntil(w.t, "the intruder's record", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), pubAttempt)
		defer cancel()
		_, err := w.js().PublishMsg(ctx, &nats.Msg{Subject: "$KV." + allowkv.Bucket + "." + key, Data: value, Header: header})
		return err == nil
	})
}
