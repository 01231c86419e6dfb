package allowlist

import (
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestReaderStartsClosed(t *testing.T) {
	x := newReaderTest(t)
	x.expect(unsynced())
	x.answers("team-a", verdict.Unsynced)
	x.wait(time.Second)
	x.expect(unsynced())
	if _, err := NewReader("a..b", testKeys(t, testSigner(t, 1)), testSettings(), Marks{}); err == nil {
		t.Error("a wrong gateway id is taken")
	}
	if _, err := NewReader(gateway, KeySet{}, testSettings(), Marks{}); err == nil {
		t.Error("a reader without keys is made")
	}
	if _, err := NewReader(gateway, testKeys(t, testSigner(t, 1)), Settings{}, Marks{}); err == nil {
		t.Error("settings without bounds are taken")
	}
	if _, err := NewReader(gateway, testKeys(t, testSigner(t, 1)), testSettings(), Marks{Epoch: 1}); err == nil {
		t.Error("half a mark is taken")
	}
}

// TestRecordsThatDoNotCount is rule R1.
func TestRecordsThatDoNotCount(t *testing.T) {
	for _, key := range []string{SnapshotKey(gateway), HeartbeatKey(gateway)} {
		x := newReaderTest(t)
		a := newAuthor(t, 5, x.at.Mono)
		x.open(a, 1, "team-a")
		before := x.r.View().deadline
		forged := newAuthor(t, 6, 0)
		forged.signer = testSigner(t, 9)
		value := forged.snapshot(1, x.at, "team-x")
		if key == HeartbeatKey(gateway) {
			value = forged.heartbeat(1, x.at)
		}
		x.put(key, value)
		x.finds(FoundRejected)
		if f := x.last.Findings[0]; f.Cause != UnknownKey || f.Key != key || f.Err == nil {
			t.Errorf("finding %+v", f)
		}
		x.expect(invalid())
		x.answers("team-a", verdict.Invalid)
		if x.r.Marks().Epoch != 5 {
			t.Error("a forged record moved the marks")
		}
		// Beats of the true writer do not help while the list's key is bad; a good record on it does.
		x.wait(time.Second)
		x.heartbeat(a, 1)
		if key == SnapshotKey(gateway) {
			x.expect(invalid())
			x.again(a, 1)
		}
		x.expect(fresh())
		if x.r.View().deadline <= before {
			t.Error("no new deadline")
		}
	}
}

func TestMessagesThatSayNothing(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	x.put("other.snapshot", a.snapshot(2, x.at))
	x.finds(FoundStray)
	x.put(gateway, nil)
	x.finds(FoundStray)
	x.expect(fresh())
	x.last = x.r.Step(x.at, Rebuilt{})
	x.finds()
	x.expect(fresh())
}

// TestKeysThatAreGone is rule R6: the end of Fresh, and never an empty list.
func TestKeysThatAreGone(t *testing.T) {
	events := map[string]Record{
		"delete": {Operation: OperationDelete}, "purge": {Operation: OperationPurge}, "expiry": {Operation: OperationExpire},
		"unknown operation": {Operation: OperationUnknown}, "operation of the future": {Operation: 77, Value: []byte("x")},
		"empty value": {Operation: OperationPut},
	}
	for name, event := range events {
		for _, key := range []string{SnapshotKey(gateway), HeartbeatKey(gateway)} {
			t.Run(name+" "+key, func(t *testing.T) {
				x := newReaderTest(t)
				a := newAuthor(t, 5, x.at.Mono)
				x.open(a, 1, "team-a")
				event.Key = key
				closed := withdrawn()
				if name == "expiry" && key == HeartbeatKey(gateway) {
					closed = stale() // the writer is silent, and nobody took anything away
				}
				x.last = x.r.Step(x.at, event)
				x.finds(FoundGone)
				x.expect(closed)
				x.answers("team-a", closed.Reason)
				x.answers("team-x", closed.Reason)
				x.wait(time.Second)
				if key == SnapshotKey(gateway) {
					x.heartbeat(a, 1)
					x.expect(closed)
					x.again(a, 1)
				} else {
					// The beat that was there before proves nothing any more.
					a.beats--
					x.heartbeat(a, 1)
					x.finds(FoundDuplicate)
					x.expect(closed)
					x.heartbeat(a, 1)
				}
				x.expect(fresh())
				x.answers("team-a", "")
			})
		}
	}
}

// TestNothingGoesBack is rule R2.
func TestNothingGoesBack(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(x *readerTest, a *author, old *author)
		want FindingKind
	}{
		"older epoch, snapshot":     {func(x *readerTest, _, old *author) { x.snapshot(old, 99, "team-x") }, FoundRollback},
		"older epoch, beat":         {func(x *readerTest, _, old *author) { x.heartbeat(old, 99) }, FoundRollback},
		"older revision, snapshot":  {func(x *readerTest, a, _ *author) { x.snapshot(a, 1, "team-x") }, FoundRollback},
		"older revision, beat":      {func(x *readerTest, a, _ *author) { x.heartbeat(a, 1) }, FoundRollback},
		"older beat":                {func(x *readerTest, a, _ *author) { x.heartbeat(a, 2, func(h *Heartbeat) { h.Beat = 1 }) }, FoundRollback},
		"same beat":                 {func(x *readerTest, a, _ *author) { x.heartbeat(a, 2, func(h *Heartbeat) { h.Beat = 2 }) }, FoundDuplicate},
		"newer beat, issued before": {func(x *readerTest, a, _ *author) { x.heartbeat(a, 2, func(h *Heartbeat) { h.Issued = 0 }) }, FoundRollback},
		"older beat, newer revision": {func(x *readerTest, a, _ *author) {
			x.heartbeat(a, 9, func(h *Heartbeat) { h.Beat = 1 })
		}, FoundRollback},
	} {
		t.Run(name, func(t *testing.T) {
			x := newReaderTest(t)
			a := newAuthor(t, 5, x.at.Mono)
			x.open(a, 2, "team-a")
			deadline, marks := x.r.View().deadline, x.r.Marks()
			x.wait(time.Second)
			c.do(x, a, newAuthor(t, 4, 0))
			x.finds(c.want)
			x.expect(fresh())
			x.answers("team-x", verdict.NotListed)
			if x.r.View().deadline != deadline || x.r.Marks() != marks {
				t.Errorf("deadline %s after %s, marks %v after %v", x.r.View().deadline, deadline, x.r.Marks(), marks)
			}
		})
	}
}

// TestForks is the other half of rule R2.
func TestForks(t *testing.T) {
	for name, fork := range map[string]func(x *readerTest, a *author){
		"snapshot": func(x *readerTest, a *author) { x.snapshot(a, 1, "team-a", "team-x") },
		"beat":     func(x *readerTest, a *author) { x.heartbeat(a, 1, func(h *Heartbeat) { h.Digest = Digest{1} }) },
		"old beat": func(x *readerTest, a *author) {
			x.heartbeat(a, 1, func(h *Heartbeat) { h.Digest, h.Beat = Digest{1}, 1 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newReaderTest(t)
			a := newAuthor(t, 5, x.at.Mono)
			x.open(a, 1, "team-a")
			good := a.lists[1]
			fork(x, a)
			x.finds(FoundFork)
			if !x.last.Persist {
				t.Error("a fork is not persisted")
			}
			x.expect(forked())
			x.answers("team-a", verdict.Forked)
			// Neither what was there before nor a higher revision of the epoch ends it.
			a.lists[1] = good
			x.wait(time.Second)
			x.heartbeat(a, 1)
			x.expect(forked())
			x.snapshot(a, 2, "team-a")
			x.heartbeat(a, 2)
			x.expect(forked())
			// Nor does a restart.
			x.r = testReader(t, x.r.Marks())
			x.wait(time.Second)
			x.heartbeat(a, 2)
			x.expect(forked())
			// A higher epoch does, and nothing of the fork comes back on the way.
			b := newAuthor(t, 6, x.at.Mono)
			x.snapshot(b, 3, "team-a")
			x.expect(unsynced())
			x.heartbeat(b, 3)
			x.expect(unsynced())
			x.wait(time.Second)
			x.heartbeat(b, 3)
			x.expect(fresh())
		})
	}
}

// TestFreshNeedsAllThree is rule R3: the same epoch, revision and digest, and a deadline that is ahead.
func TestFreshNeedsAllThree(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.snapshot(a, 1, "team-a")
	x.expect(unsynced())
	x.open(a, 1, "team-a")
	if a := x.answers("team-a", ""); a.Epoch != 5 || a.Revision != 1 || !a.Proven || a.Age != 0 || a.UID != "uid-team-a" || a.Namespace != "team-a" {
		t.Errorf("answer %+v", a)
	}
	x.answers("team-b", verdict.NotListed)
	x.wait(15*time.Second - 1)
	x.answers("team-a", "")
	x.wait(1)
	x.finds()
	if a := x.answers("team-a", verdict.Stale); a.Age != 15*time.Second {
		t.Errorf("age %s", a.Age)
	}
	if !x.last.Resync {
		t.Error("a missed deadline asks for no resynchronization")
	}
	// In the same epoch one beat that is not late is enough.
	x.heartbeat(a, 1)
	x.expect(fresh())
}

// TestLateBeatsExtendNothing is the core of rule R3: a beat counts from its issue.
func TestLateBeatsExtendNothing(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	deadline := x.r.View().deadline
	delayed := a.heartbeat(1, x.at)
	x.wait(14 * time.Second)
	x.put(HeartbeatKey(gateway), delayed)
	x.finds(FoundLate)
	if moved := x.r.View().deadline - deadline; moved > 14*time.Second/maxDrift {
		t.Errorf("a beat that was 14s on its way moved the deadline by %s", moved)
	}
	// However steadily: each second a beat arrives, each 16s old.
	for range 40 {
		b := a.heartbeat(1, Instant{Mono: x.at.Mono - 15*time.Second, Wall: x.at.Wall})
		x.wait(time.Second)
		x.put(HeartbeatKey(gateway), b)
	}
	x.expect(stale())
}

// TestColdStart is rule R4.
func TestColdStart(t *testing.T) {
	far := func(d time.Duration) func(*Heartbeat) {
		return func(h *Heartbeat) { h.PublishedAt = h.PublishedAt.Add(d) }
	}
	for name, c := range map[string]struct {
		second time.Duration
		edit   func(*Heartbeat)
		want   Condition
	}{
		"one interval apart":           {time.Second, func(*Heartbeat) {}, fresh()},
		"too close":                    {time.Second - time.Millisecond, func(*Heartbeat) {}, unsynced()},
		"within the skew, behind":      {time.Second, far(-30 * time.Second), fresh()},
		"within the skew, ahead":       {time.Second, far(30 * time.Second), fresh()},
		"beyond the skew, behind":      {time.Second, far(-30*time.Second - time.Millisecond), unsynced()},
		"beyond the skew, ahead":       {time.Second, far(30*time.Second + time.Millisecond), unsynced()},
		"wall clock wrong by 10m":      {time.Second, far(10 * time.Minute), unsynced()},
		"issued closer than received":  {time.Second, func(h *Heartbeat) { h.Issued = min(h.Issued, 999*time.Millisecond) }, unsynced()},
		"issued further than received": {900 * time.Millisecond, func(h *Heartbeat) { h.Issued *= 2 }, unsynced()},
	} {
		t.Run(name, func(t *testing.T) {
			x := newReaderTest(t)
			a := newAuthor(t, 5, x.at.Mono)
			x.snapshot(a, 1, "team-a")
			x.heartbeat(a, 1, c.edit)
			x.expect(unsynced())
			x.wait(c.second)
			x.heartbeat(a, 1, c.edit)
			x.expect(c.want)
			if x.last.found(FoundSkew) != (name[:6] == "beyond" || name[:4] == "wall") {
				t.Errorf("findings %v", x.last.Findings)
			}
		})
	}
}

// TestRecordedStreamIsNotReplayed: what was recorded earlier opens no reader without memory.
func TestRecordedStreamIsNotReplayed(t *testing.T) {
	recorded := newClockwork(time.Hour)
	a := newAuthor(t, 5, recorded.at.Mono)
	var stream [][]byte
	list := a.snapshot(1, recorded.at, "team-a")
	for range 20 {
		stream = append(stream, a.heartbeat(1, recorded.at))
		recorded.pass(time.Second)
	}
	x := newReaderTest(t)
	x.step(time.Minute)
	x.put(SnapshotKey(gateway), list)
	for _, b := range stream {
		x.put(HeartbeatKey(gateway), b)
		x.wait(time.Second)
		x.expect(unsynced())
	}
}
