package supervisor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// request is a Provision that is right until a case breaks it.
type request struct {
	*supervisorv1.ProvisionRequest
	bundle func(supervisor.Object) // changes the credential bundle
	raw    []byte                  // stands in for it
}

// inner is the member supervisor of a bundle.
func inner(o supervisor.Object) supervisor.Object { return o["supervisor"].(supervisor.Object) }

func key(o supervisor.Object) supervisor.Object {
	return o["verification_keys"].([]any)[0].(supervisor.Object)
}

// badRequests are refused with the code, for the reason, and name the field.
var badRequests = []struct {
	name   string
	breaks func(*request)
	code   codes.Code
	reason verdict.Reason
	field  string
}{
	{"no reference", func(r *request) { r.Sandbox = nil }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox"},
	{"another gateway", func(r *request) { r.Sandbox.GatewayId = "other" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.gateway_id"},
	{"no gateway", func(r *request) { r.Sandbox.GatewayId = "" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.gateway_id"},
	{"namespace of two labels", func(r *request) { r.Sandbox.Namespace = "a.b" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.namespace"},
	{"namespace that is a path", func(r *request) { r.Sandbox.Namespace = "../kube-system" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.namespace"},
	{"no namespace", func(r *request) { r.Sandbox.Namespace = "" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.namespace"},
	{"name in capitals", func(r *request) { r.Sandbox.Name = "Box" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.name"},
	{"name of 64", func(r *request) { r.Sandbox.Name = strings.Repeat("a", 64) }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.name"},
	{"no uid", func(r *request) { r.Sandbox.Uid = "" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.uid"},
	{"uid of 65", func(r *request) { r.Sandbox.Uid = strings.Repeat("a", 65) }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.uid"},
	{"uid with a line break", func(r *request) { r.Sandbox.Uid = "a\nb" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.uid"},
	{"no sandbox id", func(r *request) { r.Sandbox.SandboxId = "" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.sandbox_id"},
	{"sandbox id of 37", func(r *request) { r.Sandbox.SandboxId += "0" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.sandbox_id"},
	{"sandbox id that is a path", func(r *request) { r.Sandbox.SandboxId = "a/b" }, codes.InvalidArgument, verdict.RequestInvalid, "sandbox.sandbox_id"},
	{"no run", func(r *request) { r.Run = nil }, codes.InvalidArgument, verdict.RequestInvalid, "run"},
	{"no generation", func(r *request) { r.Run.GenerationId = "" }, codes.InvalidArgument, verdict.RequestInvalid, "run.generation_id"},
	{"generation in capitals", func(r *request) { r.Run.GenerationId = "G1" }, codes.InvalidArgument, verdict.RequestInvalid, "run.generation_id"},
	{"generation of 65", func(r *request) { r.Run.GenerationId = strings.Repeat("a", 65) }, codes.InvalidArgument, verdict.RequestInvalid, "run.generation_id"},
	{"generation of dashes", func(r *request) { r.Run.GenerationId = "---" }, codes.InvalidArgument, verdict.RequestInvalid, "run.generation_id"},
	{"session that is no UUID", func(r *request) { r.Run.SessionId = "1" }, codes.InvalidArgument, verdict.RequestInvalid, "run.session_id"},
	{"epoch beyond any", func(r *request) { r.Run.AuthEpoch = 1 << 63 }, codes.InvalidArgument, verdict.RequestInvalid, "run.auth_epoch"},
	{"request id of 65", func(r *request) { r.RequestId = strings.Repeat("a", 65) }, codes.InvalidArgument, verdict.RequestInvalid, "request_id"},
	{"another session than the bundle's", func(r *request) { r.Run.SessionId = "0c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718" }, codes.FailedPrecondition, verdict.LaunchInvalid, "run.session_id"},
	{"another epoch than the bundle's", func(r *request) { r.Run.AuthEpoch = 7 }, codes.FailedPrecondition, verdict.LaunchInvalid, "run.auth_epoch"},

	{"no credentials", func(r *request) { r.raw = []byte{} }, codes.FailedPrecondition, verdict.LaunchInvalid, "launch_authentication"},
	{"credentials that are no JSON", func(r *request) { r.raw = []byte("secret-of-the-test-0123456789") }, codes.FailedPrecondition, verdict.LaunchInvalid, "launch_authentication"},
	{"credentials that are too long", func(r *request) { r.raw = []byte(strings.Repeat(" ", 262145)) }, codes.FailedPrecondition, verdict.LaunchInvalid, "launch_authentication"},
	{"no supervisor in them", broken(func(o supervisor.Object) { delete(o, "supervisor") }), codes.FailedPrecondition, verdict.LaunchInvalid, "supervisor"},
	{"a field too many", broken(func(o supervisor.Object) { o["more"] = 1 }), codes.FailedPrecondition, verdict.LaunchInvalid, "launch_authentication"},
	{"a field too many inside", broken(func(o supervisor.Object) { inner(o)["more"] = 1 }), codes.FailedPrecondition, verdict.LaunchInvalid, "supervisor"},
	{"no session in them", broken(func(o supervisor.Object) { inner(o)["session_id"] = "" }), codes.FailedPrecondition, verdict.LaunchInvalid, "session_id"},
	{"no generation in them", broken(func(o supervisor.Object) { inner(o)["runtime_generation"] = "" }), codes.FailedPrecondition, verdict.LaunchInvalid, "runtime_generation"},
	{"rotation 0", broken(func(o supervisor.Object) { inner(o)["session_rotation"] = 0 }), codes.FailedPrecondition, verdict.LaunchInvalid, "session_rotation"},
	{"epoch 0", broken(func(o supervisor.Object) { inner(o)["auth_epoch"] = 0 }), codes.FailedPrecondition, verdict.LaunchInvalid, "auth_epoch"},
	{"a gateway token that is none", broken(func(o supervisor.Object) { inner(o)["gateway_token"] = "a b" }), codes.FailedPrecondition, verdict.LaunchInvalid, "gateway_token"},
	{"no sandbox token", broken(func(o supervisor.Object) { inner(o)["sandbox_token"] = "" }), codes.FailedPrecondition, verdict.LaunchInvalid, "sandbox_token"},
	{"an expiry before 1970", broken(func(o supervisor.Object) { inner(o)["sandbox_expires_at"] = -1 }), codes.FailedPrecondition, verdict.LaunchInvalid, "sandbox_expires_at"},
	{"no gateway in them", broken(func(o supervisor.Object) { o["gateway_id"] = " " }), codes.FailedPrecondition, verdict.LaunchInvalid, "gateway_id"},
	{"no keys", broken(func(o supervisor.Object) { o["verification_keys"] = []any{} }), codes.FailedPrecondition, verdict.LaunchInvalid, "verification_keys"},
	{"a key that is a string", broken(func(o supervisor.Object) { key(o)["public_key_pem"] = "x" }), codes.FailedPrecondition, verdict.LaunchInvalid, "public_key_pem"},
	{"two keys of one id", broken(func(o supervisor.Object) { o["verification_keys"] = []any{key(o), key(o)} }), codes.FailedPrecondition, verdict.LaunchInvalid, "key_id"},

	{"a Sandbox that is not there", func(r *request) { r.Sandbox.Name = "nobody" }, codes.NotFound, verdict.RunSandboxAbsent, ""},
	{"a namespace that is not there", func(r *request) { r.Sandbox.Namespace = "nowhere" }, codes.NotFound, verdict.RunSandboxAbsent, ""},
	{"another uid", func(r *request) { r.Sandbox.Uid = "0c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718" }, codes.FailedPrecondition, verdict.RunSandboxReplaced, ""},
	{"another sandbox id", func(r *request) { r.Sandbox.SandboxId = "0c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718" }, codes.FailedPrecondition, verdict.RunSandboxForeign, ""},
	{"another generation", func(r *request) { r.Run.GenerationId = "g1" }, codes.FailedPrecondition, verdict.RunIsAnother, ""},
}

// broken changes the credential bundle.
func broken(change func(supervisor.Object)) func(*request) {
	return func(r *request) { r.bundle = change }
}

// A request that is wrong in one way is refused with the contract's code and the field's name, and nothing is made, changed or said of
// its credentials.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	b := s.Box(namespace(t, s))
	before := s.History.Now(b.Namespace).Outline()
	for _, tc := range badRequests {
		t.Run(tc.name, func(t *testing.T) {
			r := &request{
				ProvisionRequest: &supervisorv1.ProvisionRequest{Sandbox: b.Ref(), Run: b.Run.Proto(), RequestId: "bad"},
				bundle:           func(supervisor.Object) {},
			}
			tc.breaks(r)
			if r.LaunchAuthentication = r.raw; r.raw == nil {
				r.LaunchAuthentication = s.Bundle(b, b.Run, r.bundle)
			}
			_, err := client.Calls.Provision(t.Context(), r.ProvisionRequest)
			demandBad(t, demandRefused(t, err, tc.reason), err, tc.code, tc.field)
			_, err = client.Calls.Restart(t.Context(), &supervisorv1.RestartRequest{
				Sandbox: r.Sandbox, Run: r.Run, LaunchAuthentication: r.LaunchAuthentication, RequestId: r.RequestId, ExpectedRuntimeIdentity: b.Identity(),
			})
			if tc.field != "" { // it is wrong before anything is looked at
				demandBad(t, demandRefused(t, err, tc.reason), err, tc.code, tc.field)
			} else { // the identity that comes with a restart is of the Sandbox that the request should name
				demandRefused(t, err, tc.reason, verdict.RunSandboxReplaced)
			}
		})
	}
	restartRequests(t, s, client, b)
	if writes := s.Gate.Writes(b.Namespace); len(writes) > 0 {
		t.Errorf("bad requests write %v", writes)
	}
	if diff := cmp.Diff(before, s.History.Now(b.Namespace).Outline()); diff != "" {
		t.Errorf("bad requests change the cluster (-before +after):\n%s", diff)
	}
	_, err := client.Provision(t.Context(), b, b.Run) // the Box is right, so the refusals are of the requests
	must(t, err)
	demandSet(t, s, b, b.Run)
}

// demandBad demands that a refusal has the code, and tells the caller, too, which field is wrong, and nothing of credentials.
func demandBad(t *testing.T, decision verdict.Decision, err error, code codes.Code, field string) {
	t.Helper()
	if text := decision.Explain() + decision.Message(); status.Code(err) != code || strings.Contains(text, "secret-of-the-test") ||
		!strings.Contains(decision.Explain(), field) || !strings.Contains(decision.Message(), field) {
		t.Errorf("%s: %s, told %q; want %s and %q in both", status.Code(err), decision.Explain(), decision.Message(), code, field)
	}
}

// restartRequests are wrong in what only a restart has.
func restartRequests(t *testing.T, s *supervisor.Site, client *supervisor.Client, b *supervisor.Box) {
	t.Helper()
	run := supervisor.NewRun(2)
	for _, identity := range map[string]string{
		"none": "", "no URL": "kubernetes", "another namespace": strings.Replace(b.Identity(), b.Namespace, "other", 1),
		"another Sandbox": strings.Replace(b.Identity(), b.UID, "0c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718", 1),
		"too long":        b.Identity() + strings.Repeat("0", 300),
	} {
		_, err := client.Calls.Restart(t.Context(), &supervisorv1.RestartRequest{
			Sandbox: b.Ref(), Run: run.Proto(), LaunchAuthentication: s.Bundle(b, run), ExpectedRuntimeIdentity: identity,
		})
		demandBad(t, demandRefused(t, err, verdict.RunSandboxReplaced), err, codes.FailedPrecondition, "expected_runtime_identity")
	}
	// A create that is not finished is not restarted (contract 7.11 step 8).
	_, err := client.Restart(t.Context(), b, run)
	demandRefused(t, err, verdict.RunIsAnother)
	for name, call := range map[string]func(context.Context, *supervisor.Box, supervisor.Run) error{
		"release": func(ctx context.Context, b *supervisor.Box, run supervisor.Run) error {
			_, err := client.Release(ctx, b, run)
			return err
		},
		"remove": func(ctx context.Context, b *supervisor.Box, run supervisor.Run) error {
			_, err := client.Remove(ctx, b, run)
			return err
		},
	} {
		demandRefused(t, call(t.Context(), b, run), verdict.RunIsAnother)
		replaced := *b
		replaced.UID = "0c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718"
		// Of a Sandbox that is gone nothing is left to remove, and the one that has its name is left alone.
		if err := call(t.Context(), &replaced, supervisor.Run{}); name == "release" {
			demandRefused(t, err, verdict.RunSandboxReplaced)
		} else if err != nil {
			t.Errorf("%s of a Sandbox with another uid: %v", name, err)
		}
	}
}

// Without the operator's word that policies are enforced nothing is made.
func TestFenceIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	s := supervisor.New(t, sharedCluster(t), newest)
	s.Enforced = false
	client := s.Client(s.Start())
	b := s.Box(namespace(t, s))
	_, err := client.Provision(t.Context(), b, b.Run)
	decision := demandRefused(t, err, verdict.FenceNotAcknowledged)
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(decision.Explain(), "network_policy_enforced") {
		t.Errorf("%v", decision.Explain())
	}
	if now := s.History.Now(b.Namespace); len(now) != 1 {
		t.Errorf("it leaves %v", now.Outline())
	}
}
