package allowlist

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// store is a stream that keeps the newest message of each key, as the server does with a compare-and-set.
type store struct {
	sequence uint64
	keys     map[string]Stored
}

func newStore() *store { return &store{keys: map[string]Stored{}} }

// put stores unconditionally, which only tests do.
func (s *store) put(key string, operation Operation, value []byte) {
	s.sequence++
	s.keys[key] = Stored{Sequence: s.sequence, Operation: operation, Value: value}
}

// cas is the server's compare-and-set.
func (s *store) cas(w Write) Written {
	if s.keys[w.Key].Sequence != w.ExpectSequence {
		return Written{Result: WriteConflict, Err: errors.New("wrong last sequence")}
	}
	s.put(w.Key, OperationPut, w.Record)
	return Written{Result: WriteStored, Sequence: s.sequence}
}

func (s *store) look() Looked {
	return Looked{Snapshot: s.keys[SnapshotKey(gateway)], Heartbeat: s.keys[HeartbeatKey(gateway)]}
}

// writerTest drives a Writer against a store.
type writerTest struct {
	*clockwork
	t     testing.TB
	w     *Writer
	store *store
	list  []string
	order uint64
	plan  Plan
	// wrote is every write that was planned, in order.
	wrote []Write
	found []FindingKind
}

func testWriterConfig() WriterConfig {
	return WriterConfig{
		GatewayID: gateway, Name: "nswatch-0", Source: Source{Kind: SourceLabel, Selector: "a=b"}, Settings: testSettings(),
	}
}

func newWriterTest(t testing.TB, edits ...func(*WriterConfig)) *writerTest {
	t.Helper()
	return newTerm(t, newClockwork(time.Hour), newStore(), edits...)
}

// newTerm starts another term on the same clock and store.
func newTerm(t testing.TB, c *clockwork, s *store, edits ...func(*WriterConfig)) *writerTest {
	t.Helper()
	config := testWriterConfig()
	for _, edit := range edits {
		edit(&config)
	}
	signer := testSigner(t, 1)
	w, err := NewWriter(config, signer, testKeys(t, signer, testSigner(t, 2)))
	if err != nil {
		t.Fatal(err)
	}
	return &writerTest{clockwork: c, t: t, w: w, store: s, list: []string{"team-a"}}
}

// tell gives the writer an input and returns the action that it plans.
func (x *writerTest) tell(input Input) Action {
	x.t.Helper()
	x.plan = x.w.Step(x.at, input)
	for _, f := range x.plan.Findings {
		x.found = append(x.found, f.Kind)
	}
	if w, ok := x.plan.Action.(Write); ok {
		x.wrote = append(x.wrote, w)
	}
	return x.plan.Action
}

// listed is the source's list as of now.
func (x *writerTest) listed(kind ProofKind) Listed {
	x.order++
	entries := make([]Entry, len(x.list))
	for i, name := range x.list {
		entries[i] = Entry{Name: name, UID: "uid-" + name}
		if x.w.config.Source.Kind == SourceFile {
			entries[i].UID = ""
		}
	}
	list, err := NewList(entries)
	if err != nil {
		x.t.Fatal(err)
	}
	return Listed{List: list, Version: "v", Order: x.order, Kind: kind, ProvenAt: x.at.Mono}
}

func (x *writerTest) relistKind() ProofKind {
	if x.w.config.Source.Kind == SourceFile {
		return ProofFile
	}
	return ProofList
}

// run does what is planned, honestly, until nothing is.
func (x *writerTest) run(action Action) Action {
	x.t.Helper()
	for range 50 {
		switch a := action.(type) {
		case Look:
			action = x.tell(x.store.look())
		case Relist:
			action = x.tell(x.listed(x.relistKind()))
		case Write:
			action = x.tell(x.store.cas(a))
		default:
			return action
		}
	}
	x.t.Fatal("the writer never comes to rest")
	return nil
}

// lead takes the writer through take-over.
func (x *writerTest) lead() {
	x.t.Helper()
	if a := x.run(x.tell(Tick{})); a != nil || !x.w.Status(x.at).Leading {
		x.t.Fatalf("the writer does not lead: %v, %+v", a, x.w.Status(x.at))
	}
}

// wait passes time by the writer's own wake-ups, running honestly, and proves the source every two seconds when prove
// is true.
func (x *writerTest) wait(d time.Duration, prove bool) Action {
	x.t.Helper()
	end := x.at.Mono + d
	for {
		next := end
		if x.plan.Wake > 0 {
			next = min(next, x.plan.Wake)
		}
		next = min(next, x.at.Mono+2*time.Second)
		x.pass(next - x.at.Mono)
		if prove {
			x.run(x.tell(Proved{Kind: x.relistKind(), At: x.at.Mono}))
		}
		action := x.run(x.tell(Tick{}))
		if _, over := action.(End); over || x.at.Mono >= end {
			return action
		}
	}
}

func (x *writerTest) change(names ...string) Action {
	x.t.Helper()
	x.list = names
	return x.tell(x.listed(ProofWatch))
}

// snapshotOf and beatOf decode a planned write.
func (x *writerTest) snapshotOf(a Action) Snapshot {
	x.t.Helper()
	w, ok := a.(Write)
	if !ok || w.Key != SnapshotKey(gateway) || w.TTL != 0 {
		x.t.Fatalf("%#v is not the write of a snapshot", a)
	}
	s, _, err := OpenSnapshot(w.Record, x.w.keys, gateway)
	if err != nil {
		x.t.Fatal(err)
	}
	return s
}

func (x *writerTest) beatOf(a Action) Heartbeat {
	x.t.Helper()
	w, ok := a.(Write)
	if !ok || w.Key != HeartbeatKey(gateway) || w.TTL != DefaultSettings().HeartbeatTTL.Std() {
		x.t.Fatalf("%#v is not the write of a heartbeat", a)
	}
	h, err := OpenHeartbeat(w.Record, x.w.keys, gateway)
	if err != nil {
		x.t.Fatal(err)
	}
	return h
}

// beats are the heartbeats written since the mark.
func (x *writerTest) beats(since int) (hs []Heartbeat) {
	x.t.Helper()
	for _, w := range x.wrote[since:] {
		if w.Key == HeartbeatKey(gateway) {
			hs = append(hs, x.beatOf(w))
		}
	}
	return hs
}

// snapshots are the lists written since the mark.
func (x *writerTest) snapshots(since int) (ss []Snapshot) {
	x.t.Helper()
	for _, w := range x.wrote[since:] {
		if w.Key == SnapshotKey(gateway) {
			ss = append(ss, x.snapshotOf(w))
		}
	}
	return ss
}

func (x *writerTest) ended(a Action, cause EndCause) {
	x.t.Helper()
	if end, ok := a.(End); !ok || end.Cause != cause {
		x.t.Fatalf("planned %#v, want the end for %s", a, cause)
	}
	if again := x.tell(Tick{}); again != a {
		x.t.Fatalf("after the end %#v is planned", again)
	}
}

func (x *writerTest) reports(kind FindingKind) {
	x.t.Helper()
	if !slices.Contains(x.found, kind) {
		x.t.Errorf("%s was not found, only %v", kind, x.found)
	}
}
