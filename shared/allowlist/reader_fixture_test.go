package allowlist

import (
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// clockwork is the clocks of one simulated machine.
type clockwork struct{ at Instant }

func newClockwork(mono time.Duration) *clockwork {
	return &clockwork{at: Instant{Mono: mono, Wall: wallStart, Boot: 100*time.Hour + mono}}
}

// pass lets time pass on every clock.
func (c *clockwork) pass(d time.Duration) {
	c.at.Mono, c.at.Boot, c.at.Wall = c.at.Mono+d, c.at.Boot+d, c.at.Wall.Add(d)
}

// sleep lets time pass on the clocks that run while the machine sleeps.
func (c *clockwork) sleep(d time.Duration) { c.at.Boot, c.at.Wall = c.at.Boot+d, c.at.Wall.Add(d) }

// step moves the wall clock alone.
func (c *clockwork) step(d time.Duration) { c.at.Wall = c.at.Wall.Add(d) }

// author writes records of one epoch, without the rules of a Writer: it can write anything.
type author struct {
	t      testing.TB
	signer *Signer
	epoch  uint64
	began  time.Duration // on the clock of the test
	beats  uint64
	lists  map[uint64]Digest
	stored map[uint64][]byte
}

func newAuthor(t testing.TB, epoch uint64, began time.Duration) *author {
	return &author{t: t, signer: testSigner(t, 1), epoch: epoch, began: began, lists: map[uint64]Digest{}, stored: map[uint64][]byte{}}
}

func (a *author) snapshot(revision uint64, now Instant, names ...string) []byte {
	a.t.Helper()
	s := Snapshot{
		GatewayID: gateway, Epoch: a.epoch, Revision: revision, Writer: "w", PublishedAt: stampTime(now.Wall),
		Source: Source{Kind: SourceLabel, Selector: "a=b", Version: "1"}, Namespaces: listOf(a.t, names...),
	}
	record, digest, err := SealSnapshot(s, a.signer)
	if err != nil {
		a.t.Fatal(err)
	}
	a.lists[revision], a.stored[revision] = digest, record
	return record
}

// again stores a revision once more, as it was.
func (x *readerTest) again(a *author, revision uint64) Effects {
	x.t.Helper()
	return x.put(SnapshotKey(gateway), a.stored[revision])
}

// heartbeat is the next beat, edited at will.
func (a *author) heartbeat(revision uint64, now Instant, edits ...func(*Heartbeat)) []byte {
	a.t.Helper()
	a.beats++
	h := Heartbeat{
		GatewayID: gateway, Epoch: a.epoch, Revision: revision, Digest: a.lists[revision], Beat: a.beats,
		Issued: (now.Mono - a.began).Truncate(time.Millisecond), PublishedAt: stampTime(now.Wall), Writer: "w",
		Proof: Proof{Kind: ProofList}, TTL: 5 * time.Second,
	}
	if h.Digest.IsZero() {
		h.Digest = digestOf([]byte{byte(revision)})
	}
	for _, edit := range edits {
		edit(&h)
	}
	record, err := SealHeartbeat(h, a.signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return record
}

// readerTest drives a Reader whose machine shares a clock with the authors.
type readerTest struct {
	*clockwork
	t    testing.TB
	r    *Reader
	last Effects
}

func newReaderTest(t testing.TB) *readerTest {
	return &readerTest{clockwork: newClockwork(time.Hour), t: t, r: testReader(t, Marks{})}
}

func testReader(t testing.TB, marks Marks) *Reader {
	t.Helper()
	return readerWith(t, testSettings(), marks)
}

func readerWith(t testing.TB, s Settings, marks Marks) *Reader {
	t.Helper()
	r, err := NewReader(gateway, testKeys(t, testSigner(t, 1)), s, marks)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (x *readerTest) put(key string, value []byte) Effects {
	x.last = x.r.Step(x.at, Record{Key: key, Operation: OperationPut, Value: value})
	return x.last
}

func (x *readerTest) snapshot(a *author, revision uint64, names ...string) Effects {
	x.t.Helper()
	return x.put(SnapshotKey(gateway), a.snapshot(revision, x.at, names...))
}

func (x *readerTest) heartbeat(a *author, revision uint64, edits ...func(*Heartbeat)) Effects {
	x.t.Helper()
	return x.put(HeartbeatKey(gateway), a.heartbeat(revision, x.at, edits...))
}

// wait passes time in ticks.
func (x *readerTest) wait(d time.Duration) {
	for d > 0 {
		step := min(d, 250*time.Millisecond)
		x.pass(step)
		x.last = x.r.Step(x.at, Tick{})
		d -= step
	}
}

// open makes the reader Fresh at a revision of a: the list, and two beats.
func (x *readerTest) open(a *author, revision uint64, names ...string) {
	x.t.Helper()
	x.snapshot(a, revision, names...)
	x.heartbeat(a, revision)
	x.wait(time.Second)
	x.heartbeat(a, revision)
	x.expect(fresh())
}

func (x *readerTest) expect(want Condition) {
	x.t.Helper()
	if got := x.r.View().Condition(x.at); got != want {
		x.t.Fatalf("at %s the reader is %s (%s), want %s (%s)", x.at.Mono, got.State, got.Reason, want.State, want.Reason)
	}
	if got := x.r.Status(x.at).Condition; got != want {
		x.t.Fatalf("the status says %v, the view %v", got, want)
	}
}

// answers asks for one name; an empty reason is a yes.
func (x *readerTest) answers(name string, want verdict.Reason) Answer {
	x.t.Helper()
	a := x.r.View().Check(name, x.at)
	if a.Reason != want || a.Allowed() != (want == "") {
		x.t.Fatalf("at %s %s is allowed %v with reason %q, want reason %q", x.at.Mono, name, a.Allowed(), a.Reason, want)
	}
	return a
}

// found reports whether the last step found something of a kind.
func (e Effects) found(kind FindingKind) bool {
	return slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.Kind == kind })
}

func (x *readerTest) finds(kinds ...FindingKind) {
	x.t.Helper()
	var got []string
	for _, f := range x.last.Findings {
		got = append(got, f.Kind.String())
	}
	var want []string
	for _, k := range kinds {
		want = append(want, k.String())
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("findings %v, want %v", got, want)
	}
}
