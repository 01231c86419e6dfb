package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestSharedAndManagedMode(t *testing.T) {
	for _, mode := range []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, mode)
			d := s.start(s.settings(mode))
			d.awaitReady()
			c := s.client(d)
			resp, err := authenticate(t, c, apitest.Valid(mode).Token)
			if err != nil || resp.GetSandboxId() != apitest.SandboxID || resp.GetRuntimeIdentity() != apitest.Identity(mode) || resp.GetAllowlist() != nil {
				t.Errorf("%v %v", resp, err)
			}
			s.Change(func(w *apitest.World) { w.Pod = nil })
			_, err = authenticate(t, c, apitest.Valid(mode).Token)
			if v, _ := verdict.FromError(err); status.Code(err) != codes.PermissionDenied || v.Reason != verdict.PodNotFound || v.Step != "pod.found" {
				t.Errorf("%v", err)
			}
			if code, metrics := d.get("/metrics"); code != http.StatusOK || !strings.Contains(metrics, `portcullis_tokenauth_decisions_total{outcome="granted",reason="none"} 1`) {
				t.Errorf("%d %s", code, metrics)
			}
			for _, want := range []string{`"outcome":"granted"`, `"reason":"pod_not_found"`, `"message":"bearer refused"`} {
				eventually(t, want+" is logged", func() bool { return strings.Contains(d.stderr.String(), want) })
			}
			if code := d.stop(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, d.stderr.String())
			}
		})
	}
}

// TestReplayT05OwnTokenIsThatOnDisk: a token that is replaced before it ends is used without anybody refusing the old one.
func TestReplayT05OwnTokenIsThatOnDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, driverconf.ModeShared)
	d := s.start(s.settings(driverconf.ModeShared))
	c := s.client(d)
	token := apitest.Valid(driverconf.ModeShared).Token
	if _, err := authenticate(t, c, token); err != nil {
		t.Fatal(err)
	}
	s.Rotate(t, "own-token-2")
	eventually(t, "the new token is used", func() bool {
		if _, err := authenticate(t, c, token); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(s.OwnTokens(), "own-token-2")
	})
}

// TestReplayT07OwnTokenIsRotated: an API server that no longer takes the old token gets the new one, without a restart.
func TestReplayT07OwnTokenIsRotated(t *testing.T) {
	t.Parallel()
	s := newSite(t, driverconf.ModeShared)
	accepted := "own-token-1"
	only := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+accepted {
			return false
		}
		return apitest.Fail(401, "Unauthorized", "Unauthorized")(w, r)
	}
	d := s.start(s.settings(driverconf.ModeShared))
	c := s.client(d)
	token := apitest.Valid(driverconf.ModeShared).Token
	if _, err := authenticate(t, c, token); err != nil {
		t.Fatal(err)
	}
	accepted = "own-token-2"
	for _, resource := range []string{apitest.TokenReviews, apitest.Pods, apitest.Sandboxes} {
		s.On(resource, only)
	}
	_, err := authenticate(t, c, token)
	if v, _ := verdict.FromError(err); status.Code(err) != codes.Internal || v.Reason != verdict.ReviewFailed || !strings.Contains(v.Explanation, "our own credentials") {
		t.Errorf("with a token of its own that is no longer good: %v, %s", err, v.Explanation)
	}
	s.Rotate(t, "own-token-2")
	eventually(t, "the new token is used", func() bool { _, err := authenticate(t, c, token); return err == nil })
}

// TestExplain: the table and the JSON have every step, and the exit code tells the verdict.
func TestExplain(t *testing.T) {
	s := newSite(t, driverconf.ModeShared)
	settings := s.settings(driverconf.ModeShared)
	token := apitest.Valid(driverconf.ModeShared).Token
	for ending, name := range map[string]string{"": "plain", "\n": "line end", "\r\n": "line end of Windows"} {
		got := run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", token+ending))
		if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, apitest.Identity(driverconf.ModeShared)) || !strings.Contains(got.stdout, "pod.found") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s.Change(func(w *apitest.World) { w.Sandbox.Labels["openshell.ai/gateway-id"] = "another" })
	got := run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", token), "--output", "json")
	var report struct {
		Outcome, Reason, Step string
		Steps                 []struct{ Name, Outcome, Evidence string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if got.code == 0 || report.Outcome != "denied" || report.Reason != "sandbox_other_gateway" || report.Step != "sandbox.gateway" || len(report.Steps) < 30 ||
		!strings.Contains(got.stderr, "the token is refused") {
		t.Errorf("%+v", got)
	}
	if n := len(s.OwnTokens()); n == 0 {
		t.Error("nobody was asked")
	}
}

func TestExplainRefuses(t *testing.T) {
	s := newSite(t, driverconf.ModeShared)
	settings := s.settings(driverconf.ModeShared)
	token := write(t, "token", "x")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no file":       {[]string{"explain", "--config", settings}, "--token-file is not set"},
		"absent":        {[]string{"explain", "--config", settings, "--token-file", "/nonexistent/token"}, "/nonexistent/token"},
		"directory":     {[]string{"explain", "--config", settings, "--token-file", filepath.Dir(token)}, "not a regular file"},
		"endless":       {[]string{"explain", "--config", settings, "--token-file", "/dev/zero"}, "not a regular file"},
		"huge":          {[]string{"explain", "--config", settings, "--token-file", write(t, "huge", strings.Repeat("x", 2<<20))}, "larger than"},
		"output":        {[]string{"explain", "--config", settings, "--token-file", token, "-o", "yaml"}, "use table or json"},
		"empty":         {[]string{"explain", "--config", settings, "--token-file", write(t, "empty", "\n")}, "credential_missing"},
		"operator mode": {[]string{"explain", "--config", s.settings(driverconf.ModeOperator), "--token-file", token}, "portcullis.nats.urls"},
	} {
		if got := run(t.Context(), c.args...); got.code == 0 || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	if seen := s.Seen(); len(seen) > 0 {
		t.Errorf("asked for %v", seen)
	}
}

func TestOperatorModeDemandsWhatItNeeds(t *testing.T) {
	s := newSite(t, driverconf.ModeOperator)
	got := run(t.Context(), "config", "check", "--config", s.settings(driverconf.ModeOperator))
	for _, want := range []string{"portcullis.nats.urls", "portcullis.allowlist.public_keys_file"} {
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := run(t.Context(), "config", "check", "--config", s.settings(driverconf.ModeShared)); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

// TestBadSettings: every table's own rules are heard.
func TestBadSettings(t *testing.T) {
	s := newSite(t, driverconf.ModeShared)
	good, err := os.ReadFile(s.settings(driverconf.ModeShared))
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"portcullis.tokenauth.call_timeout":   strings.Replace(string(good), "[portcullis.tokenauth]", "[portcullis.tokenauth]\ncall_timeout = \"1h\"", 1),
		"portcullis.tokenauth.max_concurrent": strings.Replace(string(good), "[portcullis.tokenauth]", "[portcullis.tokenauth]\nmax_concurrent = 0", 1),
		"portcullis.audit.buffer":             string(good) + "[portcullis.audit]\nbuffer = 1\n",
		"portcullis.allowlist.state_dir":      string(good) + "[portcullis.allowlist]\nstate_dir = \"x\"\n",
	} {
		if got := run(t.Context(), "config", "check", "--config", write(t, "bad.toml", text)); got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}
