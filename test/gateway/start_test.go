package gateway_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// TestStart: a case per row of the contract's table for StartSandbox (2.6), each from Stopped.
func TestStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script func(s *site, id string)
		code   codes.Code
		text   string
		row    phase.Phase
		stops  int // beside the one before
	}{
		"started": {func(*site, string) {}, codes.OK, "", phase.Starting, 0},
		"without an identity": {func(s *site, _ string) {
			s.driver.Script("StartSandbox", scripted.Answer(&computev1.StartSandboxResponse{}))
		}, codes.Internal, "did not return a runtime identity", phase.Stopped, 1},
		"precondition": {func(s *site, _ string) {
			s.driver.Script("StartSandbox", scripted.Fail(codes.FailedPrecondition, "replaced"))
		}, codes.FailedPrecondition, "replaced", phase.Stopped, 0},
		"unavailable": {func(s *site, _ string) {
			s.driver.Script("StartSandbox", scripted.Fail(codes.Unavailable, "later"))
		}, codes.Internal, "start sandbox failed: later", phase.Stopped, 0},
		"the answer is lost": {func(s *site, _ string) {
			s.driver.Lose("StartSandbox", codes.Unavailable)
		}, codes.Internal, "start sandbox failed", phase.Starting, 0},
		"the answer is lost, and nobody can be asked": {func(s *site, _ string) {
			s.driver.Script("WatchSandboxes", scripted.Fail(codes.Unavailable, "no"))
			s.driver.Script("GetSandbox", scripted.Fail(codes.Unavailable, "no"), scripted.Fail(codes.Unavailable, "no"))
			s.driver.Script("StartSandbox", scripted.Fail(codes.Unavailable, "no"))
		}, codes.Internal, "start sandbox failed", phase.Stopped, 0},
		"there is nothing": {func(s *site, id string) { s.driver.Vanish(id, true) }, codes.NotFound, "not found", phase.Stopped, 0},
		"the policy changed": {func(s *site, _ string) {
			s.driver.Script("GetCapabilities", scripted.Answer(&computev1.GetCapabilitiesResponse{ResourceAdmissionPolicy: scripted.Policy + " "}))
		}, codes.FailedPrecondition, "policy changed", phase.Stopped, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			box := s.stopped("box")
			tc.script(s, box.ID)
			started, err := s.g.Start(s.ctx, box.ID)
			refused(t, err, tc.code, tc.text)
			now := s.is(box.ID, tc.row)
			if got := len(s.driver.Calls("StopSandbox")) - 1; got != tc.stops {
				t.Errorf("stopped %d times, not %d", got, tc.stops)
			}
			switch tc.code {
			case codes.OK:
				if started.RuntimeIdentity != s.driver.Identity(box.ID) || started.RuntimeIdentity == box.RuntimeIdentity {
					t.Errorf("identity %q, before %q", started.RuntimeIdentity, box.RuntimeIdentity)
				}
				if now.Run.Generation != box.Run.Generation || now.Run.AuthEpoch != 2 || now.Run.SessionID == box.Run.SessionID {
					t.Errorf("run %+v behind %+v", now.Run, box.Run)
				}
				request := s.driver.Calls("StartSandbox")[0].(*computev1.StartSandboxRequest)
				if request.GetExpectedRuntimeIdentity() != box.RuntimeIdentity || request.GetGenerationId() != box.Run.Generation || len(request.GetLaunchAuthentication()) == 0 {
					t.Errorf("the request was for %q %q", request.GetExpectedRuntimeIdentity(), request.GetGenerationId())
				}
			default:
				if now.RuntimeIdentity != box.RuntimeIdentity {
					t.Error("another identity is stored")
				}
			}
		})
	}
}

// TestStartIsRepeated: behind a lost answer, with the same run, and each further run has a greater epoch.
func TestStartIsRepeated(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.stopped("box")
	s.driver.Script("StartSandbox", scripted.Answer(&computev1.StartSandboxResponse{}))
	_, err := s.g.Start(s.ctx, box.ID)
	refused(t, err, codes.Internal, "")
	s.driver.Lose("StartSandbox", codes.Unavailable)
	_, err = s.g.Start(s.ctx, box.ID)
	refused(t, err, codes.Internal, "")
	first := s.is(box.ID, phase.Starting).Run
	if first.AuthEpoch != 3 {
		t.Errorf("epoch %d: one that was used up is used again", first.AuthEpoch)
	}
	again, err := s.g.Start(s.ctx, box.ID)
	if err != nil || again.Run != first {
		t.Errorf("run %+v, %v, before %+v", again.Run, err, first)
	}
	s.driver.Show(box.ID, scripted.Ready()...)
	s.supervise(box.ID).confirm()
	if box = s.in(box.ID, phase.Ready); box.RuntimeIdentity != s.driver.Identity(box.ID) || !box.Deadline.IsZero() {
		t.Errorf("%+v", box)
	}
}

// TestStartIsAllowed: from the phases that contract 2.6 names and no other.
func TestStartIsAllowed(t *testing.T) {
	t.Parallel()
	s := begin(t)
	_, err := s.g.Start(s.ctx, "nobody")
	refused(t, err, codes.NotFound, "")
	box := s.created("box")
	_, err = s.g.Start(s.ctx, box.ID)
	refused(t, err, codes.FailedPrecondition, "Provisioning")
	s.driver.Show(box.ID, scripted.Failed()...)
	s.in(box.ID, phase.Error)
	_, err = s.g.Start(s.ctx, box.ID)
	refused(t, err, codes.FailedPrecondition, "Error")
	if calls := s.driver.Calls("StartSandbox"); len(calls) > 0 {
		t.Error("the driver was asked")
	}
}

// TestStaleSnapshotBehindStart: what the former run left on the watch does not touch the new one (bug corpus L16).
func TestStaleSnapshotBehindStart(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.stopped("box")
	stale := s.driver.Seen(box.ID)
	if _, err := s.g.Start(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	reads := len(s.driver.Calls("GetSandbox"))
	s.driver.TellOf(stale)
	failed := s.driver.Seen(box.ID)
	failed.Status.Conditions = scripted.Failed()
	s.driver.TellOf(failed)
	s.driver.AwaitCalls(s.ctx, "GetSandbox", reads+2)
	s.driver.Show(box.ID, scripted.Ready()...)
	s.supervise(box.ID).confirm()
	s.in(box.ID, phase.Ready)
}

// TestSnapshotWaitsForStart: one that comes while the start is at the driver waits for its end.
func TestSnapshotWaitsForStart(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.stopped("box")
	block, hold := scripted.Hold(nil)
	s.driver.Script("StartSandbox", hold)
	result := make(chan error, 1)
	go func() {
		_, err := s.g.Start(s.ctx, box.ID)
		result <- err
	}()
	<-block.Entered
	reads := len(s.driver.Calls("GetSandbox"))
	failed := s.driver.Seen(box.ID)
	failed.Status.Conditions = scripted.Failed()
	s.driver.TellOf(failed)
	other := s.driver.Seen(box.ID)
	other.Id = "nobody"
	s.driver.TellOf(other)
	close(block.Release)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	s.hears("Ignored", "Unknown") // strictly behind the other
	s.driver.AwaitCalls(s.ctx, "GetSandbox", reads+1)
	s.is(box.ID, phase.Starting)
}

// TestDeadline: a window that ends without readiness ends in an Error that is reclaimed and can be started again, also when
// the driver has nothing left (contract 2.12, 2.6).
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	s.driver.Script("StopSandbox", scripted.Fail(codes.Unavailable, "no"))
	s.advance(5*time.Minute - time.Second)
	s.is(box.ID, phase.Provisioning)
	s.advance(time.Second)
	now, err := s.g.AwaitPhase(s.ctx, box.ID, phase.Error)
	if err != nil || now.Cause != phase.ProvisioningTimedOut {
		t.Fatalf("%+v, %v", now, err)
	}
	s.hears("ReclaimFailed", "Unavailable")
	_, err = s.g.Start(s.ctx, box.ID)
	refused(t, err, codes.FailedPrecondition, "ProvisioningTimedOut")

	// It is tried again after five seconds; readiness comes too late.
	s.driver.Show(box.ID, scripted.Ready()...)
	s.hears("Ignored", "ProvisioningDeadlineElapsed")
	if err := s.clock.AwaitTimer(s.ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	s.advance(5 * time.Second)
	s.hears("Reclaimed", "")
	if now := s.is(box.ID, phase.Error); !now.Reclaimed {
		t.Error("not reclaimed")
	}

	// Its end is not the end of the row, and a start makes it anew.
	s.driver.Vanish(box.ID, false)
	s.hears("Ignored", "ProvisioningTimedOut")
	started, err := s.g.Start(s.ctx, box.ID)
	if err != nil || started.Phase != phase.Starting || started.RuntimeIdentity != s.driver.Identity(box.ID) {
		t.Fatalf("%+v, %v", started, err)
	}
	made := s.driver.Calls("CreateSandbox")[1].(*computev1.CreateSandboxRequest).GetSandbox()
	if made.GetId() != box.ID || len(made.GetSpec().GetCommand()) != 1 {
		t.Errorf("made %v", made)
	}
	s.driver.Show(box.ID, scripted.Ready()...)
	s.supervise(box.ID).confirm()
	s.in(box.ID, phase.Ready)
}

// TestReclaimIsBounded: a stop that does not answer is given up after 30 s and tried again (contract 2.12).
func TestReclaimIsBounded(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	block, hold := scripted.Hold(nil)
	s.driver.Script("StopSandbox", hold)
	s.advance(5 * time.Minute)
	<-block.Entered
	s.advance(30 * time.Second)
	<-block.Canceled
	s.hears("ReclaimFailed", "")
	if err := s.clock.AwaitTimer(s.ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	s.advance(5 * time.Second)
	s.hears("Reclaimed", "")
	if err := s.g.Delete(s.ctx, box.ID); err != nil {
		t.Error(err)
	}
}
