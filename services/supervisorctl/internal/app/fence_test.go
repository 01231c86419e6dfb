package app_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const own = "[portcullis.supervisorctl]\n"

// TestFenceProbeSaysThatItCouldNotFindOut when the API server does not answer, by its exit code and in both forms.
func TestFenceProbeSaysThatItCouldNotFindOut(t *testing.T) {
	s := newSite(t)
	settings := s.settings(own, own+"probe_image = \"registry.example/supervisorctl:1\"\n")
	got := program.Run(t.Context(), "fence", "probe", "--config", settings, "--json")
	var report struct{ Namespace, Fence, Reason, Step, Explanation string }
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if got.Code != 3 || report.Namespace != "sandboxes" || report.Fence != "unknown" || report.Reason != "probe_cluster_unreadable" ||
		!strings.Contains(got.Stderr, "could not be found out") {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "[portcullis.mesh]\n")
	_, after, ok := strings.Cut(rest, "[portcullis.kubernetes]")
	if !ok {
		t.Fatalf("the settings are otherwise:\n%s", text)
	}
	settings = write(t, "gateway.toml", before+"[portcullis.kubernetes]"+after) // it runs where the daemon's certificates are not
	got = program.Run(t.Context(), "fence", "probe", "--config", settings, "--namespace", "elsewhere", "--target", "192.0.2.1:443")
	if got.Code != 3 || !strings.Contains(got.Stdout, "namespace    elsewhere") || !strings.Contains(got.Stdout, "probe_cluster_unreadable") {
		t.Errorf("%+v", got)
	}
}

func TestFenceProbeRefuses(t *testing.T) {
	s := newSite(t)
	settings := s.settings(own, own+"probe_image = \"registry.example/supervisorctl:1\"\n")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no image":     {[]string{"fence", "probe", "--config", s.settings()}, "probe_image"},
		"name":         {[]string{"fence", "probe", "--config", settings, "--target", "example.com:443"}, "--target"},
		"empty target": {[]string{"fence", "probe", "--config", settings, "--target", ""}, "--target"},
		"no settings":  {[]string{"fence", "probe", "--config", "/nonexistent/gateway.toml"}, "/nonexistent/gateway.toml"},
		"no cluster":   {[]string{"fence", "probe", "--config", s.settings(own, own+"probe_image = \"x\"\n", "kubeconfig = ", "kubeconfig = \"/nonexistent/kubeconfig\" #")}, "/nonexistent/kubeconfig"},
		"no namespace": {[]string{"fence", "probe", "--config", s.settings(`workspace_mode = "shared"`, `workspace_mode = "managed"`, own, own+"probe_image = \"x\"\n")}, "--namespace"},
		"stray":        {[]string{"fence", "probe", "--config", settings, "sandboxes"}, "unknown command"},
		"nothing":      {[]string{"fence"}, "needs a subcommand"},
		"no plan":      {[]string{"fence", "canary"}, "arg"},
		"bad plan":     {[]string{"fence", "canary", "{}"}, "canary plan"},
	} {
		if got := program.Run(t.Context(), c.args...); got.Code != 1 || !strings.Contains(got.Stderr, c.want) || got.Stdout != "" {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	if sent := s.requests(); len(sent) > 0 {
		t.Errorf("asked for %v", sent)
	}
	help := program.Run(t.Context(), "fence", "probe", "--help")
	for _, want := range []string{"\n  0  the fence is enforced", "\n  2  it is not enforced", "\n  3  it could not be found out", "\n  1  nothing was probed"} {
		if !strings.Contains(help.Stdout, want) {
			t.Errorf("%q is not in the help", want)
		}
	}
	if all := program.Run(t.Context(), "fence", "--help"); strings.Contains(all.Stdout, "canary PLAN") || !strings.Contains(all.Stdout, "probe ") {
		t.Errorf("%s", all.Stdout)
	}
}

// freePort is one that nobody listens at.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// TestCanaryLeavesItsReport in a file that it may only write to, as the kubelet gives it.
func TestCanaryLeavesItsReport(t *testing.T) {
	plan := &canary.Plan{
		Probe: "abcdef0123", Role: canary.Workload, Targets: []string{"192.0.2.1:443"}, Door: freePort(t), Shut: freePort(t), Settle: 1000, Limit: 2000,
	}
	text, err := plan.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "termination-log", strings.Repeat("x", 5000))
	if got := program.Run(t.Context(), "fence", "canary", text, "--report-file", file); got.Code != 0 || got.Stdout != "" {
		t.Fatalf("%+v", got)
	}
	left, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	report, err := canary.DecodeReport(string(left), plan)
	if err != nil || report.Entered || report.End == canary.EndBroken || report.End == canary.EndDone {
		t.Errorf("%+v, %v", report, err)
	}
	if got := program.Run(t.Context(), "fence", "canary", text, "--report-file", filepath.Dir(file)); got.Code != 1 || !strings.Contains(got.Stderr, "write the canary's report") {
		t.Errorf("%+v", got)
	}
}

// bundle is the credentials of a run.
func bundle(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public())
	if err != nil {
		t.Fatal(err)
	}
	var octets []int
	for _, c := range pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}) {
		octets = append(octets, int(c))
	}
	text, err := json.Marshal(map[string]any{
		"supervisor": map[string]any{
			"session_id": "3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b", "runtime_generation": "g000000000000001", "session_rotation": 1, "auth_epoch": 1,
			"gateway_token": "Z2F0ZXdheQ.dG9rZW4.c2lnbmF0dXJl", "gateway_expires_at": 0, "sandbox_token": "c2FuZGJveA.dG9rZW4.c2lnbmF0dXJl", "sandbox_expires_at": 0,
		},
		"gateway_id": "blue", "verification_keys": []any{map[string]any{"key_id": "k", "public_key_pem": octets}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestStartUpProbe: a fence about which nothing could be found out keeps the daemon neither from being ready nor from ending runs, and where
// it is required, no run is raised behind it.
func TestStartUpProbe(t *testing.T) {
	for when, code := range map[string]codes.Code{"report": codes.NotFound, "require": codes.Unavailable} {
		s := newSite(t)
		d := s.start(s.settings(own, own+"probe_image = \"registry.example/supervisorctl:1\"\nfence_probe = \""+when+"\"\n"))
		if reason := d.Logged("probed the fence", "reason"); reason != "probe_cluster_unreadable" {
			t.Errorf("%s", reason)
		}
		if _, ready := d.Get("/readyz"); strings.Contains(ready, "fence") {
			t.Errorf("%s", ready)
		}
		_, metrics := d.Get("/metrics")
		if !strings.Contains(metrics, `portcullis_supervisorctl_fence_probes_total{namespace="sandboxes",outcome="unknown"} 1`) || strings.Contains(metrics, "portcullis_supervisorctl_fence_enforced{") {
			t.Errorf("%s", metrics)
		}
		c := s.client(d, "lifecycle")
		before := len(s.requests())
		_, err := c.Provision(t.Context(), &supervisorv1.ProvisionRequest{Sandbox: ref(), Run: &supervisorv1.Run{GenerationId: "g000000000000001"}, LaunchAuthentication: bundle(t)})
		v, _ := verdict.FromError(err)
		refused := v.Reason == verdict.ProbeUnreadable && len(s.requests()) == before
		if status.Code(err) != code || refused != (when == "require") {
			t.Errorf("%s: %v after %d requests", when, err, len(s.requests())-before)
		}
		if _, err := c.Release(t.Context(), &supervisorv1.ReleaseRequest{Sandbox: ref(), Run: &supervisorv1.Run{}}); status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v", when, err)
		}
		if code := d.Stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}
