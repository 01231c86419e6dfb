package gateway_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// TestWatchReopens: behind an error, a clean end and a driver that went away, each time after two seconds (contract 2.8).
func TestWatchReopens(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	opened := len(s.driver.AwaitCalls(s.ctx, "WatchSandboxes", 1))
	for _, how := range []func(){
		func() { s.driver.EndWatches(status.Error(codes.Unavailable, "slow")) },
		func() { s.driver.EndWatches(nil) },
		func() { s.driver.Kill() },
	} {
		s.hears("WatchOpened", "")
		s.driver.AwaitCalls(s.ctx, "WatchSandboxes", opened)
		how()
		s.hears("WatchEnded", "")
		if err := s.clock.AwaitTimer(s.ctx, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(2*time.Second - 1)
		if now := len(s.driver.Calls("WatchSandboxes")); now != opened {
			t.Errorf("opened %d times, not %d", now, opened)
		}
		opened++
		s.clock.Advance(1)
	}
	s.driver.Serve()
	// However often it ended: what happened meanwhile is told at the next beginning.
	s.driver.Hide(box.ID, scripted.Failed()...)
	for s.is(box.ID, phase.Provisioning); ; {
		e, err := s.events.Next(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "WatchEnded" {
			if err := s.clock.AwaitTimer(s.ctx, 2*time.Second); err != nil {
				t.Fatal(err)
			}
			s.clock.Advance(2 * time.Second)
		}
		if e.Kind == "PhaseChanged" && e.To == phase.Error {
			return
		}
	}
}

// TestWatchEvents: what each kind does to a row.
func TestWatchEvents(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	// Unknown sandboxes are nobody's business, and events of a newer driver neither.
	s.driver.Tell(&computev1.WatchSandboxesEvent{})
	s.driver.TellOf(&computev1.DriverSandbox{Id: "nobody", Name: "x"})
	s.hears("Ignored", "Unknown")
	s.driver.TellGone("nobody")
	s.hears("Ignored", "Unknown")
	if all, err := s.g.List(); err != nil || len(all) != 1 {
		t.Errorf("%d rows, %v: something was adopted", len(all), err)
	}
	// A snapshot without status changes the name and nothing else.
	s.driver.TellOf(&computev1.DriverSandbox{Id: box.ID, Name: "renamed"})
	s.driver.Tell(&computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_PlatformEvent{PlatformEvent: &computev1.WatchSandboxesPlatformEvent{
		SandboxId: box.ID, Event: &computev1.DriverPlatformEvent{Source: "kubernetes", Reason: "Pulling", Message: "an image"},
	}}})
	if e := s.hears("Platform", "Pulling"); e.Platform.GetSource() != "kubernetes" || e.Name != "renamed" {
		t.Errorf("%+v", e)
	}
	if row := s.is(box.ID, phase.Provisioning); row.Name != "renamed" {
		t.Errorf("name %q", row.Name)
	}
	if _, err := s.g.Find("team-a", "renamed"); err != nil {
		t.Error(err)
	}
	// Times out of range make a snapshot unreadable.
	broken := s.driver.Seen(box.ID)
	broken.Status.Conditions = scripted.Failed()
	broken.Status.Conditions[0].TransitionTime = &timestamppb.Timestamp{Seconds: 1 << 60}
	s.driver.TellOf(broken)
	s.hears("Ignored", "Unreadable")
	s.is(box.ID, phase.Provisioning)
	// Deleted removes the row and releases in the background.
	s.driver.Vanish(box.ID, false)
	if err := s.g.AwaitRemoved(s.ctx, box.ID); err != nil {
		t.Error(err)
	}
	s.driver.AwaitCalls(s.ctx, "DeleteSandbox", 1)
}

// TestDeletingIgnoresSnapshots: and its Deleted event calls no second DeleteSandbox while the request is at it.
func TestDeletingIgnoresSnapshots(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, _ := s.running("box")
	block, hold := scripted.Hold(nil)
	s.driver.Script("DeleteSandbox", hold)
	result := make(chan error, 1)
	go func() { result <- s.g.Delete(s.ctx, box.ID) }()
	<-block.Entered
	s.driver.Show(box.ID, scripted.Failed()...)
	s.hears("Ignored", "Deleting")
	s.is(box.ID, phase.Deleting)
	s.driver.TellGone(box.ID)
	s.hears("Removed", "")
	close(block.Release)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if calls := s.driver.Calls("DeleteSandbox"); len(calls) != 1 {
		t.Errorf("DeleteSandbox was called %d times", len(calls))
	}
	s.is(box.ID, phase.Unspecified)
}

// onDemand leaves the sweeps to the test.
func onDemand(c *gateway.Config) { c.Timing.Sweep = 1000 * time.Hour }

// TestSweep: a case per row of the contract's table (2.9); grace, list and look-up all have to agree.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := begin(t, onDemand)
	old := map[string]string{}
	keep := func(name, id string) { old[name] = id }
	keep("provisioning", s.created("provisioning").ID)
	running, keeper := s.running("ready")
	keep("ready", running.ID)
	_ = keeper
	keep("stopped", s.stopped("stopped").ID)
	starting := s.stopped("starting")
	done, v := s.running("completed")
	v.exit(0)
	s.in(done.ID, phase.Completed)
	keep("completed", done.ID)
	broken, v := s.running("main process failed")
	v.exit(1)
	s.in(broken.ID, phase.Error)
	keep("main process failed", broken.ID)
	failed := s.created("failed")
	s.driver.Show(failed.ID, scripted.Failed()...)
	s.in(failed.ID, phase.Error)
	keep("failed", failed.ID)

	young := func() { // nothing happens to rows that are young, or about which nobody is sure
		t.Helper()
		for name, id := range old {
			if _, err := s.g.Get(id); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		s.is(old["stopped"], phase.Stopped)
	}
	for _, id := range old {
		s.driver.Vanish(id, true)
	}
	if err := s.g.Sweep(); err != nil {
		t.Error(err)
	}
	young()
	s.clock.Advance(1) // rows of exactly the grace's age are young
	s.advance(5 * time.Minute)
	timedOut := s.in(old["provisioning"], phase.Error)
	if timedOut.Cause != phase.ProvisioningTimedOut {
		t.Errorf("%+v", timedOut)
	}
	// An old row whose start is new: its own window is still open.
	if _, err := s.g.Start(s.ctx, starting.ID); err != nil {
		t.Fatal(err)
	}
	s.is(starting.ID, phase.Starting)
	keep("starting", starting.ID)
	s.driver.Vanish(starting.ID, true)

	s.driver.Script("ListSandboxes", scripted.Fail(codes.Unavailable, "no list"))
	if err := s.g.Sweep(); err == nil {
		t.Error("a sweep without a list")
	}
	young()
	deletes := len(s.driver.Calls("DeleteSandbox"))
	if err := s.g.Sweep(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]struct {
		phase phase.Phase
		cause phase.Cause
	}{
		"ready": {phase.Unspecified, ""}, "failed": {phase.Unspecified, ""},
		"stopped": {phase.Error, phase.ComputeResourceMissing}, "provisioning": {phase.Error, phase.ProvisioningTimedOut},
		"starting":  {phase.Error, phase.ComputeResourceMissing},
		"completed": {phase.Completed, ""}, "main process failed": {phase.Error, phase.MainProcessFailed},
	} {
		if row := s.is(old[name], want.phase); row.Cause != want.cause {
			t.Errorf("%s: cause %q, want %q", name, row.Cause, want.cause)
		}
	}
	s.driver.AwaitCalls(s.ctx, "DeleteSandbox", deletes+2)
}

// TestSweepIsSure: an absence that GetSandbox does not confirm changes nothing.
func TestSweepIsSure(t *testing.T) {
	t.Parallel()
	s := begin(t, onDemand)
	box, _ := s.running("box")
	s.clock.Advance(6 * time.Minute)
	hidden := scripted.Answer(&computev1.ListSandboxesResponse{})
	s.driver.Script("ListSandboxes", hidden, hidden)
	if err := s.g.Sweep(); err != nil {
		t.Error(err)
	}
	s.is(box.ID, phase.Ready)
	s.driver.Vanish(box.ID, true)
	s.driver.Script("GetSandbox", scripted.Fail(codes.Internal, "one namespace cannot be read"))
	if err := s.g.Sweep(); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "one namespace cannot be read") {
		t.Errorf("a look-up that failed: %v", err)
	}
	s.is(box.ID, phase.Ready)
}

// TestSweepRepairs: what the watch lost is found by the sweep, every minute.
func TestSweepRepairs(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, _ := s.running("box")
	s.driver.Hide(box.ID, scripted.Failed()...)
	if err := s.clock.AwaitTimer(s.ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Minute)
	s.hears("Swept", "")
	s.is(box.ID, phase.Error)
}

// TestWorkspaces: what a failed deletion leaves, and who goes on with it (contract 2.6).
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	if calls := len(s.driver.Calls("EnsureWorkspace")); calls != 1 {
		t.Errorf("ensured %d times", calls)
	}
	s.created("second")
	if calls := len(s.driver.Calls("EnsureWorkspace")); calls != 1 {
		t.Errorf("ensured %d times: it was known", calls)
	}
	refused(t, s.g.DeleteWorkspace(s.ctx, "team-a"), codes.FailedPrecondition, "still has")
	for _, one := range []string{box.ID, mustFind(s, "second")} {
		if err := s.g.Delete(s.ctx, one); err != nil {
			t.Fatal(err)
		}
		if err := s.g.AwaitRemoved(s.ctx, one); err != nil {
			t.Fatal(err)
		}
	}
	s.driver.Script("DeleteWorkspace", scripted.Fail(codes.Unavailable, "still terminating"), scripted.Fail(codes.Internal, "again"))
	refused(t, s.g.DeleteWorkspace(s.ctx, "team-a"), codes.Unavailable, "still terminating")
	_, err := s.g.Create(s.ctx, wish("late"))
	refused(t, err, codes.FailedPrecondition, "being deleted")
	refused(t, s.g.EnsureWorkspace(s.ctx, "team-a"), codes.FailedPrecondition, "being deleted")
	if err := s.g.Sweep(); err == nil {
		t.Error("a sweep that could not finish is no error")
	}
	if err := s.g.Sweep(); err != nil {
		t.Error(err)
	}
	if all, err := s.g.Workspaces(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	s.driver.Script("DeleteWorkspace", scripted.Fail(codes.Unimplemented, "what"))
	if err := errors.Join(s.g.EnsureWorkspace(s.ctx, "team-b"), s.g.DeleteWorkspace(s.ctx, "team-b")); err != nil {
		t.Error(err)
	}
}

func mustFind(s *site, name string) string {
	s.t.Helper()
	box, err := s.g.Find("team-a", name)
	if err != nil {
		s.t.Fatal(err)
	}
	return box.ID
}
