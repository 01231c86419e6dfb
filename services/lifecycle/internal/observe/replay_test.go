package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestReplayG08ACallerThatIsSlow loses nothing without being told: its stream ends with a code after which it opens another, and there it is
// told everything.
func TestReplayG08ACallerThatIsSlow(t *testing.T) {
	c := listedCore(t)
	const most = 64
	slow, other := joined(c, most), joined(c, most)
	c.changeBox(put(boxItem("u0", "kept", 2, 2)))
	told := 0
	for n := uint64(0); slow.failed == nil && n < 10*most; n++ {
		c.changeBox(put(boxItem("u1", "a", 10+2*n, 1)))
		c.changeBox(dropped[snapshot.Sandbox]("u1", 11+2*n))
		told += len(drain(c, other))
	}
	if !errors.Is(slow.failed, ErrBehind) {
		t.Fatalf("deletions were left out without a word: %v", slow.failed)
	}
	if other.failed != nil || told == 0 {
		t.Errorf("the one that reads was told %d times, %v", told, other.failed)
	}
	if again := drain(c, joined(c, most)); len(again) != 1 || again[0] != "kept=2" {
		t.Errorf("behind the reset: %q", again)
	}
}

// TestReplayG10AStreamOutlivesTheWatches inside, which an API server ends every few minutes, and the lists that follow a lost version.
func TestReplayG10AStreamOutlivesTheWatches(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		st := s.open()
		wantHeard(t, st, "a=10")
		for n := uint64(11); n < 16; n++ {
			time.Sleep(2 * second) // all of it in less than the 30 s after which everything is told again
			s.boxes.end <- nil
			time.Sleep(second)
			s.boxes.feed <- put(boxItem("u1", "a", n, int(n)))
		}
		wantHeard(t, st, "a=11", "a=12", "a=13", "a=14", "a=15")
		st.close(t)
	})
}

// TestReplayG11ConnectedIsNotRecovered: behind an outage that was longer than the view may be old, a watch that opens proves nothing yet; what
// the cluster says over it does.
func TestReplayG11ConnectedIsNotRecovered(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		cut := errors.New("cut")
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = cut })
		s.boxes.end <- cut
		time.Sleep(DefaultSettings().MaxAge.Std() + second)
		wantList(t, s, ErrStale)
		s.boxes.edit(func(b *script[snapshot.Sandbox]) { b.refuse = nil })
		time.Sleep(10 * second) // longer than a pause
		synctest.Wait()
		if _, watches := s.boxes.asked(); len(watches) < 2 {
			t.Fatal("no watch has opened, and so it proves nothing")
		}
		if _, err := s.List(); !errors.Is(err, ErrStale) {
			t.Errorf("a watch has opened, and the view counts as the present state: %v", err)
		}
		s.boxes.feed <- put(boxItem("u1", "a", 30, 30))
		s.pods.feed <- Change[snapshot.Pod]{Form: Reached, Item: Item[snapshot.Pod]{Version: 31}}
		synctest.Wait()
		wantList(t, s, nil, 30)
	})
}

// TestReplayL07OurOwnWritesAreSeen: a sandbox that was just made is found though the view has not heard of it, and so is none counted twice or
// taken for absent.
func TestReplayL07OurOwnWritesAreSeen(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.live.found = append(s.live.found, object("u7", "new"))
		got, err := s.Get(context.Background(), "new")
		if err != nil || got.GetId() != "new" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestReplayL26ANodeThatIsGone takes both Pods with it, first silent and then deleted: each is told as it becomes known, and the sandbox is
// neither told as ready any more nor as deleted.
func TestReplayL26ANodeThatIsGone(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		heard := s.listens(t)
		if all := heard(); len(all) != 1 || all[0].message != "" {
			t.Fatalf("before: %v", all)
		}
		for n, lost := range []struct {
			change Change[snapshot.Pod]
			says   string
		}{
			{put(podItem("u1", 20, true, false)), "the supervisor Pod is not ready"},
			{put(podItem("u1", 21, false, false)), "the workload Pod is not ready"},
			{dropped[snapshot.Pod]("u1-w", 22), "the workload Pod is gone"},
			{dropped[snapshot.Pod]("u1-s", 23), ""}, // the first cause is told, and stays
		} {
			s.pods.feed <- lost.change
			all := heard()
			if lost.says == "" != (len(all) == 0) || lost.says != "" && !strings.Contains(all[0].message, lost.says) {
				t.Errorf("%d: told %v, want %q", n, all, lost.says)
			}
			if all, err := s.List(); err != nil || len(all) != 1 {
				t.Errorf("%d: %d sandboxes, %v", n, len(all), err)
			}
		}
	})
}

// TestReplayW19ForeignObjects are passed over and counted, and neither end a stream nor fail a list.
func TestReplayW19ForeignObjects(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		st := s.open()
		wantHeard(t, st, "a=10")
		for n, problem := range []error{snapshot.ErrForeign, snapshot.ErrMisplaced, snapshot.ErrMalformed} {
			version := uint64(20 + n)
			s.boxes.feed <- put(Item[snapshot.Sandbox]{UID: problem.Error(), Version: version, Problem: problem})
		}
		s.boxes.feed <- put(boxItem("u1", "a", 30, 30))
		wantHeard(t, st, "a=30")
		wantList(t, s, nil, 30)
		if n := s.core.counts.passed[boxes]; n != 3 {
			t.Errorf("%d are counted", n)
		}
		st.close(t)
	})
}

// TestReplayW20AnExpiredVersion is recovered from inside: the outward stream goes on, and lacks nothing that happened meanwhile.
func TestReplayW20AnExpiredVersion(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		st := s.open()
		wantHeard(t, st, "a=10")
		s.boxes.edit(func(b *script[snapshot.Sandbox]) {
			b.listing = Listing[snapshot.Sandbox]{Version: 20, Items: []Item[snapshot.Sandbox]{boxItem("u2", "b", 19, 19)}}
		})
		s.boxes.end <- ErrRelist
		time.Sleep(10 * second)
		wantHeard(t, st, "-a", "b=19")
		select {
		case err := <-st.ended:
			t.Errorf("the stream has ended: %v", err)
		default:
		}
		st.close(t)
	})
}

// TestReplayL22WhatAStockDriverMade is found after an upgrade, in every mode: nothing is selected by that the objects of contract 4.3 do not have.
// Their labels are written out here as that driver writes them.
func TestReplayL22WhatAStockDriverMade(t *testing.T) {
	const id = "6f1d2c3b-0000-4000-8000-0123456789ab"
	box := labels.Set{
		"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": id, "openshell.ai/sandbox-name": "demo",
		"openshell.ai/sandbox-workspace": "team", "openshell.ai/gateway-id": "blue",
	}
	pair := labels.Set{"openshell.ai/boundary-pair": id, "openshell.ai/boundary-role": "workload"}
	for _, mode := range []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator} {
		k, _ := serve(t, mode)
		one, err := workspace.SelectSandbox("blue", id)
		must(t, err)
		for name, of := range map[string]struct {
			selector string
			labels   labels.Set
		}{"its Sandbox": {k.selector, box}, "its Sandbox, by its id": {one.String(), box}, "its Pod": {podSelector, pair}} {
			selector, err := labels.Parse(of.selector)
			must(t, err)
			if !selector.Matches(of.labels) {
				t.Errorf("%s mode: %s is not found by %q", mode, name, of.selector)
			}
		}
	}
}
