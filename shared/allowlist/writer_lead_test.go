package allowlist

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBeatsNeedProof is rule W4: a timer alone proves nothing.
func TestBeatsNeedProof(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	mark := len(x.wrote)
	x.wait(30*time.Second, false)
	got := x.beats(mark)
	if len(got) != 10 {
		t.Errorf("%d beats in 30s after one proof, want those of 10s", len(got))
	}
	for i, h := range got {
		if h.Withdrawn() || h.Proof.Age != time.Duration(i+1)*time.Second || h.Beat != uint64(i+2) {
			t.Errorf("beat %d: %+v", i, h)
		}
	}
	// A proof is never younger than it is said to be.
	x.run(x.tell(Proved{Kind: ProofList, At: x.at.Mono}))
	x.pass(time.Second + time.Microsecond)
	if h := x.beatOf(x.tell(Tick{})); h.Proof.Age != time.Second+time.Millisecond {
		t.Errorf("a proof of %s ago is said to be %s old", time.Second+time.Microsecond, h.Proof.Age)
	}
	x.run(x.tell(x.store.cas(x.wrote[len(x.wrote)-1])))
	x.wait(10*time.Second, false)
	x.reports(FoundUnproven)
	if n := len(slices.DeleteFunc(slices.Clone(x.found), func(k FindingKind) bool { return k != FoundUnproven })); n != 2 {
		t.Errorf("reported %d times", n)
	}
	// The proof is enough, at once; a proof of before is not.
	mark = len(x.wrote)
	x.run(x.tell(Proved{Kind: ProofList, At: x.at.Mono - 10*time.Second - 1}))
	if len(x.beats(mark)) != 0 {
		t.Error("a proof of long ago made a beat")
	}
	x.run(x.tell(Proved{Kind: ProofList, At: x.at.Mono}))
	if h := x.beats(mark); len(h) != 1 || h[0].Proof != (Proof{Kind: ProofList}) {
		t.Errorf("beats %+v", h)
	}
	// A proof of another kind of source is none, and one from the future counts from now.
	x.wait(10*time.Second, false)
	mark = len(x.wrote)
	x.run(x.tell(Proved{Kind: ProofFile, At: x.at.Mono}))
	x.run(x.tell(Proved{Kind: 0, At: x.at.Mono}))
	x.wait(time.Second, false)
	if len(x.beats(mark)) != 0 {
		t.Error("a file proved the list of a label")
	}
	x.run(x.tell(Proved{Kind: ProofList, At: x.at.Mono + time.Hour}))
	x.wait(11*time.Second, false)
	if n := len(x.beats(mark)); n != 11 {
		t.Errorf("%d beats on a proof from the future", n)
	}
}

// TestThawedWatchProvesNothing: the API server hangs, namespaces leave the source, and when the watch comes back the
// first of many old events arrives. The list that it makes is long out of date.
func TestThawedWatchProvesNothing(t *testing.T) {
	x := newWriterTest(t)
	x.list = []string{"a", "left-long-ago"}
	x.lead()
	x.wait(25*time.Second, false)
	mark := len(x.wrote)
	x.run(x.change("a", "b", "left-long-ago"))
	x.run(x.tell(Proved{Kind: ProofWatch, At: x.at.Mono}))
	x.wait(time.Second, false)
	if got := x.beats(mark); len(got) != 0 {
		t.Errorf("vouched for by an event: %+v", got)
	}
	x.list = []string{"a", "b"}
	x.run(x.tell(x.listed(ProofList)))
	if got := x.beats(mark); len(got) != 1 {
		t.Errorf("after a relist %d beats", len(got))
	}
	// While lists keep coming, events are shown as the newest proof.
	x.pass(time.Second)
	x.run(x.tell(Proved{Kind: ProofWatch, At: x.at.Mono}))
	if got := x.beats(mark); len(got) != 2 || got[1].Proof != (Proof{Kind: ProofWatch}) {
		t.Errorf("beats %+v", got)
	}
}

// TestProofBeforeListIsNone: a watch that bookmarks proves nothing before there is a list.
func TestProofBeforeListIsNone(t *testing.T) {
	x := newWriterTest(t)
	x.tell(Tick{})
	x.tell(Proved{Kind: ProofWatch, At: x.at.Mono})
	if s := x.w.Status(x.at); s.Proven {
		t.Error("proven without a list")
	}
}

// TestRemovalGoesOutAtOnce is rule W6, and W3.
func TestRemovalGoesOutAtOnce(t *testing.T) {
	x := newWriterTest(t)
	x.list = []string{"a", "b"}
	x.lead()
	x.pass(100 * time.Millisecond)
	w := x.change("a")
	s := x.snapshotOf(w)
	if s.Revision != 2 || s.Namespaces.Len() != 1 || !slices.Equal(s.Changes.Removed, []string{"b"}) || s.Previous != digestOf(x.payload(x.wrote[0])) {
		t.Errorf("removal %+v", s)
	}
	if b := x.beatOf(x.tell(x.store.cas(w.(Write)))); b.Revision != 2 || b.Digest != digestOf(x.payload(w)) || b.Beat != 2 {
		t.Errorf("the beat after it %+v", b)
	}
	x.run(x.tell(x.store.cas(x.wrote[len(x.wrote)-1])))
	// The same list is not a new revision.
	mark := len(x.wrote)
	x.run(x.change("a"))
	x.run(x.tell(x.listed(ProofList)))
	x.wait(3*time.Second, true)
	if n := len(x.snapshots(mark)); n != 0 {
		t.Errorf("%d snapshots of the same list", n)
	}
	// A namespace that was made anew is a removal.
	list := listOf(t, "a")
	list.entries[0].UID = "another"
	x.order++
	if s := x.snapshotOf(x.tell(Listed{List: list, Version: "v", Order: x.order, Kind: ProofWatch, ProvenAt: x.at.Mono})); s.Revision != 3 {
		t.Errorf("revision %d", s.Revision)
	}
}

// TestAdditionsAreGathered is the other half of rule W6.
func TestAdditionsAreGathered(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.pass(100 * time.Millisecond)
	if s := x.snapshotOf(x.change("team-0", "team-a")); s.Revision != 2 {
		t.Fatalf("an addition after a pause is published as %d", s.Revision)
	}
	x.run(x.tell(x.store.cas(x.wrote[len(x.wrote)-1])))
	if a := x.change("team-0", "team-a", "team-b"); a != nil {
		t.Fatalf("an addition right after another is published at once: %#v", a)
	}
	if x.plan.Wake != x.at.Mono+5*time.Millisecond {
		t.Errorf("wakes after %s", x.plan.Wake-x.at.Mono)
	}
	x.pass(3 * time.Millisecond)
	if a := x.change("team-0", "team-a", "team-b", "team-c"); a != nil {
		t.Fatalf("a second addition is published at once: %#v", a)
	}
	x.pass(2 * time.Millisecond)
	w := x.tell(Tick{})
	if s := x.snapshotOf(w); s.Revision != 3 || !slices.Equal(s.Changes.Added, []string{"team-b", "team-c"}) {
		t.Errorf("published %+v", s.Changes)
	}
	x.beatOf(x.tell(x.store.cas(w.(Write))))
	x.run(x.tell(x.store.cas(x.wrote[len(x.wrote)-1])))
	// An addition that is taken back never was.
	x.change("team-0", "team-a", "team-b", "team-c", "team-d")
	x.change("team-0", "team-a", "team-b", "team-c")
	mark := len(x.wrote)
	x.wait(900*time.Millisecond, true)
	if len(x.wrote) != mark {
		t.Errorf("%d writes", len(x.wrote)-mark)
	}
	// A removal takes what was gathered with it.
	x.run(x.change("team-0", "team-a", "team-b", "team-c", "team-d"))
	x.change("team-0", "team-a", "team-b", "team-c", "team-d", "team-e")
	if s := x.snapshotOf(x.change("team-0", "team-a", "team-b", "team-e")); s.Revision != 5 || len(s.Changes.Added) != 1 || len(s.Changes.Removed) != 2 {
		t.Errorf("published %+v", s.Changes)
	}
}

// TestBeatDoesNotOvertakeAnAddition: a beat that is due publishes what was gathered first.
func TestBeatDoesNotOvertakeAnAddition(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.pass(time.Second - 2*time.Millisecond)
	x.run(x.change("team-a", "team-b"))
	x.w.beats.next = x.at.Mono + 2*time.Millisecond
	if a := x.change("team-a", "team-b", "team-c"); a != nil {
		t.Fatalf("planned %#v", a)
	}
	x.pass(2 * time.Millisecond)
	w := x.tell(Tick{})
	if s := x.snapshotOf(w); s.Revision != 3 {
		t.Errorf("revision %d", s.Revision)
	}
}

// TestBusySourceIsVouchedFor: a source that changes during every write still gets a beat for every list.
func TestBusySourceIsVouchedFor(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	mark := len(x.wrote)
	var action Action
	for i := range 20 {
		x.pass(6 * time.Millisecond)
		names := append([]string{"team-a"}, manyNames(i+1)...)
		if action == nil {
			action = x.change(names...)
			continue
		}
		x.change(names...)
		action = x.tell(x.store.cas(action.(Write)))
	}
	if s, b := len(x.snapshots(mark)), len(x.beats(mark)); s < 5 || b < s-1 {
		t.Errorf("%d snapshots and %d beats", s, b)
	}
}

// TestListsDoNotGoBack is rule W5.
func TestListsDoNotGoBack(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	old := x.listed(ProofList)
	x.list = []string{"team-b"}
	x.run(x.tell(x.listed(ProofWatch)))
	mark := len(x.wrote)
	x.run(x.tell(old))
	x.reports(FoundOldList)
	if len(x.wrote) != mark {
		t.Error("an older list was published")
	}
	x.wait(9*time.Second, false)
	old.ProvenAt = x.at.Mono
	x.run(x.tell(old))
	mark = len(x.wrote)
	x.wait(5*time.Second, false)
	if n := len(x.beats(mark)); n > 1 {
		t.Errorf("%d beats on the proof of an older list", n)
	}
}

// TestRelistReplaces is rule W5: what a list does not hold is gone.
func TestRelistReplaces(t *testing.T) {
	x := newWriterTest(t)
	x.list = []string{"a", "b", "c"}
	x.lead()
	x.list = []string{"c", "d"}
	mark := len(x.wrote)
	x.run(x.tell(x.listed(ProofList)))
	if s := x.snapshots(mark); len(s) != 1 || !s[0].Namespaces.Equal(listOf(t, "c", "d")) {
		t.Errorf("published %v", s)
	}
}

func fileSource(c *WriterConfig) { c.Source = Source{Kind: SourceFile, Path: "/etc/list.json"} }

// TestFailedFile is rule W9: the list does not change, is vouched for while its last proof lasts, and is withdrawn
// after the grace.
func TestFailedFile(t *testing.T) {
	x := newWriterTest(t, fileSource)
	x.lead()
	mark := len(x.wrote)
	start := x.at.Mono
	x.run(x.tell(SourceFailed{Err: errors.New("line 1\nis no JSON")}))
	x.wait(59*time.Second, false)
	x.run(x.tell(SourceFailed{Err: errors.New("line 2\nis no JSON")}))
	for _, h := range x.beats(mark) {
		if h.Withdrawn() || h.Issued > 10*time.Second {
			t.Errorf("in the grace: %+v", h)
		}
	}
	if len(x.snapshots(mark)) != 0 {
		t.Error("a failed reload changed the list")
	}
	mark = len(x.wrote)
	x.wait(3*time.Second, false)
	got := x.beats(mark)
	if len(got) < 2 || !got[0].Withdrawn() || got[0].Reason != "the file could not be used for 1m0s: line 2 is no JSON" || got[0].Issued != 60*time.Second {
		t.Fatalf("after the grace: %+v, %s after the start", got, x.at.Mono-start)
	}
	if got[0].Revision != 1 || got[0].Proof.Age < 60*time.Second {
		t.Errorf("the withdrawal names revision %d with a proof of %s ago", got[0].Revision, got[0].Proof.Age)
	}
	if s := x.w.Status(x.at); s.Withdrawn == "" {
		t.Error("the status hides the withdrawal")
	}
	// A good read ends it, without a new revision.
	mark = len(x.wrote)
	x.run(x.tell(x.listed(ProofFile)))
	x.wait(time.Second, false)
	if got := x.beats(mark); len(got) == 0 || got[0].Withdrawn() || len(x.snapshots(mark)) != 0 {
		t.Errorf("after a good read: %+v", got)
	}
}

// TestFailureThatEnds: a failure and a success in turn never add up to a withdrawal.
func TestFailureThatEnds(t *testing.T) {
	x := newWriterTest(t, fileSource)
	x.lead()
	for range 30 {
		x.run(x.tell(SourceFailed{Err: errors.New("half written")}))
		x.wait(2*time.Second, false)
		x.run(x.tell(Proved{Kind: ProofFile, At: x.at.Mono}))
		x.wait(2*time.Second, false)
	}
	for _, h := range x.beats(0) {
		if h.Withdrawn() {
			t.Fatalf("withdrawn: %s", h.Reason)
		}
	}
}

// TestFailedLabelSourceOnlyFallsSilent is rule W9.
func TestFailedLabelSourceOnlyFallsSilent(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.run(x.tell(SourceFailed{Err: errors.New("forbidden")}))
	mark := len(x.wrote)
	x.wait(5*time.Minute, false)
	for _, h := range x.beats(mark) {
		if h.Withdrawn() || h.Issued > 11*time.Second {
			t.Errorf("%+v", h)
		}
	}
}

// TestEmptyList is rule W11: an empty list is published when the source proved one, and never for lack of one.
func TestEmptyList(t *testing.T) {
	x := newWriterTest(t)
	x.list = nil
	x.lead()
	if s := x.snapshots(0); len(s) != 1 || s[0].Namespaces.Len() != 0 {
		t.Errorf("published %+v", s)
	}
	z := newWriterTest(t)
	z.tell(Tick{})
	z.tell(z.store.look())
	z.tell(SourceFailed{Err: errors.New("no answer")})
	for range 10 {
		z.pass(time.Second)
		z.tell(Tick{})
		z.tell(SourceFailed{Err: errors.New("no answer")})
	}
	if len(z.wrote) != 0 {
		t.Error("a source that never answered was published")
	}
}

func TestTooLargeWithdraws(t *testing.T) {
	for _, name := range []string{"the server says so", "no record holds it"} {
		t.Run(name, func(t *testing.T) {
			x := newWriterTest(t)
			x.lead()
			mark := len(x.wrote)
			x.pass(100 * time.Millisecond)
			var b Heartbeat
			if name == "the server says so" {
				x.snapshotOf(x.change("team-b"))
				b = x.beatOf(x.tell(Written{Result: WriteTooLarge, Err: errors.New("max payload is 1 MiB")}))
			} else {
				in := x.listed(ProofWatch)
				in.List = List{}
				for i := range MaxNames + 1 {
					in.List.entries = append(in.List.entries, Entry{Name: fmt.Sprintf("%06d", i), UID: "u"})
				}
				b = x.beatOf(x.tell(in))
			}
			x.reports(FoundTooLarge)
			if !strings.Contains(b.Reason, "too large") || b.Revision != 1 {
				t.Errorf("beat %+v", b)
			}
			x.run(x.tell(x.store.cas(x.wrote[len(x.wrote)-1])))
			x.wait(3*time.Second, true)
			x.run(x.tell(Listed{List: x.w.source.list, Version: "v", Order: x.order, Kind: ProofList, ProvenAt: x.at.Mono}))
			x.wait(3*time.Second, true)
			for _, h := range x.beats(mark) {
				if !h.Withdrawn() {
					t.Errorf("a live beat %+v while the list cannot be stored", h)
				}
			}
			if n := len(x.snapshots(mark)); n > 1 {
				t.Errorf("the list was tried %d times", n)
			}
			// A list that fits ends it.
			mark = len(x.wrote)
			x.run(x.change("team-c"))
			if s, h := x.snapshots(mark), x.beats(mark); len(s) != 1 || len(h) != 1 || h[0].Withdrawn() || h[0].Revision != s[0].Revision {
				t.Errorf("snapshots %+v, beats %+v", s, h)
			}
		})
	}
}

// TestTooLargeAfterItWasReplaced: the server's answer is about the list that was sent, not about the one that the source
// has now.
func TestTooLargeAfterItWasReplaced(t *testing.T) {
	x := newWriterTest(t)
	x.lead()
	x.pass(100 * time.Millisecond)
	x.snapshotOf(x.change("team-b"))
	x.change("team-c") // while the other is on its way
	mark := len(x.wrote)
	if s := x.snapshotOf(x.tell(Written{Result: WriteTooLarge, Err: errors.New("max payload is 1 MiB")})); s.Namespaces.entries[0].Name != "team-c" {
		t.Errorf("published %+v", s)
	}
	x.run(x.tell(x.store.cas(x.wrote[mark])))
	if h := x.beats(mark); len(h) != 1 || h[0].Withdrawn() {
		t.Errorf("beats %+v", h)
	}
}

// TestTooLargeAtTakeOver: a writer that cannot fence writes nothing.
func TestTooLargeAtTakeOver(t *testing.T) {
	x := newWriterTest(t)
	x.tell(Tick{})
	x.tell(x.store.look())
	x.snapshotOf(x.tell(x.listed(ProofList)))
	if a := x.tell(Written{Result: WriteTooLarge, Err: errors.New("max payload")}); a != nil {
		t.Errorf("planned %#v", a)
	}
	x.wait(20*time.Second, true)
	if len(x.wrote) != 1 {
		t.Errorf("%d writes", len(x.wrote))
	}
	x.change("team-b") // only a watch event, but the list is fresh
	if s := x.snapshotOf(x.plan.Action); s.Namespaces.Len() != 1 {
		t.Errorf("published %+v", s)
	}
}
