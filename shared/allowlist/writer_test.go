package allowlist

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNewWriterRefuses(t *testing.T) {
	signer := testSigner(t, 1)
	keys := testKeys(t, signer)
	for name, c := range map[string]struct {
		edit   func(*WriterConfig)
		signer *Signer
		keys   KeySet
	}{
		"gateway":            {func(c *WriterConfig) { c.GatewayID = "" }, signer, keys},
		"name":               {func(c *WriterConfig) { c.Name = "a b" }, signer, keys},
		"no source":          {func(c *WriterConfig) { c.Source = Source{} }, signer, keys},
		"label with a path":  {func(c *WriterConfig) { c.Source.Path = "/x" }, signer, keys},
		"no bounds":          {func(c *WriterConfig) { c.Settings = Settings{} }, signer, keys},
		"no epoch left":      {func(c *WriterConfig) { c.EpochFloor = maxWhole }, signer, keys},
		"no signer":          {func(*WriterConfig) {}, nil, keys},
		"zero signer":        {func(*WriterConfig) {}, &Signer{}, keys},
		"foreign public key": {func(*WriterConfig) {}, signer, testKeys(t, testSigner(t, 2))},
	} {
		config := testWriterConfig()
		c.edit(&config)
		if _, err := NewWriter(config, c.signer, c.keys); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestTakeOverOrder is rule W2: look, list afresh, fencing write, beat; and W1: every write says what it expects.
func TestTakeOverOrder(t *testing.T) {
	x := newWriterTest(t)
	x.store.sequence = 100
	if a := x.tell(Tick{}); a != (Look{}) {
		t.Fatalf("first %#v, want a look", a)
	}
	// A list from before the look is not fresh.
	early := x.listed(ProofList)
	x.pass(time.Second)
	if a := x.tell(early); a != nil {
		t.Fatalf("while looking %#v", a)
	}
	if a := x.tell(x.store.look()); a != (Relist{}) {
		t.Fatalf("after the look %#v, want a relist", a)
	}
	x.pass(time.Second)
	// Neither is a watch event, however new, nor a list that was asked for before.
	if a := x.tell(x.listed(ProofWatch)); a != nil {
		t.Fatalf("after a watch event %#v", a)
	}
	before := x.listed(ProofList)
	before.ProvenAt -= 2 * time.Second
	if a := x.tell(before); a != (Relist{}) {
		t.Fatalf("after a list from before the look %#v, want a relist", a)
	}
	// One that is older than what is known is refused, and asked for again after an interval.
	old := x.listed(ProofList)
	old.Order = 0
	if a := x.tell(old); a != nil {
		t.Fatalf("after an older list %#v", a)
	}
	x.reports(FoundOldList)
	x.pass(time.Second)
	if a := x.tell(Tick{}); a != (Relist{}) {
		t.Fatalf("an interval after an older list %#v, want a relist", a)
	}
	w := x.tell(x.listed(ProofList))
	s := x.snapshotOf(w)
	if s.Epoch != uint64(x.at.Wall.Add(-2*time.Second).UnixMilli()) || s.Revision != 1 || !s.Previous.IsZero() || s.Writer != "nswatch-0" ||
		s.Source != (Source{Kind: SourceLabel, Selector: "a=b", Version: "v"}) || w.(Write).ExpectSequence != 0 {
		t.Errorf("fencing write %+v expects %d", s, w.(Write).ExpectSequence)
	}
	if a := x.tell(Tick{}); a != nil {
		t.Fatalf("before the fencing write is acknowledged: %#v", a)
	}
	x.pass(20 * time.Millisecond)
	b := x.beatOf(x.tell(x.store.cas(w.(Write))))
	want := Heartbeat{
		GatewayID: gateway, Epoch: s.Epoch, Revision: 1, Digest: digestOf(x.payload(w)), Beat: 1, Issued: 2020 * time.Millisecond,
		PublishedAt: stampTime(x.at.Wall), Writer: "nswatch-0", Proof: Proof{Kind: ProofList, Age: 20 * time.Millisecond}, TTL: 15 * time.Second,
	}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("first beat (-want +got):\n%s", diff)
	}
}

// payload is the plain payload of a write.
func (x *writerTest) payload(a Action) []byte {
	x.t.Helper()
	payload, _, err := openPayload(kindSnapshot, a.(Write).Record, x.w.keys)
	if err != nil {
		x.t.Fatal(err)
	}
	return payload
}

// TestEpochs is the epoch of rule W2, and W3 across epochs.
func TestEpochs(t *testing.T) {
	now := uint64(wallStart.UnixMilli())
	for name, c := range map[string]struct {
		snapshot, heartbeat, floor uint64 // epochs found
		wall                       time.Time
		want                       uint64
	}{
		"nothing found":             {0, 0, 0, wallStart, now},
		"older found":               {5, 4, 0, wallStart, now},
		"newer than the wall clock": {now + 50, now + 50, 0, wallStart, now + 51},
		"newer in the heartbeat":    {now + 50, now + 60, 0, wallStart, now + 61},
		"floor":                     {5, 5, now + 7, wallStart, now + 8},
		"wall clock before 1970":    {5, 5, 0, time.Unix(-9, 0), 6},
		"no wall clock":             {0, 0, 0, time.Time{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := newWriterTest(t, func(c2 *WriterConfig) { c2.EpochFloor = c.floor })
			x.at.Wall = c.wall
			a := newAuthor(t, c.snapshot, 0)
			if c.snapshot > 0 {
				x.store.put(SnapshotKey(gateway), OperationPut, a.snapshot(40, Instant{Wall: wallStart}, "team-z"))
				b := newAuthor(t, c.heartbeat, 0)
				b.lists = a.lists
				x.store.put(HeartbeatKey(gateway), OperationPut, b.heartbeat(40, Instant{Wall: wallStart}))
			}
			if a := x.run(x.tell(Tick{})); c.wall.Year() < 1970 {
				// The epoch is well chosen; a record with that wall clock cannot be made.
				if end, ok := a.(End); !ok || end.Cause != EndDefect || x.w.Epoch() != c.want {
					t.Errorf("%#v, epoch %d, want %d", a, x.w.Epoch(), c.want)
				}
				return
			}
			s := x.snapshots(0)[0]
			if s.Epoch != c.want {
				t.Errorf("epoch %d, want %d", s.Epoch, c.want)
			}
			if c.snapshot > 0 && (s.Revision != 41 || s.Previous != a.lists[40] ||
				c.heartbeat == c.snapshot && (len(s.Changes.Removed) != 1 || s.Changes.Removed[0] != "team-z")) {
				t.Errorf("revision %d after %s with %+v", s.Revision, s.Previous, s.Changes)
			}
		})
	}
}

func TestNoEpochIsLeft(t *testing.T) {
	x := newWriterTest(t)
	a := newAuthor(t, maxWhole, 0)
	x.store.put(SnapshotKey(gateway), OperationPut, a.snapshot(1, x.at))
	x.ended(x.run(x.tell(Tick{})), EndDefect)
}

// TestTamperingIsOverwritten: what does not verify has no epoch (rule W2).
func TestTamperingIsOverwritten(t *testing.T) {
	forger := newAuthor(t, maxWhole-1, 0)
	forger.signer = testSigner(t, 9)
	x := newWriterTest(t)
	x.store.put(SnapshotKey(gateway), OperationPut, forger.snapshot(maxWhole-1, x.at, "team-x"))
	x.store.put(HeartbeatKey(gateway), OperationPut, []byte("{}"))
	x.lead()
	x.reports(FoundRejected)
	if s := x.snapshots(0); len(s) != 1 || s[0].Revision != 1 || x.wrote[0].ExpectSequence != 1 || x.wrote[1].ExpectSequence != 2 {
		t.Errorf("%d snapshots, the first of revision %d; expects %d and %d", len(s), s[0].Revision, x.wrote[0].ExpectSequence, x.wrote[1].ExpectSequence)
	}
}

// TestForeignRecords: what a leader does about records of others that it meets (rule W2).
func TestForeignRecords(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		epoch func(own uint64) uint64
		end   EndCause // zero: put right
	}{
		"higher epoch, snapshot":  {SnapshotKey(gateway), func(e uint64) uint64 { return e + 1 }, EndSuperseded},
		"higher epoch, heartbeat": {HeartbeatKey(gateway), func(e uint64) uint64 { return e + 1 }, EndSuperseded},
		"same epoch, snapshot":    {SnapshotKey(gateway), func(e uint64) uint64 { return e }, EndSplit},
		"same epoch, heartbeat":   {HeartbeatKey(gateway), func(e uint64) uint64 { return e }, EndSplit},
		"lower epoch, snapshot":   {SnapshotKey(gateway), func(e uint64) uint64 { return e - 1 }, 0},
		"lower epoch, heartbeat":  {HeartbeatKey(gateway), func(e uint64) uint64 { return e - 1 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x := newWriterTest(t)
			x.lead()
			own := x.store.keys[SnapshotKey(gateway)].Value
			mark := len(x.wrote)
			a := newAuthor(t, c.epoch(x.w.Epoch()), 0)
			list := a.snapshot(99, x.at, "team-z")
			if c.key == SnapshotKey(gateway) {
				x.store.put(c.key, OperationPut, list)
			} else {
				x.store.put(c.key, OperationPut, a.heartbeat(99, x.at))
			}
			action := x.wait(6*time.Second, true)
			if c.end != 0 {
				x.ended(action, c.end)
				return
			}
			x.reports(FoundForeign)
			if got := x.store.keys[SnapshotKey(gateway)].Value; string(got) != string(own) {
				t.Error("the list in the store is not this writer's")
			}
			if h, err := OpenHeartbeat(x.store.keys[HeartbeatKey(gateway)].Value, x.w.keys, gateway); err != nil || h.Epoch != x.w.Epoch() {
				t.Errorf("the heartbeat in the store: %+v, %v", h, err)
			}
			for _, s := range x.snapshots(mark) {
				if s.Revision != 1 {
					t.Errorf("the same list became revision %d", s.Revision)
				}
			}
		})
	}
}

func TestLeaseLostEndsAtOnce(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.pass(time.Second)
	if _, ok := x.tell(Tick{}).(Write); !ok {
		t.Fatal("no beat")
	}
	x.ended(x.tell(LeaseLost{}), EndLeaseLost)
}

func TestWriterClocks(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*clockwork)
		ends bool
	}{
		"sleep":           {func(c *clockwork) { c.sleep(2 * time.Second) }, true},
		"clock goes back": {func(c *clockwork) { c.at.Mono -= time.Second }, true},
		"wall steps":      {func(c *clockwork) { c.step(time.Hour) }, true},
		"a little":        {func(c *clockwork) { c.step(2 * time.Second) }, true},
		"hardly":          {func(c *clockwork) { c.step(time.Second) }, false},
		"stall and step":  {func(c *clockwork) { c.pass(time.Minute); c.step(2 * time.Second) }, true},
		"wall steps back": {func(c *clockwork) { c.step(-time.Hour) }, false},
		"stall":           {func(c *clockwork) { c.pass(20 * time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newWriterTest(t)
			x.lead()
			mark := len(x.wrote)
			c.do(x.clockwork)
			action := x.run(x.tell(Tick{}))
			if c.ends {
				x.ended(action, EndClock)
				return
			}
			if name == "stall" && len(x.beats(mark)) > 0 {
				t.Error("beats on a proof of long ago")
			}
			x.wait(2*time.Second, true)
			if len(x.beats(mark)) == 0 {
				t.Error("the writer is silent")
			}
		})
	}
}

func TestDoubtAtTakeOver(t *testing.T) {
	x := newWriterTest(t)
	x.tell(Tick{})
	if a := x.tell(LookFailed{Err: errors.New("timeout")}); a != nil {
		t.Fatalf("right after a failed look %#v", a)
	}
	x.reports(FoundDoubt)
	x.pass(250 * time.Millisecond)
	if a := x.tell(Tick{}); a != (Look{}) {
		t.Fatalf("a quarter of an interval later %#v", a)
	}
	if a := x.tell(x.store.look()); a != (Relist{}) {
		t.Fatalf("%#v", a)
	}
	if a := x.tell(SourceFailed{Err: errors.New("refused")}); a != nil {
		t.Fatalf("right after a failed list %#v", a)
	}
	x.pass(time.Second)
	if a := x.tell(Tick{}); a != (Relist{}) {
		t.Fatalf("an interval later %#v", a)
	}
	if got := x.w.Status(x.at); got.Leading || got.Beats != 0 {
		t.Errorf("status %+v", got)
	}
}
