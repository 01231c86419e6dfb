package allowlist

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// wild is one random term of a writer on a store that is not honest.
type wild struct {
	*writerTest
	random *rand.Rand
	order  *uint64
	// late are writes whose outcome was doubtful and that may still be stored.
	late *[]Write

	known     map[string]uint64 // last sequence of each key that the writer was told
	lists     map[uint64]List   // what each revision of this term holds
	highest   uint64            // revision that was sent
	fenced    bool
	current   List
	lastProof time.Duration
	proven    bool
	inFlight  bool
	overwrote int // how often somebody else wrote to the store
}

func (x *wild) fail(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf("at %s: %s", x.at.Mono, fmt.Sprintf(format, args...))
}

// check holds every planned action against the rules.
func (x *wild) check(action Action) {
	x.t.Helper()
	w, isWrite := action.(Write)
	if _, isLook := action.(Look); isLook || isWrite {
		if x.inFlight {
			x.fail("%#v while another is on its way (W4)", action)
		}
		x.inFlight = true
	}
	if !isWrite {
		return
	}
	if want, ok := x.known[w.Key]; !ok || w.ExpectSequence != want {
		x.fail("%s expects sequence %d, the writer knows %d (W1)", w.Key, w.ExpectSequence, want)
	}
	if w.Key == SnapshotKey(gateway) {
		s := x.snapshotOf(w)
		if list, ok := x.lists[s.Revision]; ok && !list.Equal(s.Namespaces) {
			x.fail("revision %d has two contents (R2)", s.Revision)
		}
		if !s.Namespaces.Equal(x.current) {
			x.fail("revision %d is not the newest list of the source (W5)", s.Revision)
		}
		x.lists[s.Revision] = s.Namespaces
		if s.Revision < x.highest {
			x.fail("revision %d after %d (W3)", s.Revision, x.highest)
		}
		x.highest = s.Revision
		return
	}
	h := x.beatOf(w)
	switch {
	case !x.fenced:
		x.fail("beat %d before the fencing write is stored (W2)", h.Beat)
	case h.Epoch != x.w.Epoch():
		x.fail("a beat of epoch %d in epoch %d", h.Epoch, x.w.Epoch())
	case h.Withdrawn():
	case h.Revision != x.highest:
		x.fail("beat %d names revision %d after %d was decided (W4)", h.Beat, h.Revision, x.highest)
	case !x.proven || x.at.Mono-x.lastProof > 10*time.Second:
		x.fail("beat %d on a proof of %s ago (W4)", h.Beat, x.at.Mono-x.lastProof)
	default:
		for e := range x.lists[h.Revision].All() {
			if now, ok := x.current.Lookup(e.Name); !ok || now != e {
				x.fail("beat %d vouches for %s, which the source does not hold any more (W6)", h.Beat, e.Name)
			}
		}
	}
}

func (x *wild) tell(input Input) Action {
	x.t.Helper()
	action := x.writerTest.tell(input)
	x.check(action)
	x.checkWake(action)
	return action
}

// checkWake: a writer that waits for nothing but time says until when.
func (x *wild) checkWake(action Action) {
	x.t.Helper()
	w, wake := x.w, x.plan.Wake
	if wake != 0 && wake <= x.at.Mono {
		x.fail("a wake-up at %s, which is over", wake)
	}
	if action != nil || w.over != nil || w.flight != nothing {
		return
	}
	proven := x.at.Mono-w.source.consistentAt <= w.config.Settings.SourceMaxAge.Std()
	due := map[string]time.Duration{}
	switch {
	case w.broker.doubt || !w.broker.read:
		due["a look at keys in doubt"] = w.broker.nextLook
	case w.phase == takingOver && !w.source.relisting:
		due["another relist"] = w.source.nextRelist
	case w.phase == leading && proven:
		due["a beat"] = w.beats.next
		due["a look"] = w.broker.nextLook
		if w.lists.changed {
			due["a list"] = w.lists.gatherUntil
		}
	}
	for what, at := range due {
		if wake == 0 || wake > at {
			x.fail("%s is due at %s, the writer wants to be woken at %s", what, at, wake)
		}
	}
}

// answer ends what is on its way, in one way or another.
func (x *wild) answer(action Action) Action {
	x.t.Helper()
	switch a := action.(type) {
	case Look:
		x.inFlight = false
		if x.random.IntN(6) == 0 {
			return x.tell(LookFailed{Err: errTimeout})
		}
		l := x.store.look()
		x.known[SnapshotKey(gateway)], x.known[HeartbeatKey(gateway)] = l.Snapshot.Sequence, l.Heartbeat.Sequence
		if s, _, err := OpenSnapshot(l.Snapshot.Value, x.w.keys, gateway); err == nil && s.Epoch == x.w.Epoch() && s.Writer == x.w.config.Name {
			x.fenced = true
		}
		return x.tell(l)
	case Relist:
		if x.random.IntN(6) == 0 {
			return x.tell(SourceFailed{Err: errTimeout})
		}
		return x.tell(x.source(ProofList))
	case Write:
		x.inFlight = false
		return x.tell(x.outcome(a))
	default:
		return nil
	}
}

func (x *wild) outcome(w Write) Written {
	if x.random.IntN(5) == 0 {
		switch x.random.IntN(3) {
		case 0:
			x.store.cas(w) // stored, and nobody hears of it
		case 1:
			*x.late = append(*x.late, w)
		}
		return Written{Err: errTimeout}
	}
	result := x.store.cas(w)
	if result.Result == WriteStored {
		x.known[w.Key] = result.Sequence
		x.fenced = x.fenced || w.Key == SnapshotKey(gateway)
	}
	return result
}

// source is what the source says now.
func (x *wild) source(kind ProofKind) Listed {
	*x.order++
	var names []string
	for _, name := range []string{"a", "b", "c"} {
		if x.random.IntN(3) > 0 {
			names = append(names, name)
		}
	}
	x.current = listOf(x.t, names...)
	if kind != ProofWatch {
		x.proven, x.lastProof = true, x.at.Mono
	}
	return Listed{List: x.current, Version: "v", Order: *x.order, Kind: kind, ProvenAt: x.at.Mono}
}

// meddle is what others do to the store.
func (x *wild) meddle() {
	key := []string{SnapshotKey(gateway), HeartbeatKey(gateway)}[x.random.IntN(2)]
	switch x.random.IntN(4) {
	case 0:
		x.overwrote++
		x.store.put(key, OperationPut, []byte("{}"))
	case 1:
		x.overwrote++
		x.store.put(key, OperationExpire, nil)
	default:
		if n := len(*x.late); n > 0 {
			x.store.cas((*x.late)[x.random.IntN(n)])
		}
	}
}

func (x *wild) step(action Action) (Action, bool) {
	x.t.Helper()
	if action != nil && x.random.IntN(3) > 0 {
		action = x.answer(action)
	} else {
		x.pass(time.Duration(x.random.IntN(700)) * time.Millisecond)
		var input Input = Tick{}
		switch x.random.IntN(8) {
		case 0, 1:
			input = x.source(ProofWatch)
		case 2:
			if x.proven {
				x.lastProof = x.at.Mono
				input = Proved{Kind: ProofList, At: x.at.Mono}
			}
		case 3:
			x.meddle()
		case 4:
			if x.random.IntN(10) == 0 {
				x.pass(14 * time.Second)
			}
		}
		if next := x.tell(input); next != nil {
			action = next
		}
	}
	_, over := action.(End)
	return action, over
}

// TestWriterKeepsItsRules runs random terms, one after another and two at a time, on stores that lose, delay and are
// meddled with.
func TestWriterKeepsItsRules(t *testing.T) {
	beats, ends, fences := 0, 0, 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		clock, store := newClockwork(time.Hour), newStore()
		var order uint64
		var late []Write
		var highestEpoch uint64
		for term := range 6 {
			var pair []*wild
			for i := range 2 {
				pair = append(pair, &wild{
					writerTest: newTerm(t, clock, store, func(c *WriterConfig) { c.Name = fmt.Sprintf("w-%d-%d", term, i) }),
					random:     random, order: &order, late: &late, known: map[string]uint64{}, lists: map[uint64]List{},
				})
			}
			actions, over := make([]Action, 2), make([]bool, 2)
			before := highestEpoch
			for range 80 {
				i := random.IntN(2)
				if over[i] {
					continue
				}
				actions[i], over[i] = pair[i].step(actions[i])
			}
			for i, x := range pair {
				beats += len(x.beats(0))
				if over[i] {
					ends++
				}
				if x.fenced {
					fences++
					if x.w.Epoch() <= before {
						t.Fatalf("seed %d: epoch %d after %d (W2)", seed, x.w.Epoch(), before)
					}
					highestEpoch = max(highestEpoch, x.w.Epoch())
				}
			}
			// Two who take over in the same millisecond choose the same epoch. The store lets one of them write, unless
			// somebody overwrites its record before the other looks; then readers see a fork, and both terms end.
			if pair[0].fenced && pair[1].fenced && pair[0].w.Epoch() == pair[1].w.Epoch() && pair[0].overwrote+pair[1].overwrote == 0 {
				t.Fatalf("seed %d: two writers hold epoch %d", seed, pair[0].w.Epoch())
			}
		}
	}
	if beats < 650 || ends < 35 || fences < 100 {
		t.Errorf("%d beats, %d ends, %d fencing writes: too few to prove anything", beats, ends, fences)
	}
	t.Logf("%d beats, %d ends, %d fencing writes", beats, ends, fences)
}
