package labelsource

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

const (
	testRelist = 5 * time.Second
	testMaxAge = 10 * time.Second
	testPause  = 700 * time.Millisecond
	testCost   = 10 * time.Millisecond
)

// desk drives a core like the shell does, on a clock of its own.
type desk struct {
	*testing.T
	core *core
	at   time.Duration
	plan plan
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, at: time.Minute, core: newCore(
		bounds{selector: "a=b", relist: testRelist, maxAge: testMaxAge},
		backoff.NewConstantBackOff(testPause), backoff.NewConstantBackOff(testPause),
	)}
	d.core.begin(d.at)
	return d
}

// next asks what to do now.
func (d *desk) next() plan {
	d.plan = d.core.next(d.at)
	return d.plan
}

// settle brings the core to a list of these names at order, and a watch that has lasted a while.
func (d *desk) settle(order uint64, names ...string) {
	d.Helper()
	if d.next().list == nil {
		d.Fatal("no list is asked for at the start")
	}
	d.listed(order, names...)
	d.wantWatch(order)
	d.report()
	d.at += 2 * settled
}

func (d *desk) listed(order uint64, names ...string) (outcome, *failure) {
	d.at += testCost
	return d.core.listed(d.at, listOf(order, names...))
}

func (d *desk) event(f form, order uint64, name string) outcome {
	return d.core.event(d.at, d.core.watch.id, change{form: f, order: order, namespace: candidate(name)})
}

func (d *desk) ended(k kind) {
	d.core.watchEnded(d.at, d.core.watch.id, failure{kind: k, err: errors.New(string(k))})
}

// sleep goes to the instant at which something is due, which may be now.
func (d *desk) sleep() plan {
	d.Helper()
	if p := d.next(); p.list != nil || p.watch != nil || p.behind {
		return p
	}
	wake := d.plan.wake
	if wake < d.at {
		d.Fatalf("wakes at %s, and it is %s", wake, d.at)
	}
	d.at = wake
	return d.next()
}

// untilList goes on until a list is on its way.
func (d *desk) untilList() {
	d.Helper()
	for d.next(); !d.core.list.running; {
		d.sleep()
	}
}

func (d *desk) report() allowlist.Input {
	return d.core.report(func(c []allowlist.Candidate) allowlist.List {
		list, _ := allowlist.Select(c, allowlist.Refusals{})
		return list
	})
}

func (d *desk) wantWatch(from uint64) {
	d.Helper()
	if p := d.next(); p.watch == nil || p.watch.from != from {
		d.Fatalf("watch asked for: %+v, want one from %d", p.watch, from)
	}
}

func (d *desk) wantNames(order uint64, names ...string) {
	d.Helper()
	if d.core.order != order {
		d.Errorf("order is %d, want %d", d.core.order, order)
	}
	var got []string
	for _, n := range d.core.namespaces {
		got = append(got, n.Name)
	}
	if !slices.Equal(names, got) {
		d.Errorf("namespaces are %v, want %v", got, names)
	}
}

func candidate(name string) allowlist.Candidate {
	return allowlist.Candidate{Name: name, UID: "uid-" + name}
}

// listOf is a list of names, all of them changed at its order.
func listOf(order uint64, names ...string) listing {
	l := listing{order: order}
	for _, n := range slices.Sorted(slices.Values(names)) {
		l.namespaces, l.orders = append(l.namespaces, candidate(n)), append(l.orders, order)
	}
	return l
}

func TestStartAsksForAListAndThenForAWatchFromIt(t *testing.T) {
	d := newDesk(t)
	p := d.next()
	if p.list == nil || p.watch != nil {
		t.Fatalf("plan is %+v, want a list and no watch before it", p)
	}
	began := d.at
	d.listed(40, "b", "a")
	got, ok := d.report().(allowlist.Listed)
	if !ok || got.Order != 40 || got.Version != "40" || got.Kind != allowlist.ProofList || got.ProvenAt != began || got.List.Len() != 2 {
		t.Errorf("report is %+v, want the list proven for when it was asked for", got)
	}
	d.wantWatch(40)
	if d.plan.list != nil {
		t.Error("a second list is asked for at once")
	}
}

func TestEventsAreAppliedAndReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		form  form
		order uint64
		of    string
		want  outcome
		names []string
		kind  string
	}{
		{"added", upsert, 41, "c", outcomeChanged, []string{"a", "b", "c"}, "listed"},
		{"changed labels", upsert, 41, "a", outcomeUnchanged, []string{"a", "b"}, "proved"},
		{"removed", removal, 41, "a", outcomeChanged, []string{"b"}, "listed"},
		{"removed and never there", removal, 41, "c", outcomeUnchanged, []string{"a", "b"}, "proved"},
		{"bookmark", bookmark, 60, "", outcomeUnchanged, []string{"a", "b"}, "proved"},
		{"bookmark of what is known", bookmark, 40, "", outcomeUnchanged, []string{"a", "b"}, "proved"},
		{"bookmark that is late", bookmark, 39, "", outcomeNotNewer, []string{"a", "b"}, "nothing"},
		{"seen in the list", upsert, 40, "c", outcomeNotNewer, []string{"a", "b"}, "nothing"},
		{"older removal", removal, 39, "a", outcomeNotNewer, []string{"a", "b"}, "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.settle(40, "a", "b")
			if got := d.event(c.form, c.order, c.of); got != c.want {
				t.Errorf("outcome is %s, want %s", got, c.want)
			}
			d.wantNames(max(40, c.order), c.names...)
			switch in := d.report().(type) {
			case allowlist.Listed:
				if c.kind != "listed" || in.Kind != allowlist.ProofWatch || in.ProvenAt != d.at || in.Order != c.order {
					t.Errorf("report is %+v, want %s", in, c.kind)
				}
			case allowlist.Proved:
				if c.kind != "proved" || in.Kind != allowlist.ProofWatch || in.At != d.at {
					t.Errorf("report is %+v, want %s", in, c.kind)
				}
			default:
				if c.kind != "nothing" {
					t.Errorf("report is %+v, want %s", in, c.kind)
				}
			}
		})
	}
}

func TestRelistReplacesTheSet(t *testing.T) {
	for _, c := range []struct {
		name  string
		wish  bool
		order uint64
		names []string
		kind  string
	}{
		{"the same", false, 50, []string{"a", "b"}, "proved"},
		{"the same, wished", true, 50, []string{"a", "b"}, "listed"},
		{"one gone", false, 50, []string{"b"}, "listed"},
		{"other names", false, 50, []string{"c"}, "listed"},
		{"empty", false, 50, nil, "listed"},
		{"of the order that is known", false, 40, []string{"a", "b"}, "proved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.settle(40, "a", "b")
			if c.wish {
				d.core.wish()
				d.next()
			} else {
				d.sleep()
			}
			if d.plan.list == nil {
				t.Fatal("no list is asked for")
			}
			began := d.at
			d.listed(c.order, c.names...)
			d.wantNames(c.order, c.names...)
			switch in := d.report().(type) {
			case allowlist.Listed:
				if c.kind != "listed" || in.Kind != allowlist.ProofList || in.ProvenAt != began || in.Order != c.order {
					t.Errorf("report is %+v, want %s", in, c.kind)
				}
			case allowlist.Proved:
				if c.kind != "proved" || in.Kind != allowlist.ProofList || in.At != began {
					t.Errorf("report is %+v, want %s", in, c.kind)
				}
			default:
				t.Errorf("report is %+v, want %s", in, c.kind)
			}
		})
	}
}

func TestEventsDuringAListAreAppliedToIt(t *testing.T) {
	d := newDesk(t)
	d.settle(40, "a", "b")
	d.sleep()
	began := d.at
	d.event(upsert, 51, "c")
	d.event(removal, 53, "a")
	d.report()
	// The server answered before the second event and after the first.
	if _, f := d.listed(52, "a", "b", "c"); f != nil {
		t.Fatalf("a list that was overtaken on its way is refused: %v", f.err)
	}
	d.wantNames(53, "b", "c")
	if in, ok := d.report().(allowlist.Proved); !ok || in.Kind != allowlist.ProofList || in.At != began {
		t.Errorf("report is %+v, want a proof for when the list was asked for", in)
	}
}

func TestReplayW01AnOlderListIsRefused(t *testing.T) {
	d := newDesk(t)
	d.settle(40, "a")
	d.event(removal, 45, "a")
	d.report()
	d.sleep()
	if o, f := d.listed(44, "a"); f == nil || f.kind != kindOlder || o != outcomeNotNewer {
		t.Errorf("outcome is %s, failure %+v, want a refusal", o, f)
	}
	d.wantNames(45)
	if in, ok := d.report().(allowlist.SourceFailed); !ok || !errors.Is(in.Err, errOlder) {
		t.Errorf("report is %+v, want a failure", in)
	}
	failed := d.at
	if p := d.sleep(); p.list == nil || d.at-failed != testPause {
		t.Errorf("after a refused list the plan is %+v in %s, want a list after the pause", p, d.at-failed)
	}
	// A later life of the same source still knows.
	d.core.begin(d.at)
	d.next()
	if _, f := d.listed(44, "a"); f == nil {
		t.Error("an older list is taken after another begin")
	}
}

func TestWishWaitsForTheListUnderWay(t *testing.T) {
	d := newDesk(t)
	d.settle(40, "a")
	d.sleep()
	d.core.wish()
	d.core.wish()
	if d.next().list != nil {
		t.Fatal("two lists are on their way")
	}
	d.listed(41, "a")
	if in, ok := d.report().(allowlist.Proved); !ok {
		t.Errorf("the list that was under way reports %+v, want a proof: it answers no wish", in)
	}
	if d.next().list == nil {
		t.Fatal("the wish is not fulfilled at once")
	}
	d.listed(41, "a")
	if in, ok := d.report().(allowlist.Listed); !ok || in.Kind != allowlist.ProofList {
		t.Errorf("the wish is answered by %+v, want a list", in)
	}
	if d.next().list != nil {
		t.Error("two wishes that waited together make two lists")
	}
}

func TestWishIsAnsweredByAFailureToo(t *testing.T) {
	d := newDesk(t)
	d.settle(40, "a")
	d.core.wish()
	d.next()
	d.core.listFailed(d.at, failure{kind: kindServer, err: errors.New("no")})
	if in, ok := d.report().(allowlist.SourceFailed); !ok || in.Err.Error() != "no" {
		t.Errorf("report is %+v, want the failure", in)
	}
	d.wantNames(40, "a")
	// The publisher paces its wishes; the pause is not for them.
	d.core.wish()
	if d.next().list == nil {
		t.Error("the next wish waits")
	}
}

func TestEndsOfWatches(t *testing.T) {
	for _, c := range []struct {
		kind kind
		// list: a list comes before the next watch. paused: not at once even the first time. told: reported.
		list, paused, told bool
	}{
		{kind: kindClosed},
		{kind: kindTimeout},
		{kind: kindExpired, list: true},
		{kind: kindTooLarge, list: true},
		{kind: kindMalformed, list: true, paused: true, told: true},
		{kind: kindUnauthorized, paused: true, told: true},
		{kind: kindForbidden, paused: true, told: true},
		{kind: kindThrottled, paused: true, told: true},
		{kind: kindServer, paused: true, told: true},
		{kind: kindUnreachable, paused: true, told: true},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			d := newDesk(t)
			d.settle(40, "a")
			for round := range 3 {
				at := d.at
				d.ended(c.kind)
				if in, told := d.report().(allowlist.SourceFailed); told != c.told {
					t.Errorf("round %d: report is %+v, told %t", round, in, c.told)
				}
				p := d.sleep()
				want := time.Duration(0)
				if c.paused || round > 0 {
					want = testPause
				}
				if d.at-at != want || (p.list != nil) != c.list || (p.watch != nil) == c.list {
					t.Fatalf("round %d: after %s the plan is %+v, want it after %s", round, d.at-at, p, want)
				}
				if c.list {
					d.listed(41+uint64(round), "a")
					d.report()
					d.wantWatch(41 + uint64(round)) // a fresh version each time (bug corpus W05)
				}
			}
			d.wantNames(d.core.order, "a")
			d.at += settled
			d.ended(kindClosed)
			if d.next().watch == nil {
				t.Error("a watch that had settled is not followed by another at once")
			}
		})
	}
}

// TestRemovalIsReportedBeforeTheFailureBehindIt: rule W6 also for the last event of a watch that breaks.
func TestRemovalIsReportedBeforeTheFailureBehindIt(t *testing.T) {
	for _, k := range watchKinds {
		t.Run(string(k), func(t *testing.T) {
			d := newDesk(t)
			d.settle(40, "a", "b")
			d.event(removal, 41, "a")
			d.ended(k)
			if in, ok := d.report().(allowlist.Listed); !ok || in.Order != 41 || in.Kind != allowlist.ProofWatch || !slices.Equal(namesOf(in.List), []string{"b"}) {
				t.Errorf("first report is %+v, want the list without a", in)
			}
			if !(failure{kind: k}).repairable() {
				if in, ok := d.report().(allowlist.SourceFailed); !ok || in.Err.Error() != string(k) {
					t.Errorf("second report is %+v, want the failure", in)
				}
			}
			if in := d.report(); in != nil {
				t.Errorf("last report is %+v, want nothing", in)
			}
		})
	}
}

func TestWordOfAnAbandonedWatchCountsForNothing(t *testing.T) {
	d := newDesk(t)
	d.settle(40, "a")
	old := d.core.watch.id
	d.ended(kindClosed)
	d.next()
	if got := d.core.event(d.at, old, change{form: removal, order: 50, namespace: candidate("a")}); got != outcomeAbandoned {
		t.Errorf("outcome is %s", got)
	}
	if d.core.watchEnded(d.at, old, failure{kind: kindExpired}) {
		t.Error("the end of an abandoned watch ends the one that runs")
	}
	d.wantNames(40, "a")
}

func TestReplayW10AWatchThatSaysNothingIsOvertakenByTheLists(t *testing.T) {
	for _, c := range []struct {
		name   string
		names  []string
		tell   func(d *desk)
		behind bool
	}{
		{"added and silent", []string{"a", "b"}, func(*desk) {}, true},
		{"removed and silent", nil, func(*desk) {}, true},
		{"nothing new and silent", []string{"a"}, func(*desk) {}, false},
		{"tells it late", []string{"a", "b"}, func(d *desk) { d.event(upsert, 50, "b") }, false},
		{"tells something older", []string{"a", "b"}, func(d *desk) { d.event(upsert, 48, "a") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.settle(40, "a")
			d.sleep()
			d.listed(50, c.names...)
			d.report()
			shown := d.at
			c.tell(d)
			p := d.sleep()
			if p.behind != c.behind {
				t.Fatalf("plan %+v after %s, want behind %t", p, d.at-shown, c.behind)
			}
			if !c.behind {
				return
			}
			if p.watch == nil || p.watch.from != 50 || d.at-shown != patience {
				t.Errorf("after %s the plan is %+v, want a watch from 50 after %s", d.at-shown, p, patience)
			}
		})
	}
}
