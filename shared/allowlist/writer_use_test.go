package allowlist

import (
	"errors"
	"testing"
	"time"
)

// idleAfter is twice max_staleness.
const idleAfter = 30 * time.Second

// TestIdleLeaderGivesWay: a leader that nobody can use does not keep the Lease.
func TestIdleLeaderGivesWay(t *testing.T) {
	// ends waits for the end and says how long it took.
	ends := func(x *writerTest, wait func(time.Duration) Action) time.Duration {
		x.t.Helper()
		from := x.at.Mono
		for x.at.Mono-from < 10*time.Minute {
			if a, over := wait(time.Second).(End); over {
				x.ended(a, EndIdle)
				return x.at.Mono - from
			}
		}
		return 0
	}
	// cut fails whatever is planned, as without NATS.
	cut := func(x *writerTest) func(time.Duration) Action {
		return func(d time.Duration) Action {
			x.pass(d)
			a := x.tell(Proved{Kind: x.relistKind(), At: x.at.Mono})
			switch a.(type) {
			case Look:
				return x.tell(LookFailed{Err: errTimeout})
			case Write:
				return x.tell(Written{Err: errTimeout})
			}
			return a
		}
	}
	for _, c := range []struct {
		name string
		edit func(*WriterConfig)
		run  func(x *writerTest) time.Duration
		want time.Duration // zero: never
	}{
		{"with a good source", func(*WriterConfig) {}, func(x *writerTest) time.Duration {
			x.lead()
			return ends(x, func(d time.Duration) Action { return x.wait(d, true) })
		}, 0},
		{"cut off from NATS", func(*WriterConfig) {}, func(x *writerTest) time.Duration {
			x.lead()
			return ends(x, cut(x))
		}, idleAfter},
		{"cut off before the take-over", func(*WriterConfig) {}, func(x *writerTest) time.Duration {
			return ends(x, cut(x))
		}, idleAfter},
		{"without the right to write", func(*WriterConfig) {}, func(x *writerTest) time.Duration {
			x.lead()
			return ends(x, func(d time.Duration) Action {
				x.pass(d)
				a := x.tell(Proved{Kind: ProofList, At: x.at.Mono})
				for range 3 {
					switch a.(type) {
					case Look:
						a = x.tell(x.store.look())
					case Write:
						a = x.tell(Written{Err: errTimeout})
					}
				}
				return a
			})
		}, idleAfter},
		{"a label source hangs", func(*WriterConfig) {}, func(x *writerTest) time.Duration {
			x.lead()
			return ends(x, func(d time.Duration) Action { return x.wait(d, false) })
		}, 10*time.Second + idleAfter}, // the proof lasts for 10 s
		{"a source hangs at the take-over", func(*WriterConfig) {}, func(x *writerTest) time.Duration {
			if a := x.tell(Tick{}); a != (Look{}) {
				t.Fatalf("planned %#v", a)
			}
			if a := x.tell(x.store.look()); a != (Relist{}) {
				t.Fatalf("planned %#v", a)
			}
			return ends(x, func(d time.Duration) Action { x.pass(d); return x.tell(Tick{}) })
		}, idleAfter},
		{"a bad file, which has its grace and then its withdrawal", fileSource, func(x *writerTest) time.Duration {
			x.lead()
			took := ends(x, func(d time.Duration) Action {
				x.run(x.tell(SourceFailed{Err: errors.New("no JSON")}))
				return x.wait(d, false)
			})
			if got := x.beats(len(x.wrote) - 5); len(got) == 0 || !got[len(got)-1].Withdrawn() {
				t.Errorf("the term ended on %+v", got)
			}
			return took
		}, 60*time.Second + idleAfter},
		{"a list that is too large, wherever it is read", func(*WriterConfig) {}, func(x *writerTest) time.Duration {
			x.lead()
			w := x.change("b").(Write)
			x.run(x.tell(Written{Result: WriteTooLarge, Err: errors.New("too large")}))
			if w.Key != SnapshotKey(gateway) || x.w.Status(x.at).Withdrawn == "" {
				t.Fatal("not withdrawn")
			}
			return ends(x, func(d time.Duration) Action { return x.wait(d, true) })
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newWriterTest(t, c.edit)
			if took := c.run(x); c.want == 0 && took != 0 || c.want != 0 && (took < c.want || took > c.want+2*time.Second) {
				t.Errorf("ended after %s, want %s", took, c.want)
			}
		})
	}
}

// TestGraceIsNoIdleness: a file that is good again, late in its grace or after it, finds its leader.
func TestGraceIsNoIdleness(t *testing.T) {
	for _, bad := range []time.Duration{59 * time.Second, 75 * time.Second} {
		x := newWriterTest(t, fileSource)
		x.lead()
		x.run(x.tell(SourceFailed{Err: errors.New("no JSON")}))
		x.wait(bad, false)
		mark := len(x.wrote)
		x.run(x.tell(x.listed(ProofFile)))
		a := x.wait(time.Second, false)
		if got := x.beats(mark); a != nil || len(got) == 0 || got[0].Withdrawn() {
			t.Errorf("after %s: %#v, beats %+v", bad, a, got)
		}
	}
}

// TestIdleWakes: a writer whose source hangs is woken for its end.
func TestIdleWakes(t *testing.T) {
	x := newWriterTest(t)
	begun := x.at.Mono
	x.tell(Tick{})
	x.tell(x.store.look())
	for x.plan.Wake > x.at.Mono {
		x.pass(x.plan.Wake - x.at.Mono)
		x.tell(Tick{})
	}
	x.ended(x.plan.Action, EndIdle)
	if took := x.at.Mono - begun; took != idleAfter {
		t.Errorf("woken after %s", took)
	}
}

// TestWriterRekeyed: a writer judges by the keys that it was told last.
func TestWriterRekeyed(t *testing.T) {
	old, next := testSigner(t, 1), testSigner(t, 2)
	begin := func(signer *Signer, name string, c *clockwork, s *store, keys KeySet) *writerTest {
		config := testWriterConfig()
		config.Name = name
		w, err := NewWriter(config, signer, keys)
		if err != nil {
			t.Fatal(err)
		}
		x := &writerTest{clockwork: c, t: t, w: w, store: s, list: []string{"team-a"}}
		x.lead()
		return x
	}
	t.Run("a successor with the new key", func(t *testing.T) {
		x := begin(old, "old", newClockwork(time.Hour), newStore(), testKeys(t, old))
		both := testKeys(t, old, next)
		y := begin(next, "new", x.clockwork, x.store, both)
		stored := x.store.sequence
		x.pass(time.Second)
		w := x.tell(Proved{Kind: ProofList, At: x.at.Mono}).(Write)
		if a := x.tell(x.store.cas(w)); a != (Look{}) { // in conflict
			t.Fatalf("planned %#v", a)
		}
		if a := x.tell(Rekeyed{Keys: both}); a != nil {
			t.Fatalf("planned %#v while a look is on its way", a)
		}
		x.ended(x.tell(x.store.look()), EndSuperseded)
		if x.store.sequence != stored || y.w.over != nil {
			t.Error("the successor was overwritten")
		}
	})
	t.Run("its own key is gone", func(t *testing.T) {
		x := begin(old, "old", newClockwork(time.Hour), newStore(), testKeys(t, old))
		x.ended(x.tell(Rekeyed{Keys: testKeys(t, next)}), EndKeyGone)
		x.reports(FoundKeyGone)
	})
	t.Run("no keys", func(t *testing.T) {
		x := begin(old, "old", newClockwork(time.Hour), newStore(), testKeys(t, old))
		x.ended(x.tell(Rekeyed{}), EndKeyGone)
	})
}

// TestProofAgeAtTheStampedInstant: what a beat rests on is no older than source_max_age at the instant that the beat
// says it was issued, to the nanosecond.
func TestProofAgeAtTheStampedInstant(t *testing.T) {
	const limit = 10 * time.Second
	for _, c := range []struct {
		name  string
		after time.Duration
		live  bool
	}{
		{"at the limit", limit, true},
		{"beyond it", limit + 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTerm(t, newClockwork(time.Hour+1234567), newStore())
			x.lead()
			proven := x.at.Mono
			x.pass(1500 * time.Microsecond)
			x.run(x.tell(Listed{List: x.w.source.list, Version: "v", Order: 9, Kind: ProofList, ProvenAt: proven}))
			x.wait(5*time.Second, false)
			mark := len(x.wrote)
			x.pass(proven + c.after - x.at.Mono)
			a := x.tell(Tick{})
			got := x.beats(mark)
			if len(got) != map[bool]int{true: 1}[c.live] {
				t.Fatalf("planned %#v", a)
			}
			for _, h := range got {
				if age := x.w.began + h.Issued - proven; age > limit || age <= limit-time.Millisecond {
					t.Errorf("the beat is stamped %s after its proof", age)
				}
			}
		})
	}
}
