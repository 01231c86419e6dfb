package app_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const sandboxID = "4b67c0d0-1111-2222-3333-444444444444"

func ref() *supervisorv1.SandboxRef {
	return &supervisorv1.SandboxRef{GatewayId: "blue", Namespace: "sandboxes", Name: "team-a--demo", Uid: "uid-box", SandboxId: sandboxID}
}

// TestTheDaemonServesLifecycle, reads at the real client, says what it does, and ends when it is asked to.
func TestTheDaemonServesLifecycle(t *testing.T) {
	s := newSite(t)
	d := s.start(s.settings())
	c := s.client(d, "lifecycle")
	out, err := c.Status(t.Context(), &supervisorv1.StatusRequest{Sandbox: ref()})
	if err != nil || out.GetStatus().GetPhase() != supervisorv1.Phase_PHASE_ABSENT || len(out.GetStatus().GetConditions()) != 5 {
		t.Errorf("%v, %v", out, err)
	}
	if read := strings.Join(s.requests(), "\n"); !strings.Contains(read, "GET /apis/agents.x-k8s.io/v1beta1/namespaces/sandboxes/sandboxes/team-a--demo") || !strings.Contains(read, "pods/os-supervisor-"+sandboxID) {
		t.Errorf("%s", read)
	}
	before := len(s.requests())
	_, err = c.Provision(t.Context(), &supervisorv1.ProvisionRequest{
		Sandbox: ref(), Run: &supervisorv1.Run{GenerationId: "g1"}, LaunchAuthentication: []byte(`{"a-secret-word":1}`),
	})
	if v, _ := verdict.FromError(err); status.Code(err) != codes.FailedPrecondition || v.Reason != verdict.LaunchInvalid || len(s.requests()) != before {
		t.Errorf("%v, %v", err, s.requests()[before:])
	}
	_, err = c.Release(t.Context(), &supervisorv1.ReleaseRequest{Sandbox: ref(), Run: &supervisorv1.Run{}, RequestId: "req-7"})
	if v, _ := verdict.FromError(err); status.Code(err) != codes.NotFound || v.Reason != verdict.RunSandboxAbsent {
		t.Errorf("%v", err)
	}
	for _, want := range []string{`"call":"release"`, `"request_id":"req-7"`, `"reason":"run_sandbox_absent"`} {
		commandtest.Eventually(t, want+" is logged", func() bool { return strings.Contains(d.Stderr.String(), want) })
	}
	if code := d.Stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.Stderr.String())
	}
	if log := d.Stderr.String() + library.String(); strings.Contains(log, "a-secret-word") || strings.Contains(log, "a-token") {
		t.Error("a credential is in the log")
	}
}

// TestOnlyLifecycleMayCall, whatever it asks for.
func TestOnlyLifecycleMayCall(t *testing.T) {
	s := newSite(t)
	d := s.start(s.settings())
	for _, caller := range []string{"nswatch", "tokenauth", "supervisorctl"} {
		c := s.client(d, caller)
		_, err := c.Status(t.Context(), &supervisorv1.StatusRequest{Sandbox: ref()})
		if v, _ := verdict.FromError(err); status.Code(err) != codes.PermissionDenied || v.Reason != verdict.CallerNotAuthorized {
			t.Errorf("%s: %v", caller, err)
		}
		if _, err := c.Remove(t.Context(), &supervisorv1.RemoveRequest{Sandbox: ref(), Run: &supervisorv1.Run{}}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", caller, err)
		}
	}
	if sent := s.requests(); len(sent) != 0 {
		t.Errorf("%v", sent)
	}
}
