package gateway_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// reopened ends the watch in a way, and lets the gateway open the next.
func (s *site) reopened(how func()) {
	s.t.Helper()
	opened := len(s.driver.Calls("WatchSandboxes"))
	how()
	s.hears("WatchEnded", "")
	if err := s.clock.AwaitTimer(s.ctx, 2*time.Second); err != nil {
		s.t.Fatal(err)
	}
	s.clock.Advance(2 * time.Second)
	s.driver.AwaitCalls(s.ctx, "WatchSandboxes", opened+1)
}

// TestReplayG08AResetIsMadeUpFor: a gateway whose stream the driver resets since it was slow opens another, and there hears what it missed.
func TestReplayG08AResetIsMadeUpFor(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, _ := s.running("box")
	s.driver.Hide(box.ID, scripted.Failed()...) // no stream tells of it
	s.is(box.ID, phase.Ready)
	s.reopened(func() {
		s.driver.EndWatches(status.Error(codes.Unavailable, "the watch was reset because its reader is too slow; open it again"))
	})
	s.in(box.ID, phase.Error)
}

// TestReplayG10AWatchThatEndsInOrder, as one does whose driver hands a raw watch out, is opened again like one that failed, and changes no row.
func TestReplayG10AWatchThatEndsInOrder(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, _ := s.running("box")
	for range 3 {
		s.reopened(func() { s.driver.EndWatches(nil) })
		s.is(box.ID, phase.Ready)
	}
	s.driver.Show(box.ID, scripted.Failed()...)
	s.in(box.ID, phase.Error)
}

// TestReplayG11ConnectedIsNotRecovered: behind a lost session a new one alone makes nothing ready. It does when the runtime has been confirmed
// over it, for the present run.
func TestReplayG11ConnectedIsNotRecovered(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, v := s.running("box")
	v.cancel()
	s.in(box.ID, phase.Provisioning)
	again := s.supervise(box.ID)
	s.hears("SessionOpened", "")
	s.is(box.ID, phase.Provisioning)
	// One that goes before it has confirmed has recovered nothing.
	again.cancel()
	s.hears("SessionEnded", "")
	s.is(box.ID, phase.Provisioning)
	s.supervise(box.ID).confirm()
	s.in(box.ID, phase.Ready)
	// A further run wants its own: a session of the former one is turned away.
	former, err := s.exchange(scripted.Bearer(box.ID), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.g.Stop(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.g.Start(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.open(former); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a session of the former run: %v", err)
	}
	if row, err := s.g.Get(box.ID); err != nil || row.Phase == phase.Ready {
		t.Errorf("%v, %v", row.Phase, err)
	}
}

// TestReplayL16AStaleSuspendedCondition does not pin a sandbox that runs again.
func TestReplayL16AStaleSuspendedCondition(t *testing.T) {
	t.Parallel()
	stale := phase.Condition{Type: "Suspended", Status: "True", Reason: "PodTerminated"}
	ready := phase.Condition{Type: "Ready", Status: "True", Reason: "DependenciesReady"}
	if got := phase.Backend(phase.Status{Known: true, Conditions: []phase.Condition{stale, ready}}); got != phase.Ready {
		t.Errorf("phase %s", got)
	}
}
