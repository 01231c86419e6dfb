package allowlist

import (
	"testing"
	"time"
)

// TestCleanStop is rule W10.
func TestCleanStop(t *testing.T) {
	t.Run("nobody takes over", func(t *testing.T) {
		x := newWriterTest(t)
		x.lead()
		x.wait(3*time.Second, true)
		mark := len(x.wrote)
		if a := x.tell(Released{}); a != nil {
			t.Fatalf("right after the release %#v", a)
		}
		x.pass(5*time.Second - time.Millisecond)
		if a := x.tell(Proved{Kind: ProofList, At: x.at.Mono}); a != nil || len(x.wrote) != mark {
			t.Fatalf("in the grace %#v", a)
		}
		x.change("team-b")
		if len(x.wrote) != mark {
			t.Fatal("published after the release")
		}
		x.pass(time.Millisecond)
		if a := x.tell(Tick{}); a != (Look{}) {
			t.Fatalf("after the grace %#v", a)
		}
		w := x.tell(x.store.look())
		if h := x.beatOf(w); !h.Withdrawn() || h.Revision != 1 {
			t.Errorf("the last beat %+v", h)
		}
		x.parted(x.tell(x.store.cas(w.(Write))), FarewellWithdrawn)
	})
	t.Run("a successor has written", func(t *testing.T) {
		x := newWriterTest(t)
		x.lead()
		mark := len(x.wrote)
		x.tell(Released{})
		y := newTerm(t, x.clockwork, x.store, func(c *WriterConfig) { c.Name = "nswatch-1" })
		y.lead()
		x.pass(5 * time.Second)
		x.parted(x.run(x.tell(Tick{})), FarewellSucceeded)
		if len(x.wrote) != mark {
			t.Error("withdrawn although there is a successor")
		}
	})
	t.Run("a successor writes at the last moment", func(t *testing.T) {
		x := newWriterTest(t)
		x.lead()
		x.tell(Released{})
		x.pass(5 * time.Second)
		x.tell(Tick{})
		w := x.tell(x.store.look()).(Write)
		y := newTerm(t, x.clockwork, x.store, func(c *WriterConfig) { c.Name = "nswatch-1" })
		y.lead()
		mark := len(x.found)
		x.parted(x.tell(x.store.cas(w)), FarewellUnknown)
		if found := x.found[mark:]; len(found) != 1 || found[0] != FoundDoubt {
			t.Errorf("found %v", found)
		}
		if h, err := OpenHeartbeat(x.store.keys[HeartbeatKey(gateway)].Value, x.w.keys, gateway); err != nil || h.Withdrawn() {
			t.Errorf("the heartbeat of the successor: %+v, %v", h, err)
		}
	})
	t.Run("it cannot be found out", func(t *testing.T) {
		x := newWriterTest(t)
		x.lead()
		mark := len(x.wrote)
		x.tell(Released{})
		x.pass(5 * time.Second)
		x.tell(Tick{})
		x.parted(x.tell(LookFailed{Err: errTimeout}), FarewellUnknown)
		if len(x.wrote) != mark {
			t.Error("withdrawn in doubt")
		}
	})
	t.Run("before the take-over", func(t *testing.T) {
		x := newWriterTest(t)
		x.tell(Tick{})
		x.parted(x.tell(Released{}), Farewell(0))
	})
	t.Run("with a beat on its way", func(t *testing.T) {
		x := newWriterTest(t)
		x.lead()
		x.pass(time.Second)
		w := x.tell(Tick{}).(Write)
		x.tell(Released{})
		if a := x.tell(x.store.cas(w)); a != nil {
			t.Fatalf("the grace was cut short: %#v", a)
		}
		x.pass(5 * time.Second)
		if h := x.beatOf(x.tell(x.look())); !h.Withdrawn() {
			t.Errorf("the last beat %+v", h)
		}
	})
	t.Run("with a look on its way", func(t *testing.T) {
		x := newWriterTest(t)
		x.lead()
		x.pass(5 * time.Second)
		beat := x.tell(Proved{Kind: ProofList, At: x.at.Mono}).(Write)
		if a := x.tell(x.store.cas(beat)); a != (Look{}) {
			t.Fatalf("planned %#v, want a look", a)
		}
		x.tell(Released{})
		x.tell(x.store.look())
		mark := len(x.wrote)
		x.pass(4 * time.Second)
		if a := x.tell(Tick{}); a != nil || len(x.wrote) != mark {
			t.Fatalf("the grace was cut short: %#v", a)
		}
		x.pass(time.Second)
		x.beatOf(x.tell(x.look()))
	})
}

// parted expects the end of a clean stop.
func (x *writerTest) parted(a Action, want Farewell) {
	x.t.Helper()
	x.ended(a, EndStopped)
	if end := a.(End); end.Farewell != want || end.Err != nil {
		x.t.Errorf("the farewell is %s (%v), want %s", end.Farewell, end.Err, want)
	}
}

// look makes the writer look, which is due, and returns what it found.
func (x *writerTest) look() Looked {
	x.t.Helper()
	if a := x.tell(Tick{}); a != (Look{}) {
		x.t.Fatalf("planned %#v, want a look", a)
	}
	return x.store.look()
}

// TestRolloutKeepsTheGateOpen couples rule W10 with a reader: a clean stop and a successor within the grace.
func TestRolloutKeepsTheGateOpen(t *testing.T) {
	x := newWriterTest(t)
	r := testReader(t, Marks{})
	sequences := map[string]uint64{}
	deliver := func() {
		for _, key := range []string{SnapshotKey(gateway), HeartbeatKey(gateway)} {
			if m := x.store.keys[key]; m.Sequence > sequences[key] {
				sequences[key] = m.Sequence
				r.Step(x.at, Record{Key: key, Operation: m.Operation, Value: m.Value})
			}
		}
	}
	x.lead()
	for range 3 {
		deliver()
		x.wait(time.Second, true)
	}
	deliver()
	x.tell(Released{})
	y := newTerm(t, x.clockwork, x.store, func(c *WriterConfig) { c.Name = "nswatch-1" })
	for i := range 24 {
		x.pass(250 * time.Millisecond)
		x.run(x.tell(Tick{}))
		if i == 8 {
			y.lead()
		} else if i > 8 {
			y.run(y.tell(Proved{Kind: ProofList, At: x.at.Mono}))
		}
		deliver()
		r.Step(x.at, Tick{})
		if a := r.View().Check("team-a", x.at); !a.Allowed() {
			t.Fatalf("closed for %s at %s of the rollout", a.Reason, time.Duration(i)*250*time.Millisecond)
		}
	}
	if a := r.View().Check("team-a", x.at); a.Epoch != y.w.Epoch() || a.Age > time.Second {
		t.Errorf("in the end %+v", a)
	}
}
