package gateway_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

func (v *supervisor) exit(code int) {
	v.s.t.Helper()
	v.send(session.Up{Event: session.MainExited, Exit: &boundary.Exit{Code: code}})
}

// TestExchange: the checks of contract 6.6.
func TestExchange(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, other := s.created("box"), s.created("other")
	answer := func(id, identity string) scripted.Step {
		return scripted.Answer(&computev1.AuthenticateSandboxResponse{SandboxId: id, RuntimeIdentity: identity})
	}
	for name, tc := range map[string]struct {
		step       scripted.Step
		bearer, id string
		code       codes.Code
	}{
		"good":                       {nil, scripted.Bearer(box.ID), box.ID, codes.OK},
		"for another sandbox":        {nil, scripted.Bearer(other.ID), box.ID, codes.PermissionDenied},
		"without a sandbox":          {nil, scripted.Bearer(box.ID), "", codes.PermissionDenied},
		"refused by the driver":      {nil, "stranger", box.ID, codes.Unauthenticated},
		"the driver cannot find out": {scripted.Fail(codes.Unavailable, "no list"), scripted.Bearer(box.ID), box.ID, codes.Unavailable},
		"a namespace that was left":  {scripted.Fail(codes.PermissionDenied, "not in the allowlist"), scripted.Bearer(box.ID), box.ID, codes.PermissionDenied},
		"a former run":               {answer(box.ID, box.RuntimeIdentity+"0"), "x", box.ID, codes.PermissionDenied},
		"no identity":                {answer(box.ID, ""), "x", box.ID, codes.PermissionDenied},
		"an unknown sandbox":         {answer("nobody", "x"), "x", "nobody", codes.PermissionDenied},
		"nobody":                     {answer("", box.RuntimeIdentity), "x", box.ID, codes.PermissionDenied},
	} {
		if tc.step != nil {
			s.driver.Script("AuthenticateSandbox", tc.step)
		}
		token, err := s.exchange(tc.bearer, tc.id)
		refused(t, err, tc.code, "")
		if (token != "") != (tc.code == codes.OK) {
			t.Errorf("%s: token %q", name, token)
		}
	}
}

// TestBindingNamesTheDriver: a row of a driver under another configured name gets no token (contract 2.1).
func TestBindingNamesTheDriver(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	s.config.DriverName = "renamed"
	s.again()
	_, err := s.exchange(scripted.Bearer(box.ID), box.ID)
	refused(t, err, codes.PermissionDenied, "compute runtime identity does not match the sandbox")
}

// TestNoAuthentication: a driver that has none is not asked.
func TestNoAuthentication(t *testing.T) {
	t.Parallel()
	s := unstarted(t)
	s.driver.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) { c.SupportsSandboxAuthentication = false })
	s.start()
	_, err := s.exchange("x", "y")
	refused(t, err, codes.Unimplemented, "")
}

// TestTokenIsOfOneRun: a further run's gateway takes no token of the former, nor one that nobody signed.
func TestTokenIsOfOneRun(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, v := s.running("box")
	token, err := s.exchange(scripted.Bearer(box.ID), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.open(token + "x")
	refused(t, err, codes.Unauthenticated, "")
	if err := s.g.RotateKeys(); err != nil {
		t.Fatal(err)
	}
	second, err := s.open(token)
	if err != nil {
		t.Fatalf("behind a rotation: %v", err)
	}
	s.hears("PhaseChanged", "SupervisorNotConnected") // the newer session has no runtime yet
	second.confirm()
	s.in(box.ID, phase.Ready)
	if err := s.g.Stop(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	second.ended()
	v.cancel()
	if _, err := s.g.Start(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.open(token)
	refused(t, err, codes.Unauthenticated, "another run")
	if err := s.g.Delete(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.g.AwaitRemoved(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.open(token)
	refused(t, err, codes.Unauthenticated, "gone")
}

// TestSessionAndBackend: what they make together (contract 2.11).
func TestSessionAndBackend(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	s.driver.Show(box.ID, scripted.Bootstrapping()...) // the first may have lost its race
	s.hears("StatusChanged", "DependenciesNotReady")
	s.driver.Show(box.ID, scripted.Ready()...)
	s.hears("StatusChanged", "SupervisorNotConnected")
	v := s.supervise(box.ID)
	s.hears("SessionOpened", "")
	s.is(box.ID, phase.Provisioning) // it has no runtime yet
	v.confirm()
	s.hears("PhaseChanged", "DependenciesReady")
	s.is(box.ID, phase.Ready)
	v.cancel()
	e := s.hears("PhaseChanged", "")
	if e.From != phase.Ready || e.To != phase.Provisioning || e.Reason != "DependenciesNotReady" || e.Message != phase.DisconnectedMessage {
		t.Errorf("%+v", e)
	}
	s.supervise(box.ID).confirm()
	if row := s.in(box.ID, phase.Ready); !row.Deadline.IsZero() {
		t.Error("a deadline of what was ready")
	}
	// A backend that is not ready yet counts less than the session.
	s.driver.Show(box.ID, scripted.Bootstrapping()...)
	s.driver.TellOf(&computev1.DriverSandbox{Id: "nobody"})
	s.hears("Ignored", "Unknown")
	s.is(box.ID, phase.Ready)
}

// TestDriverReportsReadiness: then no session is needed.
func TestDriverReportsReadiness(t *testing.T) {
	t.Parallel()
	s := unstarted(t)
	s.driver.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) { c.DriverReportsRuntimeReadiness = true })
	s.start()
	box := s.created("box")
	s.driver.Show(box.ID, scripted.Ready()...)
	s.in(box.ID, phase.Ready)
}

// TestMainProcess: its end moves the row for good, and a user may start again.
func TestMainProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		exit boundary.Exit
		row  phase.Phase
	}{
		"done":     {boundary.Exit{}, phase.Completed},
		"failed":   {boundary.Exit{Code: 3}, phase.Error},
		"signaled": {boundary.Exit{Code: -1, Signal: 9}, phase.Error},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			box, v := s.running("box")
			v.send(session.Up{Event: session.MainExited, Exit: &tc.exit})
			s.hears("MainProcessExited", "")
			box = s.in(box.ID, tc.row)
			s.driver.Show(box.ID, scripted.Ready()...)
			s.driver.TellOf(&computev1.DriverSandbox{Id: "nobody"})
			s.hears("Ignored", "Unknown")
			s.is(box.ID, tc.row)
			if _, err := s.g.Start(s.ctx, box.ID); err != nil {
				t.Fatal(err)
			}
			s.is(box.ID, phase.Starting)
		})
	}
}

// TestExec: a command goes to the sandbox's supervisor and its output comes back.
func TestExec(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box, v := s.running("box")
	served := make(chan error, 1)
	go func() {
		m, err := v.client.Receive()
		for err == nil && m.Op != session.StdinClosed {
			if m.Op == session.Stdin {
				err = v.client.Send(session.Up{ID: m.ID, Event: session.Stdout, Data: m.Data})
			}
			if err == nil {
				m, err = v.client.Receive()
			}
		}
		if err == nil {
			err = v.client.Send(session.Up{ID: m.ID, Event: session.Exited, Exit: &boundary.Exit{Code: 7}})
		}
		served <- err
	}()
	out, err := s.g.Exec(s.ctx, box.ID, []string{"/tool"}, []byte("in"))
	if err != nil || string(out.Stdout) != "in" || out.Exit.Code != 7 {
		t.Errorf("%q, %+v, %v", out.Stdout, out.Exit, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestNotRunning: nothing is asked of a driver that is not there.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	s.stop()
	_, err := s.g.Create(s.ctx, wish("late"))
	refused(t, err, codes.Unavailable, "not running")
	refused(t, s.g.Delete(s.ctx, box.ID), codes.Unavailable, "not running")
	if err := s.g.Run(s.ctx); err == nil || !strings.Contains(err.Error(), "before") {
		t.Error(err)
	}
	if _, err := gateway.New(gateway.Config{}, s.store); err == nil || !strings.Contains(err.Error(), "socket_path") {
		t.Error(err)
	}
}
