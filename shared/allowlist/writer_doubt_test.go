package allowlist

import (
	"errors"
	"testing"
	"time"
)

var errTimeout = errors.New("timeout")

// TestDoubtfulSnapshot is rule W1: after a write of which nobody knows the outcome, look, verify, decide.
func TestDoubtfulSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		// what becomes of the write: stored before the look, after it, or never; and what the source does meanwhile.
		when  string
		names []string
		want  uint64 // revision in the end
		wrote int    // snapshots after the doubtful one
	}{
		"stored, same list":           {"before", []string{"b"}, 2, 0},
		"stored, list changed":        {"before", []string{"c"}, 3, 1},
		"stored, list went back":      {"before", []string{"team-a"}, 3, 1},
		"lost, same list":             {"never", []string{"b"}, 2, 1},
		"lost, list changed":          {"never", []string{"c"}, 3, 1},
		"lost, list went back":        {"never", []string{"team-a"}, 3, 1},
		"stored late, same list":      {"after", []string{"b"}, 2, 1},
		"stored late, list changed":   {"after", []string{"c"}, 4, 2},
		"stored late, list went back": {"after", []string{"team-a"}, 4, 2},
	} {
		t.Run(name, func(t *testing.T) {
			x := newWriterTest(t)
			x.lead()
			w := x.change("b").(Write)
			mark := len(x.wrote)
			if c.when == "before" {
				x.store.cas(w)
			}
			x.list = c.names
			x.tell(x.listed(ProofWatch))
			a := x.tell(Written{Err: errTimeout})
			x.reports(FoundDoubt)
			if a != (Look{}) {
				x.pass(x.w.pause())
				if a = x.tell(Tick{}); a != (Look{}) {
					t.Fatalf("after the doubt %#v", a)
				}
			}
			a = x.tell(x.store.look())
			if c.when == "after" {
				x.store.cas(w)
			}
			x.run(a)
			x.wait(2*time.Second, true)
			s, _, err := OpenSnapshot(x.store.keys[SnapshotKey(gateway)].Value, x.w.keys, gateway)
			if err != nil || s.Revision != c.want || !s.Namespaces.Equal(listOf(t, c.names...)) {
				t.Errorf("in the end revision %d with %v, %v", s.Revision, s.Namespaces, err)
			}
			if n := len(x.snapshots(mark)); n != c.wrote {
				t.Errorf("%d more snapshots, want %d", n, c.wrote)
			}
			h := x.beats(0)
			if last := h[len(h)-1]; last.Revision != c.want || last.Withdrawn() {
				t.Errorf("the last beat %+v", last)
			}
			noContradiction(t, x)
		})
	}
}

// TestLateWriteIsNotVouchedFor: an earlier write turns out to be stored after a later one was decided. No beat names
// the earlier one.
func TestLateWriteIsNotVouchedFor(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.pass(100 * time.Millisecond)
	early := x.change("team-a", "b").(Write)
	x.tell(Written{Err: errTimeout})
	x.pass(time.Second)
	if a := x.change("team-a", "b", "c"); a != (Look{}) {
		t.Fatalf("planned %#v, want a look", a)
	}
	later := x.tell(x.store.look()).(Write)
	if s := x.snapshotOf(later); s.Revision != 3 {
		t.Fatalf("revision %d", s.Revision)
	}
	x.store.cas(early)
	x.tell(x.store.cas(later))
	x.pass(time.Second)
	if s := x.snapshotOf(x.tell(x.look())); s.Revision != 4 || s.Previous != digestOf(x.payload(early)) {
		t.Errorf("after the late write %+v", s)
	}
}

// TestExpiredBeatIsReplacedSoon: a beat that conflicts with the expiry of the one before is made again within a quarter
// of an interval.
func TestExpiredBeatIsReplacedSoon(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.store.put(HeartbeatKey(gateway), OperationExpire, nil)
	x.pass(time.Second)
	conflict := x.tell(Tick{}).(Write)
	if a := x.tell(x.store.cas(conflict)); a != (Look{}) {
		t.Fatalf("after the conflict %#v", a)
	}
	if a := x.tell(x.store.look()); a != nil {
		t.Fatalf("at once %#v", a)
	}
	x.reports(FoundGone)
	if x.plan.Wake != x.at.Mono+250*time.Millisecond {
		t.Errorf("wakes after %s", x.plan.Wake-x.at.Mono)
	}
	x.pass(250 * time.Millisecond)
	x.beatOf(x.tell(Tick{}))
}

// noContradiction: no revision of an epoch was ever written with two lists.
func noContradiction(t *testing.T, x *writerTest) {
	t.Helper()
	seen := map[stamp]string{}
	for _, w := range x.wrote {
		if w.Key != SnapshotKey(gateway) {
			continue
		}
		s := x.snapshotOf(w)
		st := stamp{s.Epoch, s.Revision}
		if other, ok := seen[st]; ok && other != string(w.Record) {
			t.Errorf("%v was written with two contents", st)
		}
		seen[st] = string(w.Record)
	}
}

// TestDoubtfulFencing: no beat before the fencing write is known to be stored.
func TestDoubtfulFencing(t *testing.T) {
	for _, stored := range []bool{false, true} {
		x := newWriterTest(t)
		x.tell(Tick{})
		x.tell(x.store.look())
		w := x.tell(x.listed(ProofList)).(Write)
		if stored {
			x.store.cas(w)
		}
		if a := x.tell(Written{Err: errTimeout}); a != nil {
			t.Fatalf("%#v right after the last look", a)
		}
		x.pass(x.w.pause())
		if a := x.tell(Tick{}); a != (Look{}) {
			t.Fatalf("%#v, want a look", a)
		}
		a := x.tell(x.store.look())
		if stored {
			x.beatOf(a)
			continue
		}
		if a != (Relist{}) {
			t.Fatalf("%#v: the list is from before the look", a)
		}
		again := x.tell(x.listed(ProofList)).(Write)
		if string(again.Record) != string(w.Record) || again.ExpectSequence != 0 {
			t.Error("the same list became another record")
		}
	}
}

// TestFencingAgainstAWriterBefore: the writer before publishes between the look and the fencing write. The new one
// looks again, lists again, and follows what it found.
func TestFencingAgainstAWriterBefore(t *testing.T) {
	x := newWriterTest(t)
	old := newAuthor(t, 7, 0)
	x.store.put(SnapshotKey(gateway), OperationPut, old.snapshot(3, x.at, "a"))
	x.tell(Tick{})
	x.tell(x.store.look())
	w := x.tell(x.listed(ProofList)).(Write)
	x.store.put(SnapshotKey(gateway), OperationPut, old.snapshot(4, x.at, "b"))
	x.tell(x.store.cas(w))
	x.pass(x.w.pause())
	if a := x.tell(Tick{}); a != (Look{}) {
		t.Fatalf("%#v, want a look", a)
	}
	if a := x.tell(x.store.look()); a != (Relist{}) {
		t.Fatalf("%#v, want a relist", a)
	}
	epoch := x.w.Epoch()
	s := x.snapshotOf(x.tell(x.listed(ProofList)))
	if s.Revision != 5 || s.Previous != old.lists[4] || s.Epoch != epoch {
		t.Errorf("fencing write %+v", s)
	}
}

// TestTwoLeaders: whoever fences last wins, and the other ends its term at its next write.
func TestTwoLeaders(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	y := newTerm(t, x.clockwork, x.store, func(c *WriterConfig) { c.Name = "nswatch-1" })
	y.lead()
	if y.w.Epoch() <= x.w.Epoch() {
		t.Fatalf("epoch %d after %d", y.w.Epoch(), x.w.Epoch())
	}
	mark := len(y.wrote)
	x.ended(x.wait(2*time.Second, true), EndSuperseded)
	y.wait(2*time.Second, true)
	if len(y.beats(mark)) == 0 {
		t.Error("the winner fell silent")
	}
}

// TestDoubtfulBeat: the counter goes on, and what is in the store decides.
func TestDoubtfulBeat(t *testing.T) {
	for _, stored := range []bool{false, true} {
		x := newWriterTest(t)
		x.lead()
		x.pass(time.Second)
		w := x.tell(Tick{}).(Write)
		if stored {
			x.store.cas(w)
		}
		x.pass(2 * time.Second)
		if a := x.tell(Written{Err: errTimeout}); a != (Look{}) {
			t.Fatalf("%#v, want a look", a)
		}
		b := x.beatOf(x.tell(x.store.look()))
		if b.Beat != 3 || x.wrote[len(x.wrote)-1].ExpectSequence != x.store.keys[HeartbeatKey(gateway)].Sequence {
			t.Errorf("beat %d after a doubtful one", b.Beat)
		}
	}
}

// TestLookFailsInDoubt: nothing is written before the keys were read.
func TestLookFailsInDoubt(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.pass(time.Second)
	x.tell(Tick{})
	x.tell(Written{Err: errTimeout})
	for range 40 {
		x.pass(250 * time.Millisecond)
		switch a := x.tell(Tick{}); a {
		case nil:
		case Look{}:
			x.tell(LookFailed{Err: errTimeout})
		default:
			t.Fatalf("planned %#v in doubt", a)
		}
	}
}

// TestKeysAreLookedAfter: without any doubt a leader looks at the keys every few intervals, and puts right what others
// did to them.
func TestKeysAreLookedAfter(t *testing.T) {
	for name, harm := range map[string]func(*store){
		"list deleted":     func(s *store) { s.put(SnapshotKey(gateway), OperationDelete, nil) },
		"list overwritten": func(s *store) { s.put(SnapshotKey(gateway), OperationPut, []byte("{}")) },
		"beat deleted":     func(s *store) { s.put(HeartbeatKey(gateway), OperationPurge, nil) },
		"beat expired":     func(s *store) { s.put(HeartbeatKey(gateway), OperationExpire, nil) },
		"all gone":         func(s *store) { *s = *newStore() },
		"all gone, refilled beyond the old end": func(s *store) {
			*s = *newStore()
			s.sequence = 1000
			s.put(SnapshotKey(gateway), OperationPut, []byte("{}"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newWriterTest(t)
			x.lead()
			list := string(x.store.keys[SnapshotKey(gateway)].Value)
			x.wait(time.Second, true)
			harm(x.store)
			x.wait(6*time.Second, true)
			if string(x.store.keys[SnapshotKey(gateway)].Value) != list {
				t.Error("the list is not what it was, byte for byte")
			}
			if _, err := OpenHeartbeat(x.store.keys[HeartbeatKey(gateway)].Value, x.w.keys, gateway); err != nil {
				t.Errorf("the heartbeat: %v", err)
			}
			if n := len(x.snapshots(0)); n > 2 {
				t.Errorf("%d snapshots", n)
			}
		})
	}
}

// TestRestoredStore: the broker falls back to an older list of the same term.
func TestRestoredStore(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	backup := x.store.keys[SnapshotKey(gateway)].Value
	x.run(x.change("b"))
	list := string(x.store.keys[SnapshotKey(gateway)].Value)
	x.store.put(SnapshotKey(gateway), OperationPut, backup)
	x.wait(6*time.Second, true)
	if string(x.store.keys[SnapshotKey(gateway)].Value) != list {
		t.Error("the newest list is not back")
	}
}

// TestFailedLookWithoutDoubtDoesNotSilence: it is only a precaution then.
func TestFailedLookWithoutDoubtDoesNotSilence(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	looks, beats := 0, 0
	for range 40 {
		x.pass(250 * time.Millisecond)
		x.tell(Proved{Kind: ProofList, At: x.at.Mono})
		action := x.plan.Action
		for action != nil {
			switch a := action.(type) {
			case Look:
				looks++
				action = x.tell(LookFailed{Err: errTimeout})
			case Write:
				beats++
				action = x.tell(x.store.cas(a))
			default:
				t.Fatalf("planned %#v", a)
			}
		}
	}
	if looks != 2 || beats < 9 {
		t.Errorf("%d looks and %d beats in 10s", looks, beats)
	}
}

func TestInputsOutOfPlaceAreIgnored(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	sequence := x.w.broker
	for _, in := range []Input{
		Written{Result: WriteStored, Sequence: 99}, Looked{Snapshot: Stored{Sequence: 99}}, LookFailed{},
	} {
		if a := x.tell(in); a != nil {
			t.Errorf("%#v made %#v", in, a)
		}
	}
	if x.w.broker != sequence {
		t.Error("an answer to no question was believed")
	}
	x.run(x.tell(Listed{List: List{}, Order: 99, Kind: ProofFile, ProvenAt: x.at.Mono}))
	if n := len(x.snapshots(0)); n != 1 {
		t.Error("a list of another kind of source was published")
	}
}
