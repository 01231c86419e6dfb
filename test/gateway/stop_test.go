package gateway_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// TestStop: a case per row of the contract's table behind a stop (2.6).
func TestStop(t *testing.T) {
	t.Parallel()
	fails := scripted.Fail(codes.Unavailable, "no")
	going := func(reason string) []*computev1.DriverCondition {
		return []*computev1.DriverCondition{scripted.Condition("Suspended", "False", reason), scripted.Condition("Ready", "False", "SandboxSuspended")}
	}
	for name, tc := range map[string]struct {
		script func(s *site, id string)
		code   codes.Code
		row    phase.Phase
	}{
		"stopped":                       {func(*site, string) {}, codes.OK, phase.Stopped},
		"it fails, and nothing changed": {func(s *site, _ string) { s.driver.Script("StopSandbox", fails) }, codes.Internal, phase.Ready},
		"the answer is lost":            {func(s *site, _ string) { s.driver.Lose("StopSandbox", codes.Unavailable) }, codes.OK, phase.Stopped},
		"it fails, and is under way": {func(s *site, id string) {
			s.driver.Hide(id, going("PodTerminating")...)
			s.driver.Script("StopSandbox", fails)
		}, codes.Internal, phase.Stopping},
		"it fails, and is under way, as older controllers say": {func(s *site, id string) {
			s.driver.Hide(id, going("PodNotTerminated")...)
			s.driver.Script("StopSandbox", fails)
		}, codes.Internal, phase.Stopping},
		"it fails, and the runtime restarts": {func(s *site, id string) {
			s.driver.Hide(id, scripted.Condition("Ready", "False", "ContainerRuntimeRestart"))
			s.driver.Script("StopSandbox", fails)
		}, codes.Internal, phase.Stopping},
		"it fails, and so does the backend": {func(s *site, id string) {
			s.driver.Hide(id, scripted.Failed()...)
			s.driver.Script("StopSandbox", fails)
		}, codes.Internal, phase.Error},
		"it fails, and nobody can be asked": {func(s *site, _ string) {
			s.driver.Script("StopSandbox", fails)
			s.driver.Script("GetSandbox", fails)
		}, codes.Internal, phase.Stopping},
		"it fails, and there is nothing": {func(s *site, id string) {
			s.driver.Vanish(id, true)
		}, codes.Internal, phase.Stopping},
		"it fails, and another is answered": {func(s *site, _ string) {
			s.driver.Script("StopSandbox", fails)
			s.driver.Script("GetSandbox", scripted.Answer(&computev1.GetSandboxResponse{Sandbox: &computev1.DriverSandbox{Id: "another"}}))
		}, codes.Internal, phase.Stopping},
		"it fails, and there is no status": {func(s *site, id string) {
			s.driver.Script("StopSandbox", fails)
			s.driver.Script("GetSandbox", scripted.Answer(&computev1.GetSandboxResponse{Sandbox: &computev1.DriverSandbox{Id: id}}))
		}, codes.Internal, phase.Stopping},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			box, _ := s.running("box")
			tc.script(s, box.ID)
			err := s.g.Stop(s.ctx, box.ID)
			refused(t, err, tc.code, "")
			s.is(box.ID, tc.row)
		})
	}
}

// TestStopIsAllowed: only from Ready, or again from Stopping.
func TestStopIsAllowed(t *testing.T) {
	t.Parallel()
	s := begin(t)
	refused(t, s.g.Stop(s.ctx, "nobody"), codes.NotFound, "")
	box := s.created("box")
	refused(t, s.g.Stop(s.ctx, box.ID), codes.FailedPrecondition, "Provisioning")
	if calls := s.driver.Calls("StopSandbox"); len(calls) > 0 {
		t.Error("the driver was asked")
	}
	second, _ := s.running("second")
	s.driver.Script("StopSandbox", scripted.Fail(codes.Unavailable, "no"))
	s.driver.Script("GetSandbox", scripted.Fail(codes.Unavailable, "no"))
	refused(t, s.g.Stop(s.ctx, second.ID), codes.Internal, "")
	s.is(second.ID, phase.Stopping)
	if err := s.g.Stop(s.ctx, second.ID); err != nil {
		t.Error(err)
	}
	s.is(second.ID, phase.Stopped)
}

// TestStopOutlivesItsCaller: only the waiting ends with the caller.
func TestStopOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, v := s.running("box")
	block, hold := scripted.Hold(nil)
	s.driver.Script("StopSandbox", hold)
	ctx, cancel := context.WithCancel(s.ctx)
	result := make(chan error, 1)
	go func() { result <- s.g.Stop(ctx, box.ID) }()
	<-block.Entered
	s.is(box.ID, phase.Stopping)
	cancel()
	refused(t, <-result, codes.Canceled, "")
	close(block.Release)
	s.in(box.ID, phase.Stopped)
	v.ended()
}

// TestRecoveryIsBounded: a driver that does not answer the look behind a failed call is given up after ten seconds.
func TestRecoveryIsBounded(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, _ := s.running("box")
	block, hold := scripted.Hold(nil)
	s.driver.Script("StopSandbox", scripted.Fail(codes.Unavailable, "no"))
	s.driver.Script("GetSandbox", hold)
	result := make(chan error, 1)
	go func() { result <- s.g.Stop(s.ctx, box.ID) }()
	<-block.Entered
	s.clock.Advance(10*time.Second - 1)
	select {
	case <-block.Canceled:
		t.Error("given up before its time")
	default:
	}
	s.clock.Advance(1)
	<-block.Canceled
	refused(t, <-result, codes.Internal, "")
	s.is(box.ID, phase.Stopping)
}

// TestDelete: a case per row of the contract's table for a delete (2.6), each from Ready.
func TestDelete(t *testing.T) {
	t.Parallel()
	fails := scripted.Fail(codes.Unavailable, "no")
	for name, tc := range map[string]struct {
		script func(s *site, id string)
		code   codes.Code
		row    phase.Phase
	}{
		"there was nothing": {func(s *site, id string) { s.driver.Vanish(id, true) }, codes.OK, phase.Unspecified},
		"deleted, and the watch is silent": {func(s *site, _ string) {
			s.driver.Script("DeleteSandbox", scripted.Answer(&computev1.DeleteSandboxResponse{Deleted: true}))
		}, codes.OK, phase.Deleting},
		"it fails, and is still there": {func(s *site, _ string) { s.driver.Script("DeleteSandbox", fails) }, codes.Internal, phase.Ready},
		"it fails, and is broken": {func(s *site, id string) {
			s.driver.Hide(id, scripted.Failed()...)
			s.driver.Script("DeleteSandbox", fails)
		}, codes.Internal, phase.Error},
		"it fails, and is gone": {func(s *site, id string) {
			s.driver.Vanish(id, true)
			s.driver.Script("DeleteSandbox", fails)
		}, codes.Internal, phase.Unspecified},
		"it fails, and nobody can be asked": {func(s *site, _ string) {
			s.driver.Script("DeleteSandbox", fails)
			s.driver.Script("GetSandbox", fails)
		}, codes.Internal, phase.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			box, _ := s.running("box")
			tc.script(s, box.ID)
			refused(t, s.g.Delete(s.ctx, box.ID), tc.code, "")
			s.is(box.ID, tc.row)
		})
	}
}

// TestDeleteIsAllowed: from every phase (bug corpus L19), and the row goes when the watch says so.
func TestDeleteIsAllowed(t *testing.T) {
	t.Parallel()
	s := begin(t)
	refused(t, s.g.Delete(s.ctx, "nobody"), codes.NotFound, "")
	lost := scripted.Fail(codes.Unavailable, "no")
	for name, bring := range map[string]func() gateway.Sandbox{
		"provisioning": func() gateway.Sandbox { return s.created("provisioning") },
		"ready":        func() gateway.Sandbox { box, _ := s.running("ready"); return box },
		"stopped":      func() gateway.Sandbox { return s.stopped("stopped") },
		"failed": func() gateway.Sandbox {
			box := s.created("failed")
			s.driver.Show(box.ID, scripted.Failed()...)
			return s.in(box.ID, phase.Error)
		},
		"starting": func() gateway.Sandbox {
			box := s.stopped("starting")
			if _, err := s.g.Start(s.ctx, box.ID); err != nil {
				t.Fatal(err)
			}
			return s.is(box.ID, phase.Starting)
		},
		"stopping": func() gateway.Sandbox {
			box, _ := s.running("stopping")
			s.driver.Script("StopSandbox", lost)
			s.driver.Script("GetSandbox", lost)
			_ = s.g.Stop(s.ctx, box.ID)
			return s.is(box.ID, phase.Stopping)
		},
		"deleting": func() gateway.Sandbox {
			box := s.created("deleting")
			s.driver.Script("DeleteSandbox", scripted.Answer(&computev1.DeleteSandboxResponse{Deleted: true}))
			if err := s.g.Delete(s.ctx, box.ID); err != nil {
				t.Fatal(err)
			}
			return s.is(box.ID, phase.Deleting)
		},
	} {
		box := bring()
		if err := s.g.Delete(s.ctx, box.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.g.AwaitRemoved(s.ctx, box.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.driver.Has(box.ID) {
			t.Errorf("%s: the driver still has it", name)
		}
	}
}

// TestFailedDeleteGoesBack: to the phase before it, also to one that is no rest.
func TestFailedDeleteGoesBack(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, _ := s.running("box")
	lost := scripted.Fail(codes.Unavailable, "no")
	s.driver.Script("StopSandbox", lost)
	s.driver.Script("GetSandbox", lost, lost)
	s.driver.Script("DeleteSandbox", lost)
	refused(t, s.g.Stop(s.ctx, box.ID), codes.Internal, "")
	refused(t, s.g.Delete(s.ctx, box.ID), codes.Internal, "delete sandbox failed: no")
	s.is(box.ID, phase.Stopping)
	if err := s.g.Stop(s.ctx, box.ID); err != nil {
		t.Error(err)
	}
	if s.is(box.ID, phase.Stopped); status.Code(s.g.Stop(s.ctx, box.ID)) != codes.FailedPrecondition {
		t.Error("stopped twice")
	}
}
