package allowlist

import (
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestNewListNarrowsAtOnce: between a new list and the beat that vouches for it, only what both lists hold is granted.
func TestNewListNarrowsAtOnce(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "kept", "removed")
	x.snapshot(a, 2, "added", "kept")
	x.expect(fresh())
	if got := x.answers("kept", ""); got.Revision != 2 {
		t.Errorf("a yes of revision %d", got.Revision)
	}
	if got := x.answers("removed", verdict.NotListed); got.Revision != 2 {
		t.Errorf("a no of revision %d", got.Revision)
	}
	x.answers("added", verdict.Behind)
	x.answers("neither", verdict.NotListed)
	// Beats for the list before are over.
	x.wait(time.Second)
	deadline := x.r.View().deadline
	x.heartbeat(a, 1)
	x.finds(FoundRollback)
	if x.r.View().deadline != deadline {
		t.Error("a beat for the list before moved the deadline")
	}
	a.beats--
	x.heartbeat(a, 2)
	x.answers("added", "")
	x.answers("removed", verdict.NotListed)
	// Without the beat, the old deadline closes.
	x.snapshot(a, 3, "added", "kept")
	x.wait(15 * time.Second)
	x.answers("kept", verdict.Stale)
}

// TestRecreatedNamespaceIsAnother: the uid is part of what is granted.
func TestRecreatedNamespaceIsAnother(t *testing.T) {
	old := &View{
		condition: fresh(), stamp: stamp{5, 2}, vouched: true, deadline: time.Hour, wall: time.Duration(wallStart.UnixNano()),
		proven: map[string]string{"a": "uid-1"}, pending: map[string]string{"a": "uid-2"},
	}
	if got := old.Check("a", Instant{Wall: wallStart}); got.Allowed() || got.Reason != verdict.Behind {
		t.Errorf("a namespace whose uid changed: %+v", got)
	}
	old.pending["a"] = "uid-1"
	if got := old.Check("a", Instant{Wall: wallStart}); !got.Allowed() || got.UID != "uid-1" {
		t.Errorf("the same uid: %+v", got)
	}
}

// TestTakeOverKeepsTheGateOpen: a new epoch passes the trial of rule R4 while the proof of the old one lasts (W10).
func TestTakeOverKeepsTheGateOpen(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a", "team-b")
	x.wait(3 * time.Second)
	b := newAuthor(t, 6, x.at.Mono)
	x.snapshot(b, 2, "team-a", "team-c")
	if !x.last.Persist {
		t.Error("a new epoch is not persisted before it is used")
	}
	x.answers("team-a", "")
	x.answers("team-b", verdict.NotListed)
	x.heartbeat(b, 2)
	x.expect(fresh())
	x.answers("team-c", verdict.Behind)
	x.wait(time.Second)
	x.answers("team-a", "")
	x.heartbeat(b, 2)
	x.answers("team-c", "")
	// The writer before is a zombie now.
	x.heartbeat(a, 1)
	x.finds(FoundRollback)
}

// TestTakeOverThatFailsTheTrial: the old proof is not extended, and the new epoch proves nothing.
func TestTakeOverThatFailsTheTrial(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	deadline := x.r.View().deadline
	b := newAuthor(t, 6, x.at.Mono)
	x.snapshot(b, 2, "team-a")
	for range 20 {
		x.heartbeat(b, 2, func(h *Heartbeat) { h.PublishedAt = h.PublishedAt.Add(-time.Minute) })
		x.finds(FoundSkew)
		if x.r.View().deadline != deadline {
			t.Fatal("the deadline moved")
		}
		x.wait(time.Second)
		x.heartbeat(a, 1)
	}
	x.expect(stale())
}

// TestBehind is rule R5.
func TestBehind(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	list := a.snapshot(2, x.at, "team-a", "team-b")
	x.heartbeat(a, 2)
	x.finds(FoundBehind)
	x.expect(behind())
	x.answers("team-a", verdict.Behind)
	if x.last.Resync {
		t.Error("a resynchronization is asked for at once")
	}
	// If it lasts, resynchronize: after two intervals, and every two intervals.
	asked := 0
	for range 24 {
		x.wait(250 * time.Millisecond)
		if x.last.Resync {
			asked++
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times in 6s", asked)
	}
	// The list makes it good, with the beat that was there before it.
	x.put(SnapshotKey(gateway), list)
	x.expect(fresh())
	if got := x.answers("team-b", ""); got.Age != 6*time.Second {
		t.Errorf("age %s, want that of the beat", got.Age)
	}
}

func TestBehindOnAnotherEpoch(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	b := newAuthor(t, 6, x.at.Mono)
	x.heartbeat(b, 2)
	x.expect(behind())
	// The old list does not come back, whatever the old writer says.
	x.heartbeat(a, 1)
	x.finds(FoundRollback)
	x.again(a, 1)
	x.finds(FoundRollback)
	x.expect(behind())
}

// TestFirstBeatWithoutList: a reader that has a beat and no list is behind, not open.
func TestFirstBeatWithoutList(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.heartbeat(a, 1, func(h *Heartbeat) { h.Digest = Digest{9} })
	x.expect(behind())
	x.wait(time.Second)
	x.heartbeat(a, 1, func(h *Heartbeat) { h.Digest = Digest{9} })
	x.expect(behind())
	x.snapshot(a, 1, "team-a") // another list than the beat vouches for
	x.expect(forked())
}

func TestWithdrawal(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	gone := func(h *Heartbeat) { h.Reason = "the file is gone" }
	x.heartbeat(a, 1, gone)
	x.finds(FoundWithdrawn)
	x.expect(withdrawn())
	for range 20 {
		x.wait(time.Second)
		if x.last.Resync {
			t.Fatal("a fresh consumer is asked for, which cannot help")
		}
		x.heartbeat(a, 1, gone)
	}
	x.expect(withdrawn())
	// A writer that falls silent may have ended, and so may the consumer.
	asked := 0
	for range 4 * 21 {
		x.wait(250 * time.Millisecond)
		if x.last.Resync {
			asked++
		}
	}
	x.expect(withdrawn())
	if asked != 1 {
		t.Errorf("asked %d times in 21s of silence, want once", asked)
	}
	// A live beat of the same epoch ends it, with one beat.
	x.heartbeat(a, 1)
	x.expect(fresh())
	// A withdrawal needs no list and no trial.
	b := newAuthor(t, 6, x.at.Mono)
	x.heartbeat(b, 7, gone)
	x.expect(withdrawn())
	// The first beat of an epoch ends the withdrawal and proves nothing yet.
	x.snapshot(b, 8, "team-a")
	x.expect(withdrawn())
	x.heartbeat(b, 8)
	x.expect(unsynced())
	x.wait(time.Second)
	x.heartbeat(b, 8)
	x.expect(fresh())
}

func TestRestartWithMarks(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	b := newAuthor(t, 6, x.at.Mono)
	x.snapshot(b, 2, "team-a")
	marks, err := DecodeMarks(gateway, EncodeMarks(gateway, x.r.Marks()))
	if err != nil {
		t.Fatal(err)
	}
	x.r = testReader(t, marks)
	// The broker has fallen back to the epoch before.
	x.again(a, 1)
	x.finds(FoundRollback)
	x.heartbeat(a, 1)
	x.finds(FoundRollback)
	x.wait(time.Second)
	x.heartbeat(a, 1)
	x.expect(unsynced())
	x.again(b, 2)
	x.heartbeat(b, 2)
	x.wait(time.Second)
	x.heartbeat(b, 2)
	x.expect(fresh())
	if x.last.Persist {
		t.Error("marks are written for every beat")
	}
}

// TestEmptyListIsAnAnswer is rule W11 seen by a reader: a signed list without names denies by name.
func TestEmptyListIsAnAnswer(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1)
	x.answers("team-a", verdict.NotListed)
	x.answers("", verdict.NotListed)
}

func TestResyncWhileClosed(t *testing.T) {
	x := newReaderTest(t)
	asked := map[time.Duration]bool{}
	start := x.at.Mono
	x.last = x.r.Step(x.at, Tick{})
	for range 4 * 11 {
		x.wait(250 * time.Millisecond)
		if x.last.Resync {
			asked[x.at.Mono-start] = true
		}
	}
	if len(asked) != 2 || !asked[5*time.Second] || !asked[10*time.Second] {
		t.Errorf("a reader that hears nothing asks at %v, want after 5s and 10s", asked)
	}
	x.r.Step(x.at, Rebuilt{})
	x.wait(4750 * time.Millisecond)
	if x.last.Resync {
		t.Error("asked again before a fresh consumer had time")
	}
	x.wait(250 * time.Millisecond)
	if !x.last.Resync {
		t.Error("not asked again")
	}
}
