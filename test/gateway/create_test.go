package gateway_test

import (
	"context"
	"encoding/json"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// TestCreate: a case per row of the contract's table for CreateSandbox (2.6), and per call before it.
func TestCreate(t *testing.T) {
	t.Parallel()
	noIdentity := scripted.Answer(&computev1.CreateSandboxResponse{})
	for name, tc := range map[string]struct {
		script  func(d *scripted.Driver)
		code    codes.Code
		text    string
		row     phase.Phase // behind it; Unspecified is none
		deletes int
	}{
		"accepted": {row: phase.Provisioning},
		"without an identity, nothing to delete": {
			func(d *scripted.Driver) { d.Script("CreateSandbox", noIdentity) }, codes.Internal, "did not return a runtime identity", phase.Unspecified, 1,
		},
		"without an identity, deleted": {
			func(d *scripted.Driver) {
				d.Script("CreateSandbox", noIdentity)
				d.Script("DeleteSandbox", scripted.Answer(&computev1.DeleteSandboxResponse{Deleted: true}))
			}, codes.Internal, "did not return a runtime identity", phase.Deleting, 1,
		},
		"without an identity, the delete fails": {
			func(d *scripted.Driver) {
				d.Script("CreateSandbox", noIdentity)
				d.Script("DeleteSandbox", scripted.Fail(codes.Unavailable, "no"))
			}, codes.Internal, "did not return a runtime identity", phase.Deleting, 1,
		},
		"no identity is needed": {
			func(d *scripted.Driver) {
				d.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) { c.SupportsSandboxAuthentication = false })
				d.Script("CreateSandbox", noIdentity)
			}, codes.OK, "", phase.Provisioning, 0,
		},
		"exists": {
			func(d *scripted.Driver) { d.Script("CreateSandbox", scripted.Fail(codes.AlreadyExists, "x")) },
			codes.AlreadyExists, "sandbox already exists", phase.Unspecified, 0,
		},
		"precondition": {
			func(d *scripted.Driver) {
				d.Script("CreateSandbox", scripted.Fail(codes.FailedPrecondition, "not in the allowlist"))
			},
			codes.FailedPrecondition, "not in the allowlist", phase.Unspecified, 0,
		},
		"unavailable": {
			func(d *scripted.Driver) { d.Script("CreateSandbox", scripted.Fail(codes.Unavailable, "later")) },
			codes.Internal, "create sandbox failed: later", phase.Unspecified, 0,
		},
		"invalid": {
			func(d *scripted.Driver) { d.Script("CreateSandbox", scripted.Fail(codes.InvalidArgument, "bad")) },
			codes.Internal, "create sandbox failed: bad", phase.Unspecified, 0,
		},
		"exhausted": {
			func(d *scripted.Driver) { d.Script("CreateSandbox", scripted.Fail(codes.ResourceExhausted, "full")) },
			codes.Internal, "create sandbox failed: full", phase.Unspecified, 0,
		},
		"made, but the answer is lost": {
			func(d *scripted.Driver) { d.Lose("CreateSandbox", codes.Unavailable) }, codes.Internal, "create sandbox failed", phase.Unspecified, 0,
		},
		"not valid": {
			func(d *scripted.Driver) {
				d.Script("ValidateSandboxCreate", scripted.Fail(codes.ResourceExhausted, "as it is"))
			},
			codes.ResourceExhausted, "as it is", phase.Unspecified, 0,
		},
		"no such workspace": {
			func(d *scripted.Driver) {
				d.Script("EnsureWorkspace", scripted.Fail(codes.PermissionDenied, "not in the allowlist"))
			},
			codes.PermissionDenied, "not in the allowlist", phase.Unspecified, 0,
		},
		"no workspaces": {
			func(d *scripted.Driver) { d.Script("EnsureWorkspace", scripted.Fail(codes.Unimplemented, "what")) }, codes.OK, "", phase.Provisioning, 0,
		},
		"the policy changed before validate": {
			func(d *scripted.Driver) {
				d.Script("GetCapabilities", nil, scripted.Answer(&computev1.GetCapabilitiesResponse{}))
			},
			codes.FailedPrecondition, "policy changed", phase.Unspecified, 0,
		},
		"the policy changed before create": {
			func(d *scripted.Driver) {
				d.Script("GetCapabilities", nil, nil, scripted.Answer(&computev1.GetCapabilitiesResponse{}))
			}, codes.FailedPrecondition, "policy changed", phase.Unspecified, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := unstarted(t)
			if tc.script != nil {
				tc.script(s.driver)
			}
			s.start()
			w := wish("box")
			w.ID = "0a1b2c3d-0000-4000-8000-000000000001"
			box, err := s.g.Create(s.ctx, w)
			refused(t, err, tc.code, tc.text)
			row := s.is(w.ID, tc.row)
			if tc.code == codes.OK && (box.RuntimeIdentity != s.driver.Identity(w.ID) || row.RuntimeIdentity != box.RuntimeIdentity) {
				t.Errorf("identity %q, stored %q, the driver's is %q", box.RuntimeIdentity, row.RuntimeIdentity, s.driver.Identity(w.ID))
			}
			if got := len(s.driver.Calls("DeleteSandbox")); got != tc.deletes {
				t.Errorf("DeleteSandbox was called %d times, not %d", got, tc.deletes)
			}
		})
	}
}

// TestWish: what the gateway refuses by itself (contract 2.5), and what the driver is told.
func TestWish(t *testing.T) {
	t.Parallel()
	s := begin(t)
	envelope := func(v any) *structpb.Struct {
		made, err := structpb.NewStruct(map[string]any{"kubernetes": v, "another": "ignored"})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	taken := wish("taken")
	taken.ID = "taken"
	if _, err := s.g.Create(s.ctx, taken); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(w *gateway.Wish)
		code   codes.Code
		text   string
	}{
		"no name":              {func(w *gateway.Wish) { w.Name = "" }, codes.InvalidArgument, "name"},
		"no workspace":         {func(w *gateway.Wish) { w.Workspace = "" }, codes.InvalidArgument, "workspace"},
		"a token of its own":   {func(w *gateway.Wish) { w.Spec.SandboxToken = "x" }, codes.InvalidArgument, "sandbox_token"},
		"a bundle of its own":  {func(w *gateway.Wish) { w.Spec.LaunchAuthentication = []byte("x") }, codes.InvalidArgument, "launch_authentication"},
		"driver config":        {func(w *gateway.Wish) { w.DriverConfig = envelope(map[string]any{"pod": "x"}) }, codes.FailedPrecondition, "disabled"},
		"no object":            {func(w *gateway.Wish) { w.DriverConfig = envelope("x") }, codes.InvalidArgument, "driver_config.kubernetes"},
		"empty driver config":  {func(w *gateway.Wish) { w.DriverConfig = envelope(map[string]any{}) }, codes.OK, ""},
		"for another driver":   {func(w *gateway.Wish) { w.DriverConfig = envelope(nil); delete(w.DriverConfig.Fields, "kubernetes") }, codes.OK, ""},
		"config in the spec":   {func(w *gateway.Wish) { w.Spec.Template = &computev1.DriverSandboxTemplate{DriverConfig: envelope(1)} }, codes.InvalidArgument, "template.driver_config"},
		"the same name, again": {func(w *gateway.Wish) { w.Name = "taken" }, codes.AlreadyExists, "sandbox already exists"},
		"the same id, again":   {func(w *gateway.Wish) { w.ID = "taken" }, codes.AlreadyExists, "sandbox already exists"},
	} {
		w := wish(name)
		tc.change(&w)
		_, err := s.g.Create(s.ctx, w)
		refused(t, err, tc.code, tc.text)
	}
}

// TestLaunch: the driver gets exactly the run that the row names, in a bundle, and the row keeps no secret.
func TestLaunch(t *testing.T) {
	t.Parallel()
	s := begin(t)
	w := wish("box")
	w.AwaitAttachment = true
	box, err := s.g.Create(s.ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	if box.Run.Generation != record.Generation(1) || box.Run.AuthEpoch != 1 {
		t.Errorf("run %+v", box.Run)
	}
	validated := s.driver.Calls("ValidateSandboxCreate")[0].(*computev1.ValidateSandboxCreateRequest).GetSandbox()
	if validated.GetSpec().GetSandboxToken() != "" || len(validated.GetSpec().GetLaunchAuthentication()) > 0 || validated.GetId() != box.ID {
		t.Error("secrets in a validation, or another id")
	}
	sent := s.driver.Calls("CreateSandbox")[0].(*computev1.CreateSandboxRequest).GetSandbox()
	if sent.GetNamespace() != "" || sent.GetWorkspace() != "team-a" || sent.GetName() != "box" || !sent.GetSpec().GetAwaitMainProcessAttachment() || sent.GetStatus() != nil {
		t.Errorf("the driver was told of %v", sent)
	}
	var bundle struct {
		Supervisor struct {
			SessionID  string `json:"session_id"`
			Generation string `json:"runtime_generation"`
			Epoch      uint64 `json:"auth_epoch"`
			Token      string `json:"sandbox_token"`
		} `json:"supervisor"`
	}
	if err := json.Unmarshal(sent.GetSpec().GetLaunchAuthentication(), &bundle); err != nil {
		t.Fatal(err)
	}
	if b := bundle.Supervisor; b.SessionID != box.Run.SessionID || b.Generation != box.Run.Generation || b.Epoch != 1 || b.Token == "" {
		t.Errorf("the bundle is for %q %q %d", b.SessionID, b.Generation, b.Epoch)
	}
	row, err := s.store.Get(box.ID)
	if err != nil {
		t.Fatal(err)
	}
	var kept computev1.DriverSandboxSpec
	if err := proto.Unmarshal(row.Spec, &kept); err != nil {
		t.Fatal(err)
	}
	if kept.GetSandboxToken() != "" || len(kept.GetLaunchAuthentication()) > 0 {
		t.Error("the row keeps secrets")
	}
}

// TestDeleteOvertakesCreate: the binding fails and what the driver made is taken back.
func TestDeleteOvertakesCreate(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"before the driver made it": false, "the driver reports a deletion": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			block, hold := scripted.Hold(nil)
			s.driver.Script("CreateSandbox", hold)
			if deleted {
				s.driver.Script("DeleteSandbox", scripted.Answer(&computev1.DeleteSandboxResponse{Deleted: true}))
			}
			w := wish("box")
			w.ID = "id-1"
			result := make(chan error, 1)
			go func() {
				_, err := s.g.Create(s.ctx, w)
				result <- err
			}()
			<-block.Entered
			if err := s.g.Delete(s.ctx, w.ID); err != nil {
				t.Fatal(err)
			}
			close(block.Release)
			refused(t, <-result, codes.Aborted, "was deleted")
			if err := s.g.AwaitRemoved(s.ctx, w.ID); err != nil {
				t.Error(err)
			}
			if s.driver.Has(w.ID) {
				t.Error("the driver still has it")
			}
		})
	}
}

// TestCreateIsCanceled: the driver sees it, the row goes, and nobody deletes at the driver: it must roll back by itself.
func TestCreateIsCanceled(t *testing.T) {
	t.Parallel()
	s := begin(t)
	block, hold := scripted.Hold(nil)
	s.driver.Script("CreateSandbox", hold)
	ctx, cancel := context.WithCancel(s.ctx)
	w := wish("box")
	w.ID = "id-1"
	result := make(chan error, 1)
	go func() {
		_, err := s.g.Create(ctx, w)
		result <- err
	}()
	<-block.Entered
	s.is(w.ID, phase.Provisioning)
	cancel()
	<-block.Canceled
	if err := <-result; status.Code(err) != codes.Internal {
		t.Error(err)
	}
	s.is(w.ID, phase.Unspecified)
	if len(s.driver.Calls("DeleteSandbox")) > 0 {
		t.Error("the gateway deleted")
	}
}
