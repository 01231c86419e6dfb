package allowlist

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// rekeyTest is a reader of a writer whose key is rotated: author signs with key 1, and its successor with key 2.
type rekeyTest struct {
	*readerTest
	author, successor *author
	both, one, two    KeySet
}

func newRekeyTest(t *testing.T) *rekeyTest {
	x := &rekeyTest{readerTest: newReaderTest(t)}
	x.author = newAuthor(t, 5, x.at.Mono)
	x.both = testKeys(t, testSigner(t, 1), testSigner(t, 2))
	x.one, x.two = testKeys(t, testSigner(t, 1)), testKeys(t, testSigner(t, 2))
	x.rekey(x.both)
	return x
}

func (x *rekeyTest) rekey(keys KeySet) { x.last = x.r.Step(x.at, Rekeyed{Keys: keys}) }

func (x *rekeyTest) takeOver() {
	x.successor = newAuthor(x.t, 6, x.at.Mono)
	x.successor.signer = testSigner(x.t, 2)
}

// TestRotation is the order that operators follow: add the new key, change the writer, take the old key away. The gate
// stays open all the way.
func TestRotation(t *testing.T) {
	x := newRekeyTest(t)
	x.rekey(x.one)
	x.open(x.author, 1, "team-a")
	deadline := x.r.View().deadline
	x.rekey(x.both)
	x.finds()
	x.answers("team-a", "")
	if x.last.Resync || x.last.Persist || x.r.View().deadline != deadline {
		t.Errorf("a key that is new changed something: %+v", x.last)
	}
	x.wait(time.Second)
	x.takeOver()
	x.snapshot(x.successor, 2, "team-a")
	x.answers("team-a", "")
	x.heartbeat(x.successor, 2)
	x.answers("team-a", "")
	x.wait(time.Second)
	x.heartbeat(x.successor, 2)
	x.rekey(x.two)
	x.finds()
	x.answers("team-a", "")
	if x.last.Resync {
		t.Error("a key that signed nothing of what is held was missed")
	}
	x.heartbeat(x.author, 1)
	x.finds(FoundRejected)
}

// TestKeyGone: what a key signed ends with it, at once.
func TestKeyGone(t *testing.T) {
	for name, c := range map[string]struct {
		before func(x *rekeyTest) // the reader is Fresh, on key 1
		gone   func(x *rekeyTest) KeySet
		finds  []FindingKind
		want   Condition
	}{
		"list and beats": {
			before: func(*rekeyTest) {},
			gone:   func(x *rekeyTest) KeySet { return x.two },
			finds:  []FindingKind{FoundKeyGone, FoundKeyGone},
			want:   invalid(),
		},
		"all keys": {
			before: func(*rekeyTest) {},
			gone:   func(*rekeyTest) KeySet { return KeySet{} },
			finds:  []FindingKind{FoundKeyGone, FoundKeyGone},
			want:   invalid(),
		},
		"the pending list": {
			before: func(x *rekeyTest) {
				x.takeOver()
				x.snapshot(x.successor, 2, "team-a")
			},
			gone:  func(x *rekeyTest) KeySet { return x.one },
			finds: []FindingKind{FoundKeyGone},
			want:  invalid(),
		},
		"the proven list behind a pending one": {
			before: func(x *rekeyTest) {
				x.takeOver()
				x.snapshot(x.successor, 2, "team-a")
			},
			gone:  func(x *rekeyTest) KeySet { return x.two },
			finds: []FindingKind{FoundKeyGone}, // the current heartbeat
			want:  invalid(),
		},
		"the proof of the epoch before": {
			before: func(x *rekeyTest) {
				x.takeOver()
				x.snapshot(x.successor, 2, "team-a")
				x.heartbeat(x.successor, 2)
			},
			gone: func(x *rekeyTest) KeySet { return x.two },
			want: unsynced(), // both keys hold what counts; the trial is not passed
		},
		"only the list of the proof": {
			before: func(x *rekeyTest) {
				x.wait(time.Second)
				x.author.signer = testSigner(x.t, 2)
				x.heartbeat(x.author, 1)
				x.snapshot(x.author, 2, "team-a")
			},
			gone: func(x *rekeyTest) KeySet { return x.two },
			want: unsynced(),
		},
		"only the beat of the proof": {
			before: func(x *rekeyTest) {
				x.takeOver()
				payload, _, err := openPayload(kindSnapshot, x.author.stored[1], x.both)
				if err != nil {
					x.t.Fatal(err)
				}
				again, err := seal(kindSnapshot, payload, x.successor.signer)
				if err != nil {
					x.t.Fatal(err)
				}
				x.put(SnapshotKey(gateway), again)
				x.heartbeat(x.author, 1)
				x.snapshot(x.successor, 2, "team-a")
				x.heartbeat(x.successor, 2)
			},
			gone: func(x *rekeyTest) KeySet { return x.two },
			want: unsynced(),
		},
		"the beats of a list that stays": {
			before: func(x *rekeyTest) {
				x.wait(time.Second)
				x.author.signer = testSigner(x.t, 2)
				x.heartbeat(x.author, 1)
			},
			gone:  func(x *rekeyTest) KeySet { return x.one },
			finds: []FindingKind{FoundKeyGone},
			want:  invalid(),
		},
		"the list of beats that stay": {
			before: func(x *rekeyTest) {
				x.wait(time.Second)
				x.author.signer = testSigner(x.t, 2)
				x.heartbeat(x.author, 1)
			},
			gone:  func(x *rekeyTest) KeySet { return x.two },
			finds: []FindingKind{FoundKeyGone},
			want:  invalid(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newRekeyTest(t)
			x.open(x.author, 1, "team-a")
			c.before(x)
			x.answers("team-a", "")
			marks := x.r.Marks()
			x.rekey(c.gone(x))
			x.finds(c.finds...)
			x.expect(c.want)
			x.answers("team-a", c.want.Reason)
			if !x.last.Resync {
				t.Error("the records are not asked for again")
			}
			if x.r.Marks() != marks {
				t.Errorf("the marks went from %+v to %+v", marks, x.r.Marks())
			}
			x.wait(250 * time.Millisecond)
			if x.last.Resync {
				t.Error("asked for again and again")
			}
		})
	}
}

// TestKeyGoneAndBack: nothing of a key that is gone is kept for its return, and what was refused for the marks is
// refused under any key.
func TestKeyGoneAndBack(t *testing.T) {
	x := newRekeyTest(t)
	x.open(x.author, 1, "team-a")
	x.snapshot(x.author, 2, "team-a")
	x.heartbeat(x.author, 2)
	x.rekey(x.two)
	if s := x.r.Status(x.at); s.Revision != 0 || s.Namespaces != 0 || s.Proven {
		t.Errorf("a list of a key that is gone is still held: %+v", s)
	}
	x.rekey(x.two)
	x.finds()
	x.rekey(x.both)
	x.finds()
	x.expect(invalid())
	if !x.last.Resync {
		t.Error("records that were refused are not looked at under the new keys")
	}
	x.again(x.author, 1)
	x.finds(FoundRollback)
	x.again(x.author, 2)
	x.expect(invalid()) // there is no beat
	x.heartbeat(x.author, 2)
	x.expect(unsynced()) // on trial
	x.wait(time.Second)
	x.expect(unsynced())
	x.heartbeat(x.author, 2)
	x.expect(fresh())
}

// TestSameListUnderAnotherKey: the list may be stored again under a key that remains, before the other goes.
func TestSameListUnderAnotherKey(t *testing.T) {
	x := newRekeyTest(t)
	x.open(x.author, 1, "team-a")
	payload, _, err := openPayload(kindSnapshot, x.author.stored[1], x.both)
	if err != nil {
		t.Fatal(err)
	}
	again, err := seal(kindSnapshot, payload, testSigner(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	x.put(SnapshotKey(gateway), again)
	x.author.signer = testSigner(t, 2)
	x.wait(time.Second)
	x.heartbeat(x.author, 1)
	x.rekey(x.two)
	x.finds()
	x.expect(fresh())
}

// TestWithdrawalOfAKeyThatIsGone: it counts for nothing, and grants nothing.
func TestWithdrawalOfAKeyThatIsGone(t *testing.T) {
	x := newRekeyTest(t)
	x.open(x.author, 1, "team-a")
	x.takeOver()
	x.heartbeat(x.author, 1, func(h *Heartbeat) { h.Reason = "gone" })
	x.expect(withdrawn())
	x.rekey(x.two)
	x.expect(invalid())
	x.snapshot(x.successor, 2, "team-a")
	x.heartbeat(x.successor, 2)
	x.expect(unsynced())
}

// TestKeyOfARefusedRecord: a record that came before its key is asked for again when the key is there.
func TestKeyOfARefusedRecord(t *testing.T) {
	x := newRekeyTest(t)
	x.rekey(x.one)
	x.takeOver()
	list := x.successor.snapshot(2, x.at, "team-a")
	x.put(SnapshotKey(gateway), list)
	x.finds(FoundRejected)
	x.rekey(x.both)
	x.expect(invalid())
	if !x.last.Resync {
		t.Error("the record is not asked for again")
	}
	x.put(SnapshotKey(gateway), list)
	x.answers("team-a", verdict.Unsynced)
}

// TestNothingRestsOnAKeyThatIsGone: random lives of a reader whose keys come and go. What it grants is at any time in a
// list of its keys that a beat of its keys vouches for, both delivered after the key last came.
func TestNothingRestsOnAKeyThatIsGone(t *testing.T) {
	fresh, gone := 0, 0
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 4))
		x := newRekeyTest(t)
		sets := []KeySet{x.both, x.both, x.one, x.two, {}}
		keys, valid := x.both, map[PublicKey]bool{}
		signers := []*Signer{testSigner(t, 1), testSigner(t, 2)}
		lists, beats := map[uint64]map[PublicKey]bool{}, map[uint64]map[PublicKey]bool{}
		rekey := func(set KeySet) {
			x.rekey(set)
			keys = set
			for _, s := range signers {
				if valid[s.Public()] = set.Has(s.Public()); !valid[s.Public()] {
					for _, seen := range []map[uint64]map[PublicKey]bool{lists, beats} {
						for _, by := range seen {
							delete(by, s.Public())
						}
					}
				}
			}
		}
		rekey(keys)
		note := func(seen map[uint64]map[PublicKey]bool, revision uint64) {
			if by := x.author.signer.Public(); valid[by] {
				if seen[revision] == nil {
					seen[revision] = map[PublicKey]bool{}
				}
				seen[revision][by] = true
			}
		}
		revision := uint64(1)
		for range 80 {
			x.wait(time.Duration(random.IntN(1200)) * time.Millisecond)
			switch n := random.IntN(20); {
			case n < 2:
				x.author.signer = signers[random.IntN(2)]
			case n < 4:
				rekey(sets[random.IntN(len(sets))])
			case n < 7:
				revision++
				x.snapshot(x.author, revision, "team-a")
				note(lists, revision)
			case n < 9 && x.author.stored[revision] != nil:
				payload, _, err := openPayload(kindSnapshot, x.author.stored[revision], x.both)
				if err != nil {
					t.Fatal(err)
				}
				again, err := seal(kindSnapshot, payload, x.author.signer)
				if err != nil {
					t.Fatal(err)
				}
				x.put(SnapshotKey(gateway), again)
				note(lists, revision)
			default:
				x.heartbeat(x.author, revision)
				note(beats, revision)
			}
			gone += len(x.last.Findings)
			if !x.r.View().Check("team-a", x.at).Allowed() {
				continue
			}
			fresh++
			rests := false
			for r := range revision + 1 {
				rests = rests || len(lists[r]) > 0 && len(beats[r]) > 0
			}
			if !rests {
				t.Fatalf("seed %d: a yes at revision %d rests on a key that is gone", seed, x.r.View().stamp.revision)
			}
		}
	}
	if fresh < 125 || gone < 100 {
		t.Errorf("%d times open, %d findings: too few to prove anything", fresh, gone)
	}
}
