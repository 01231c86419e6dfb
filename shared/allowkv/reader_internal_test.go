package allowkv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

const innerGateway = "gw-1"

// noConnection is never connected.
type noConnection struct{}

func (noConnection) Session() (natsconn.Session, <-chan struct{}) {
	return natsconn.Session{Err: errors.New("never")}, nil
}

// still is a Reader whose owner is driven by the test, at instants that the test sets.
type still struct {
	*Reader
	t      testing.TB
	signer *allowlist.Signer
	began  allowlist.Instant
	source *generation
	digest allowlist.Digest
	beats  uint64
	// revision is that of the next list, less one.
	revision uint64
}

func newStill(t testing.TB, dir string) *still { return newStillFor(t, dir, 3*time.Second) }

func newStillFor(t testing.TB, dir string, staleness time.Duration) *still {
	t.Helper()
	signer, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "keys")
	if err := os.WriteFile(path, []byte(signer.Public().FileLine()), 0o600); err != nil {
		t.Fatal(err)
	}
	return stillWith(t, signer, path, staleness)
}

func stillWith(t testing.TB, signer *allowlist.Signer, keys string, staleness time.Duration) *still {
	t.Helper()
	cfg := DefaultConfig()
	cfg.PublicKeysFile = keys
	cfg.MaxStaleness = driverconf.Duration(staleness)
	cfg.StopGrace, cfg.HeartbeatTTL = 0, driverconf.Duration(2*time.Second)
	r, err := NewReader(ReaderConfig{GatewayID: innerGateway, Name: "test", Config: cfg}, noConnection{}, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	x := &still{Reader: r, t: t, signer: signer, source: newGeneration(filterOf(innerGateway), jetstream.DeliverLastPerSubjectPolicy)}
	x.began = r.owner.clock()
	r.owner.take(feedEvent{generation: x.source, at: x.began})
	return x
}

// at is an instant after the beginning.
func (x *still) at(d time.Duration) allowlist.Instant {
	i := x.began
	i.Mono, i.Wall, i.Boot = i.Mono+d, i.Wall.Add(d), i.Boot+d
	return i
}

func (x *still) deliver(d time.Duration, key string, header nats.Header, value []byte) {
	x.owner.take(feedEvent{generation: x.source, at: x.at(d), message: &message{key: key, operation: operation(header, value), value: value}})
}

func (x *still) list(names ...string) []byte {
	x.t.Helper()
	var entries []allowlist.Entry
	for _, name := range names {
		entries = append(entries, allowlist.Entry{Name: name, UID: "uid-" + name})
	}
	list, err := allowlist.NewList(entries)
	if err != nil {
		x.t.Fatal(err)
	}
	record, digest, err := allowlist.SealSnapshot(allowlist.Snapshot{
		GatewayID: innerGateway, Epoch: 5, Revision: 1 + x.revision, Writer: "w", PublishedAt: x.began.Wall.UTC().Truncate(time.Millisecond),
		Source: allowlist.Source{Kind: allowlist.SourceLabel, Selector: "a=b", Version: "1"}, Namespaces: list,
	}, x.signer)
	if err != nil {
		x.t.Fatal(err)
	}
	x.digest = digest
	return record
}

func (x *still) beat(d time.Duration) []byte {
	x.t.Helper()
	x.beats++
	record, err := allowlist.SealHeartbeat(allowlist.Heartbeat{
		GatewayID: innerGateway, Epoch: 5, Revision: 1, Digest: x.digest, Beat: x.beats, Issued: d,
		PublishedAt: x.at(d).Wall.UTC().Truncate(time.Millisecond), Writer: "w", Proof: allowlist.Proof{Kind: allowlist.ProofList}, TTL: time.Second,
	}, x.signer)
	if err != nil {
		x.t.Fatal(err)
	}
	return record
}

// open makes the reader Fresh with these names, by beats at 0 and 1 s.
func (x *still) open(names ...string) {
	x.t.Helper()
	x.deliver(0, allowlist.SnapshotKey(innerGateway), nil, x.list(names...))
	x.deliver(0, allowlist.HeartbeatKey(innerGateway), nil, x.beat(0))
	x.deliver(time.Second, allowlist.HeartbeatKey(innerGateway), nil, x.beat(time.Second))
	if x.state(time.Second) != allowlist.Fresh {
		x.t.Fatalf("the reader is not open: %v", x.Ready(x.t.Context()))
	}
}

func (x *still) state(d time.Duration) allowlist.State { return x.view.Load().Condition(x.at(d)).State }

// FuzzReaderStep: whatever bytes and headers come on whatever key, nothing is extended and nothing is granted.
func FuzzReaderStep(f *testing.F) {
	model := newStill(f, f.TempDir())
	list, first, second := model.list("team-a"), model.beat(0), model.beat(time.Second)
	f.Add(uint8(0), "", "", list)
	f.Add(uint8(1), "", "", first)
	f.Add(uint8(1), "", "", second)
	f.Add(uint8(0), headerOperation, "DEL", []byte(nil))
	f.Add(uint8(1), headerMarker, "MaxAge", []byte(nil))
	f.Add(uint8(1), headerRollup, "all", second)
	f.Add(uint8(2), "Nats-Sequence", "9", []byte(`{"payload":{}}`))
	keys := []string{allowlist.SnapshotKey(innerGateway), allowlist.HeartbeatKey(innerGateway), "", "a.snapshot"}
	f.Fuzz(func(t *testing.T, key uint8, name, text string, value []byte) {
		x := stillWith(t, model.signer, model.owner.keys.path, 3*time.Second)
		x.deliver(0, keys[0], nil, list)
		x.deliver(0, keys[1], nil, first)
		x.deliver(time.Second, keys[1], nil, second)
		const deadline = 4 * time.Second // of the second beat
		if x.state(time.Second) != allowlist.Fresh || x.state(deadline-time.Millisecond) != allowlist.Fresh {
			t.Fatalf("the reader is not open: %v", x.Ready(t.Context()))
		}
		x.deliver(2*time.Second, keys[int(key)%len(keys)], nats.Header{name: {text}}, value)
		if x.state(deadline) == allowlist.Fresh {
			t.Error("the deadline moved")
		}
		if x.view.Load().Check("team-x", x.at(2*time.Second)).Allowed() {
			t.Error("a name that is not listed is granted")
		}
		if marks := x.owner.machine.Marks(); marks.Epoch != 5 || marks.Revision != 1 || marks.Beat != 2 {
			t.Errorf("the marks are %+v", marks)
		}
	})
}

// TestEventsOfThePast: a message that waited behind a tick is no broken clock, and one of a consumer that was thrown
// away is none at all.
func TestEventsOfThePast(t *testing.T) {
	x := newStill(t, t.TempDir())
	x.deliver(0, allowlist.SnapshotKey(innerGateway), nil, x.list("team-a"))
	x.deliver(0, allowlist.HeartbeatKey(innerGateway), nil, x.beat(0))
	x.owner.step(x.at(1100*time.Millisecond), allowlist.Tick{})
	x.deliver(time.Second, allowlist.HeartbeatKey(innerGateway), nil, x.beat(time.Second))
	if got := x.state(1100 * time.Millisecond); got != allowlist.Fresh {
		t.Errorf("the state is %s after a message behind a tick", got)
	}
	old := x.source
	x.owner.take(feedEvent{generation: newGeneration("f", jetstream.DeliverAllPolicy), at: x.at(1200 * time.Millisecond)})
	x.source = old
	x.deliver(1300*time.Millisecond, allowlist.SnapshotKey(innerGateway), nil, []byte("garbage"))
	if got := x.state(1300 * time.Millisecond); got != allowlist.Fresh {
		t.Errorf("the state is %s after a message of an old consumer", got)
	}
}

func TestOperation(t *testing.T) {
	for _, c := range []struct {
		name, header, text, value string
		want                      allowlist.Operation
	}{
		{"put", "", "", "v", allowlist.OperationPut},
		{"unrelated header", "Nats-Expected-Last-Subject-Sequence", "7", "v", allowlist.OperationPut},
		{"empty", "", "", "", allowlist.OperationUnknown},
		{"delete", headerOperation, "DEL", "", allowlist.OperationDelete},
		{"delete with a value", headerOperation, "DEL", "v", allowlist.OperationDelete},
		{"purge", headerOperation, "PURGE", "", allowlist.OperationPurge},
		{"another operation", headerOperation, "PUT", "v", allowlist.OperationUnknown},
		{"expiry", headerMarker, "MaxAge", "", allowlist.OperationExpire},
		{"marker of a purge", headerMarker, "Purge", "", allowlist.OperationPurge},
		{"marker of a removal", headerMarker, "Remove", "", allowlist.OperationDelete},
		{"another marker", headerMarker, "x", "v", allowlist.OperationUnknown},
		{"rollup", headerRollup, "sub", "v", allowlist.OperationUnknown},
	} {
		header := nats.Header{}
		if c.header != "" {
			header.Set(c.header, c.text)
		}
		if got := operation(header, []byte(c.value)); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
	if got := operation(nil, []byte("v")); got != allowlist.OperationPut {
		t.Errorf("no header is %s", got)
	}
}

// TestKeysOfOneGateway: no filter selects keys of a gateway whose id it begins, or of which it is an ending.
func TestKeysOfOneGateway(t *testing.T) {
	for _, gateway := range []string{"a", "a.b", "b", "a.snapshot"} {
		for _, other := range []string{"a", "a.b", "b", "a.snapshot"} {
			for _, key := range keys(other) {
				rest, ok := strings.CutPrefix(subject(key), strings.TrimSuffix(filterOf(gateway), "*"))
				selected := ok && rest != "" && !strings.Contains(rest, ".")
				if selected && gateway != other {
					t.Errorf("%s selects %s", filterOf(gateway), key)
				}
				if !selected && gateway == other {
					t.Errorf("%s does not select %s", filterOf(gateway), key)
				}
			}
		}
	}
}

func TestEpisodes(t *testing.T) {
	var l readerLog
	a, b := episode{kind: "a"}, episode{kind: "b"}
	for i, c := range []struct {
		e     episode
		text  string
		at    time.Duration
		held  int
		first bool
	}{
		{a, "x", 0, 0, true},
		{a, "x", time.Second, 0, false},
		{b, "x", time.Second, 0, true},
		{a, "x", 59 * time.Second, 0, false},
		{a, "x", 100 * time.Second, 0, false}, // it never stopped for long enough
		{a, "x", 161 * time.Second, 3, true},
		{a, "x", 300 * time.Second, 0, true},
		{a, "x", 301 * time.Second, 0, false},
		{a, "y", 302 * time.Second, 1, true}, // another cause
		{a, "x", 302*time.Second + 1, 0, false},
		{a, "x", 303 * time.Second, 1, true},
	} {
		if held, first := l.first(c.e, c.text, c.at); held != c.held || first != c.first {
			t.Errorf("step %d: %d and %v, want %d and %v", i, held, first, c.held, c.first)
		}
	}
}

func TestMarksFile(t *testing.T) {
	dir := t.TempDir()
	f := newMarksFile(dir, "test", innerGateway)
	if m, err := f.load(); err != nil || m != (allowlist.Marks{}) {
		t.Fatalf("no file gives %+v, %v", m, err)
	}
	want := allowlist.Marks{Epoch: 7, Revision: 9, Digest: allowlist.Digest{1}, Beat: 3, Forked: true}
	for range 2 { // new, and over an old one
		want.Beat++
		if err := f.store(want); err != nil {
			t.Fatal(err)
		}
		if got, err := f.load(); err != nil || got != want {
			t.Fatalf("stored %+v, loaded %+v, %v", want, got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	other := newMarksFile(dir, "test", "gw-2")
	if err := os.Rename(f.path, other.path); err != nil {
		t.Fatal(err)
	}
	if m, err := other.load(); err == nil || m != (allowlist.Marks{}) {
		t.Errorf("marks of another gateway give %+v, %v", m, err)
	}
	none := newMarksFile("", "test", innerGateway)
	if err := none.store(want); err != nil {
		t.Errorf("no directory: %v", err)
	}
}

func BenchmarkCheck(b *testing.B) {
	x := newStillFor(b, b.TempDir(), 10*time.Minute) // every answer is a yes, however long it runs
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("team-%05d", i))
	}
	x.deliver(0, allowlist.SnapshotKey(innerGateway), nil, x.list(names...))
	x.deliver(0, allowlist.HeartbeatKey(innerGateway), nil, x.beat(0))
	x.deliver(time.Second, allowlist.HeartbeatKey(innerGateway), nil, x.beat(time.Second))
	b.ReportAllocs()
	// Few names, so that it is Check that is measured and not the memory behind the names.
	asked := names[:64]
	for i := 0; b.Loop(); i++ {
		if a := x.Check(asked[i%len(asked)]); !a.Allowed() {
			b.Fatalf("%+v", a)
		}
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	x := newStillFor(t, t.TempDir(), 10*time.Minute)
	x.open("team-a")
	for name, want := range map[string]bool{"team-a": true, "team-b": false} {
		got := false
		if n := testing.AllocsPerRun(100, func() { got = x.Check(name).Allowed() }); n != 0 {
			t.Errorf("Check(%q) allocates %v times", name, n)
		}
		if got != want {
			t.Errorf("Check(%q) is %v", name, got)
		}
	}
}
