package observe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

func TestMessages(t *testing.T) {
	bad := Item[snapshot.Sandbox]{UID: "u1", Version: 20, Problem: snapshot.ErrMalformed}
	for name, c := range map[string]struct {
		before []Change[snapshot.Sandbox] // before the caller joins
		after  []Change[snapshot.Sandbox]
		want   []string
	}{
		"nothing":        {},
		"everything":     {before: []Change[snapshot.Sandbox]{put(boxItem("u2", "b", 2, 2)), put(boxItem("u1", "a", 3, 3))}, want: []string{"a=3", "b=2"}},
		"a change":       {before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 2, 2))}, after: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 3, 3))}, want: []string{"a=3"}},
		"made":           {after: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 2, 2))}, want: []string{"a=2"}},
		"made and gone":  {after: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 2, 2)), dropped[snapshot.Sandbox]("u1", 3)}, want: []string{"-a"}},
		"gone and again": {before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 2, 2))}, after: []Change[snapshot.Sandbox]{dropped[snapshot.Sandbox]("u1", 3), put(boxItem("u2", "a", 4, 4))}, want: []string{"-a", "a=4"}},
		"gone twice":     {before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 2, 2))}, after: []Change[snapshot.Sandbox]{dropped[snapshot.Sandbox]("u1", 3), dropped[snapshot.Sandbox]("u1", 4)}, want: []string{"-a"}},
		"older":          {before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))}, after: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 4, 4)), dropped[snapshot.Sandbox]("u1", 3)}, want: []string{"a=5"}},
		"L: back from the dead": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5)), dropped[snapshot.Sandbox]("u1", 7)},
			after:  []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 6, 6))}, want: nil,
		},
		"left the selection and came back": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))},
			after:  []Change[snapshot.Sandbox]{dropped[snapshot.Sandbox]("u1", 6), put(boxItem("u1", "a", 7, 7))}, want: []string{"-a", "a=7"},
		},
		"another id": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))},
			after:  []Change[snapshot.Sandbox]{put(boxItem("u1", "b", 6, 6))}, want: []string{"-a", "b=6"},
		},
		"two of one id": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5)), put(boxItem("u2", "a", 6, 6))},
			after:  []Change[snapshot.Sandbox]{put(boxItem("u2", "a", 7, 7))}, want: nil,
		},
		"two of one id, one goes": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5)), put(boxItem("u2", "a", 6, 6))},
			after:  []Change[snapshot.Sandbox]{dropped[snapshot.Sandbox]("u2", 7)}, want: []string{"a=5"},
		},
		"two of one id, both go": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))},
			after:  []Change[snapshot.Sandbox]{put(boxItem("u2", "a", 6, 6)), dropped[snapshot.Sandbox]("u1", 7), dropped[snapshot.Sandbox]("u2", 8)}, want: []string{"-a", "-a"},
		},
		"two of one id, the one that was told goes": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))},
			after:  []Change[snapshot.Sandbox]{put(boxItem("u2", "a", 6, 6)), dropped[snapshot.Sandbox]("u1", 7), put(boxItem("u2", "a", 8, 8))}, want: []string{"-a", "a=8"},
		},
		"two of one id, the other cannot be read": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5)), put(boxItem("u2", "a", 6, 6))},
			after: []Change[snapshot.Sandbox]{
				put(Item[snapshot.Sandbox]{UID: "u2", Version: 7, Problem: snapshot.ErrMalformed}), dropped[snapshot.Sandbox]("u1", 8), put(boxItem("u2", "a", 9, 9)),
			}, want: []string{"-a", "a=9"},
		},
		"W19: cannot be read, and again": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))},
			after:  []Change[snapshot.Sandbox]{put(bad), put(boxItem("u1", "a", 21, 21))}, want: []string{"a=21"},
		},
		"W19: cannot be read": {before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5)), put(bad)}, want: nil},
		"W19: cannot be read, and gone": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))},
			after:  []Change[snapshot.Sandbox]{put(bad), dropped[snapshot.Sandbox]("u1", 21)}, want: []string{"-a"},
		},
		"nothing that matters": {
			before: []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 5, 5))},
			after:  []Change[snapshot.Sandbox]{put(boxItem("u1", "a", 6, 5)), {Form: Reached, Item: Item[snapshot.Sandbox]{Version: 9}}}, want: []string{"a=5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			core := listedCore(t)
			for _, ch := range c.before {
				core.changeBox(ch)
			}
			to := joined(core, 8)
			for _, ch := range c.after {
				core.changeBox(ch)
			}
			if diff := cmp.Diff(c.want, drain(core, to)); diff != "" {
				t.Error(diff)
			}
			if more := drain(core, to); more != nil {
				t.Errorf("told again: %v", more)
			}
		})
	}
}

func TestNothingIsToldBeforeAllWasListed(t *testing.T) {
	c := newCore()
	to := joined(c, 8)
	must(t, c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 5, Items: []Item[snapshot.Sandbox]{boxItem("u1", "a", 5, 5)}}))
	if got := drain(c, to); got != nil || c.complete() {
		t.Errorf("%v before the Pods are known", got)
	}
	must(t, c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 5}))
	if got := drain(c, to); got != nil {
		t.Errorf("%v of one that nobody was told of", got)
	}
	must(t, c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 5, Items: []Item[snapshot.Sandbox]{boxItem("u1", "a", 5, 5)}}))
	must(t, c.replacePods(Listing[snapshot.Pod]{Version: 5, Items: []Item[snapshot.Pod]{podItem("u1", 5, false, true), podItem("u1", 4, true, true)}}))
	if got := drain(c, to); !cmp.Equal(got, []string{"a=5"}) {
		t.Errorf("%v", got)
	}
	if ready := c.ids["a"].state().GetStatus().GetConditions()[1]; ready.GetStatus() != "True" {
		t.Errorf("%v", ready)
	}
}

func TestPodsChangeTheirSandbox(t *testing.T) {
	c := listedCore(t)
	c.changeBox(put(boxItem("u1", "a", 2, 2)))
	to := joined(c, 8)
	drain(c, to)
	readiness := func() string {
		for _, cond := range c.ids["a"].state().GetStatus().GetConditions() {
			if cond.GetType() == "Ready" {
				return cond.GetStatus() + " " + cond.GetMessage()
			}
		}
		return ""
	}
	crashed := podItem("u1", 7, false, false)
	crashed.Value.Cause = snapshot.Cause{Kind: snapshot.Crash, Text: "exit code 3"}
	for i, step := range []struct {
		change Change[snapshot.Pod]
		told   bool
		says   string
	}{
		{put(podItem("u1", 2, false, true)), true, "supervisor Pod is gone"},
		{put(podItem("u1", 3, true, true)), true, "True"},
		{put(podItem("u1", 4, true, true)), false, "True"},
		{put(podItem("u1", 1, false, false)), false, "True"}, // older
		{put(podItem("u2", 5, false, true)), false, "True"},  // another's
		{put(crashed), true, "crash: exit code 3"},           // L28
		{put(Item[snapshot.Pod]{UID: "u1-w", Version: 8, Problem: snapshot.ErrForeign}), true, "workload Pod is gone"},
		{put(podItem("u1", 9, false, true)), true, "True"},
		{dropped[snapshot.Pod]("u1-s", 10), true, "supervisor Pod is gone"},
		{put(podItem("u1", 9, true, true)), false, "supervisor Pod is gone"}, // it went meanwhile
	} {
		c.changePod(step.change)
		if got := drain(c, to); (got != nil) != step.told || !strings.Contains(readiness(), step.says) {
			t.Errorf("%d: told %v, says %q, want %t and %q", i, got, readiness(), step.told, step.says)
		}
	}
}

func TestListsReplace(t *testing.T) {
	c := listedCore(t)
	for _, i := range []Item[snapshot.Sandbox]{boxItem("u1", "a", 2, 2), boxItem("u2", "b", 3, 3), boxItem("u3", "c", 4, 4)} {
		c.changeBox(put(i))
	}
	to := joined(c, 8)
	drain(c, to)
	list := Listing[snapshot.Sandbox]{Version: 9, Items: []Item[snapshot.Sandbox]{boxItem("u9", "a", 8, 8), boxItem("u2", "b", 7, 7), boxItem("u3", "c", 4, 4)}}
	must(t, c.replaceBoxes(list))
	if diff := cmp.Diff([]string{"-a", "a=8", "b=7"}, drain(c, to)); diff != "" {
		t.Error(diff)
	}
	must(t, c.replaceBoxes(list))
	if got := drain(c, to); got != nil {
		t.Errorf("the same list again tells %v", got)
	}
	// W01, W02: a list that is older changes nothing.
	if err := c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 8}); !errors.Is(err, errOlder) {
		t.Errorf("%v", err)
	}
	if err := c.replacePods(Listing[snapshot.Pod]{}); !errors.Is(err, errOlder) {
		t.Errorf("%v", err)
	}
	if err := c.replaceEvents(Listing[progress.Event]{}); !errors.Is(err, errOlder) {
		t.Errorf("%v", err)
	}
	if got := drain(c, to); got != nil || len(c.ids) != 3 {
		t.Errorf("an older list tells %v", got)
	}
	// One that is passed over is not gone, and one that is not there any more is not passed over.
	bad := Item[snapshot.Sandbox]{UID: "u2", Version: 10, Problem: snapshot.ErrMalformed}
	must(t, c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 10, Items: []Item[snapshot.Sandbox]{list.Items[0], bad, list.Items[2]}}))
	if got := drain(c, to); got != nil || len(c.skipped[boxes]) != 1 || len(c.ids) != 3 {
		t.Errorf("%v, %v", got, c.skipped[boxes])
	}
	must(t, c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 11, Items: list.Items[:1]}))
	if got := drain(c, to); !cmp.Equal(got, []string{"-b", "-c"}) || len(c.skipped[boxes]) != 0 {
		t.Errorf("%v, %v", got, c.skipped[boxes])
	}
}

func TestEvents(t *testing.T) {
	c := listedCore(t)
	to := joined(c, 64)
	for _, e := range []Item[progress.Event]{
		eventItem("e1", "u1-w", 2, 1),                      // of a Pod that is not known yet
		eventItem("e2", "stranger", 3, 1),                  // of another workload
		{UID: "e3", Version: 4, Problem: errRelistedEvent}, // malformed
		eventItem("e4", "", 5, 1),                          // of nothing
	} {
		c.changeEvent(put(e))
	}
	c.changePod(put(podItem("u1", 2, false, true)))
	c.changePod(put(podItem("u1", 3, true, true)))
	if got := drain(c, to); got != nil {
		t.Errorf("%v of a sandbox that is not known", got)
	}
	c.changeBox(put(boxItem("u1", "a", 2, 2)))
	if diff := cmp.Diff([]string{"a=2", "a!Pulled*1"}, drain(c, to)); diff != "" {
		t.Error(diff)
	}
	sandboxEvent := eventItem("e5", "u1", 6, 1)
	sandboxEvent.Value.About.Kind = progress.KindSandbox
	c.changeEvent(put(sandboxEvent))
	c.changeEvent(put(eventItem("e1", "u1-w", 7, 2)))  // again
	c.changeEvent(put(eventItem("e1", "u1-w", 7, 2)))  // the same version
	c.changeEvent(put(eventItem("e1", "u1-w", 8, 2)))  // touched, and has not happened again
	c.changeEvent(dropped[progress.Event]("e1", 9))    // forgotten
	c.changeEvent(put(eventItem("e6", "u1-s", 10, 1))) // of the supervisor
	c.changePod(dropped[snapshot.Pod]("u1-w", 11))     // and of a Pod
	c.changeEvent(put(eventItem("e7", "u1-w", 12, 1))) // that is gone
	if diff := cmp.Diff([]string{"a!Pulled*1", "a!Pulled*2", "a!Pulled*1", "a=2", "a!Pulled*1"}, drain(c, to)); diff != "" {
		t.Error(diff)
	}
	// After a list only what is new is told, in its order.
	must(t, c.replaceEvents(Listing[progress.Event]{Version: 20, Items: []Item[progress.Event]{
		eventItem("e9", "u1-s", 15, 9), eventItem("e8", "u1-s", 14, 8), eventItem("e7", "u1-w", 12, 1), eventItem("e1", "u1-w", 8, 2),
	}}))
	if diff := cmp.Diff([]string{"a!Pulled*8", "a!Pulled*9"}, drain(c, to)); diff != "" {
		t.Error(diff)
	}
	if c.counts.unmapped != 1 || c.counts.passed[events] != 1 {
		t.Errorf("%+v", c.counts)
	}
}

var errRelistedEvent = errors.New("malformed")

func TestWhatHappenedBeforeTheFirstListIsNotTold(t *testing.T) {
	c := newCore()
	must(t, c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 5, Items: []Item[snapshot.Sandbox]{boxItem("u1", "a", 5, 5)}}))
	must(t, c.replacePods(Listing[snapshot.Pod]{Version: 5, Items: []Item[snapshot.Pod]{podItem("u1", 5, false, true)}}))
	to := joined(c, 8)
	must(t, c.replaceEvents(Listing[progress.Event]{Version: 5, Items: []Item[progress.Event]{eventItem("e", "u1-w", 4, 1)}}))
	if got := drain(c, to); !cmp.Equal(got, []string{"a=5"}) {
		t.Errorf("%v", got)
	}
	must(t, c.replaceEvents(Listing[progress.Event]{Version: 9, Items: []Item[progress.Event]{eventItem("e", "u1-w", 4, 1), eventItem("f", "u1-w", 6, 2)}}))
	if got := drain(c, to); !cmp.Equal(got, []string{"a!Pulled*2"}) {
		t.Errorf("a further list tells %v", got)
	}
}

func TestSlowCallerIsResetAndLosesNothing(t *testing.T) {
	c := listedCore(t)
	c.changeBox(put(boxItem("u1", "a", 2, 2)))
	c.changePod(put(podItem("u1", 2, false, true)))
	fast, slow := joined(c, 4), joined(c, 4)
	for v := uint64(3); v < 100; v++ { // snapshots become one
		c.changeBox(put(boxItem("u1", "a", v, int(v))))
	}
	if slow.failed != nil || len(slow.queue) > 2 {
		t.Fatalf("%v, %d messages", slow.failed, len(slow.queue))
	}
	var told []string
	for n := range uint64(6) { // G08: events do not
		c.changeEvent(put(eventItem("e", "u1-w", 200+n, int32(n+1))))
		told = append(told, drain(c, fast)...)
	}
	if diff := cmp.Diff([]string{"a=99", "a!Pulled*1", "a!Pulled*2", "a!Pulled*3", "a!Pulled*4", "a!Pulled*5", "a!Pulled*6"}, told); diff != "" {
		t.Error(diff)
	}
	select {
	case <-slow.broken:
	default:
		t.Fatal("it is not told that it is behind")
	}
	if !errors.Is(slow.failed, ErrBehind) || c.next(slow) != nil || c.counts.resets != 1 || len(c.callers) != 1 {
		t.Errorf("%v, %d resets, %d callers", slow.failed, c.counts.resets, len(c.callers))
	}
	if got := drain(c, joined(c, 4)); !cmp.Equal(got, []string{"a=99"}) {
		t.Errorf("the next stream is told %v", got)
	}
}

func TestRepublishComesAfterWhatIsNew(t *testing.T) {
	c := listedCore(t)
	c.changeBox(put(boxItem("u1", "a", 2, 2)))
	c.changeBox(put(boxItem("u2", "b", 3, 3)))
	to := joined(c, 8)
	drain(c, to)
	c.republish()
	c.republish()
	c.changeBox(put(boxItem("u2", "b", 4, 4)))
	c.changeBox(dropped[snapshot.Sandbox]("u1", 5))
	if diff := cmp.Diff([]string{"b=4", "-a", "b=4"}, drain(c, to)); diff != "" {
		t.Error(diff)
	}
}

// TestRepublishIsFinishedBeforeItBeginsAgain: who takes little at a time hears of the last sandbox too.
func TestRepublishIsFinishedBeforeItBeginsAgain(t *testing.T) {
	c := listedCore(t)
	c.changeBox(put(boxItem("u1", "a", 2, 2)))
	c.changeBox(put(boxItem("u2", "b", 3, 3)))
	to := joined(c, 8)
	drain(c, to)
	c.republish()
	if got := said(c.next(to)); got != "a=2" {
		t.Error(got)
	}
	c.republish()
	if got := said(c.next(to)); got != "b=3" {
		t.Errorf("after the first comes %s", got)
	}
}

func TestCallerThatKeepsUpIsNeverReset(t *testing.T) {
	c := listedCore(t)
	to := joined(c, 2)
	for v := uint64(2); v < 40; v += 2 {
		c.changeBox(put(boxItem("u1", "a", v, int(v))))
		c.changeBox(dropped[snapshot.Sandbox]("u1", v+1))
		if got := drain(c, to); !cmp.Equal(got, []string{"-a"}) || to.failed != nil {
			t.Fatalf("%v, %v", got, to.failed)
		}
	}
}

func TestWaitingRoomIsBounded(t *testing.T) {
	w := newWaitingRoom(3)
	e := func(uid string) *progress.Event { return &progress.Event{UID: uid} }
	if out := w.add("a", e("1")) + w.add("a", e("2")) + w.add("b", e("3")); out != 0 {
		t.Error(out)
	}
	if out := w.add("c", e("4")); out != 1 {
		t.Error(out)
	}
	if got := w.take("a"); len(got) != 1 || got[0].UID != "2" {
		t.Errorf("%v", got)
	}
	if out := w.add("d", e("5")); out != 0 { // the place of what was taken
		t.Error(out)
	}
	if got := w.take("d"); len(got) != 1 || len(w.order) != 2 || len(w.by) != 2 {
		t.Errorf("%v, %v, %v", got, w.order, w.by)
	}
	// What was taken does not push others out before their time.
	for n := range 100 {
		if out := w.add("e", e("6")); out != 0 || len(w.take("e")) != 1 {
			t.Fatalf("after %d that were taken, %d are pushed out of %v", n, out, w.order)
		}
	}
	for range 100 {
		w.add("z", e("z"))
	}
	if len(w.order) != 3 || len(w.by) != 1 || len(w.by["z"]) != 3 {
		t.Errorf("%v, %v", w.order, w.by)
	}
	f := newFormerPods(2)
	f.add("a", "x", false)
	f.add("b", "y", true)
	f.add("c", "z", true)
	if owner, _ := f.find("a"); owner != "" || len(f.by) != 2 {
		t.Error(f.by)
	}
}

func TestCurrent(t *testing.T) {
	now := time.Unix(10000, 0)
	const age = 100 * time.Second
	for name, c := range map[string]struct {
		h    health
		want bool
	}{
		"zero":                       {health{}, false},
		"listed and watched":         {health{listed: true, proof: now}, true},
		"not listed":                 {health{proof: now}, false},
		"old":                        {health{listed: true, proof: now.Add(-age - 1)}, false},
		"as old as may be":           {health{listed: true, proof: now.Add(-age)}, true},
		"broken a moment ago":        {health{listed: true, proof: now.Add(-age), broken: now.Add(-brokenGrace)}, true},
		"broken for longer":          {health{listed: true, proof: now.Add(-age), broken: now.Add(-brokenGrace - 1)}, false},
		"broken, and lists work":     {health{listed: true, proof: now.Add(-brokenGrace), broken: now.Add(-time.Hour)}, true},
		"broken a moment ago, old":   {health{listed: true, proof: now.Add(-age - 1), broken: now}, false},
		"broken, and in the future":  {health{listed: true, proof: now.Add(time.Hour), broken: now.Add(time.Hour)}, true},
		"failed, and not yet broken": {health{listed: true, proof: now, failure: errOlder}, true},
	} {
		if got := c.h.current(now, age); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
