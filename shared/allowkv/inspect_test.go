package allowkv_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

func keySet(t testing.TB, signer *allowlist.Signer) allowlist.KeySet {
	t.Helper()
	set, err := allowlist.NewKeySet(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestInspect(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, s.URL(), signer)
	inspect := func() (allowkv.Inspection, error) {
		return allowkv.Inspect(t.Context(), d.js, keySet(t, signer), readerGateway)
	}
	if _, err := inspect(); !errors.Is(err, allowkv.ErrNoBucket) || !strings.Contains(err.Error(), "bootstrap") {
		t.Errorf("no bucket: %v", err)
	}
	d.bucket(1)
	// Another gateway's records are not this one's.
	other := newScribe(t, signer, 1)
	other.gateway = readerGateway + ".x"
	d.put(allowlist.SnapshotKey(other.gateway), other.list("team-x"))
	if found, err := inspect(); err != nil || len(found.Snapshots)+len(found.Heartbeats) != 0 || found.ServerTime.IsZero() {
		t.Errorf("an empty bucket: %+v, %v", found, err)
	}

	d.publish("team-a")
	d.publish("team-a", "team-b")
	d.put(allowlist.HeartbeatKey(readerGateway), d.beat(""))
	d.put(allowlist.HeartbeatKey(readerGateway), []byte("garbage"))
	for range 20 { // more than the history keeps
		d.publish("team-c")
	}
	d.put(allowlist.SnapshotKey(readerGateway), nil, "KV-Operation", "DEL")
	found, err := inspect()
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Snapshots) != 8 || len(found.Heartbeats) != 2 {
		t.Fatalf("%d snapshots and %d heartbeats", len(found.Snapshots), len(found.Heartbeats))
	}
	gone, newest := &found.Snapshots[0], &found.Snapshots[1]
	if gone.Operation != allowlist.OperationDelete || gone.Verified() || gone.Err != nil || gone.Sequence <= newest.Sequence {
		t.Errorf("the deletion is %+v", gone)
	}
	if !newest.Verified() || newest.Snapshot.Revision != 22 || newest.Snapshot.Namespaces.Len() != 1 || newest.Digest.IsZero() {
		t.Errorf("the newest list is %+v", newest)
	}
	garbage, beat := &found.Heartbeats[0], &found.Heartbeats[1]
	if garbage.Verified() || allowlist.CauseOf(garbage.Err) != allowlist.Malformed || !garbage.PublishedAt().IsZero() {
		t.Errorf("the garbage is %+v", garbage)
	}
	if !beat.Verified() || beat.Heartbeat.Revision != 2 {
		t.Errorf("the beat is %+v", beat)
	}
	for _, age := range []time.Duration{found.ServerAge(beat), found.LocalAge(beat)} {
		if age < -time.Millisecond || age > readerPatience {
			t.Errorf("the beat is %s old", age)
		}
	}
	poll(t, "no consumer left behind", func() bool {
		stream, err := d.js.Stream(t.Context(), allowkv.Stream)
		return err == nil && stream.CachedInfo().State.Consumers == 0
	})
}

// TestInspectNeedsAReadersRights: those of NATS reference 5.2 suffice, and without them it says so.
func TestInspectNeedsAReadersRights(t *testing.T) {
	t.Parallel()
	signer := allowkvtest.Signer(t)
	s, d, reader, stranger := twoAccounts(t, signer)
	d.publish("team-a")
	inspect := func(id identity) (allowkv.Inspection, error) {
		conn, _ := connect(t, s.URL(), id.asReader)
		ctx, cancel := context.WithTimeout(t.Context(), readerPatience)
		defer cancel()
		session, err := conn.Await(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return allowkv.Inspect(ctx, session.JetStream, keySet(t, signer), readerGateway)
	}
	if found, err := inspect(reader); err != nil || len(found.Snapshots) != 1 || !found.Snapshots[0].Verified() {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := inspect(stranger); !errors.Is(err, allowkv.ErrRefused) || !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("without rights: %v", err)
	}
}

func TestInspectRefusesAnEndlessBucket(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, s.URL(), signer)
	if _, err := d.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: allowkv.Stream, Subjects: []string{"$KV." + allowkv.Bucket + ".>"}}); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		d.put(allowlist.HeartbeatKey(readerGateway), []byte("x"))
	}
	if _, err := allowkv.Inspect(t.Context(), d.js, keySet(t, signer), readerGateway); err == nil || !strings.Contains(err.Error(), "300 messages") {
		t.Errorf("error %v", err)
	}
	if _, err := allowkv.Inspect(t.Context(), d.js, keySet(t, signer), "no..gateway"); err == nil {
		t.Error("an id that is not valid is accepted")
	}
}

// TestInspectWatch: records as they come, each once, over a restart of the server.
func TestInspectWatch(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, s.URL(), signer)
	d.bucket(1)
	d.publish("team-a")
	conn, _ := connect(t, s.URL(), func(*natsconn.Config) {})
	var mu sync.Mutex
	var revisions []uint64
	interruptions := 0
	inBackground(t, "the watch", func(ctx context.Context) error {
		return allowkv.InspectWatch(ctx, conn, keySet(t, signer), readerGateway, func(c allowkv.Change) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case c.Record == nil:
				interruptions++
			case c.Record.Verified():
				revisions = append(revisions, c.Record.Snapshot.Revision)
			default:
				revisions = append(revisions, 0)
			}
		})
	})
	reached := func(n int) {
		t.Helper()
		poll(t, "the records", func() bool { mu.Lock(); defer mu.Unlock(); return len(revisions) >= n })
	}
	reached(1)
	d.publish("team-b")
	reached(2)
	s.Restart()
	d.put(allowlist.SnapshotKey(readerGateway), []byte("garbage"))
	reached(3)
	d.publish("team-c")
	reached(4)
	mu.Lock()
	defer mu.Unlock()
	if want := []uint64{1, 2, 0, 3}; len(revisions) != 4 || revisions[0] != want[0] || revisions[1] != want[1] || revisions[2] != want[2] || revisions[3] != want[3] {
		t.Errorf("revisions %v, want %v", revisions, want)
	}
	if interruptions == 0 {
		t.Error("the restart was not reported")
	}
	if err := allowkv.InspectWatch(t.Context(), conn, keySet(t, signer), "", nil); err == nil {
		t.Error("no gateway is accepted")
	}
}
