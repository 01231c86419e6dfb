package app_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestSharedAndManagedMode(t *testing.T) {
	for _, mode := range []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, mode)
			d := s.start(s.settings(mode))
			d.AwaitReady()
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
			if code, metrics := d.Get("/metrics"); code != http.StatusOK || !strings.Contains(metrics, `portcullis_tokenauth_decisions_total{outcome="granted",reason="none"} 1`) {
				t.Errorf("%d %s", code, metrics)
			}
			for _, want := range []string{`"outcome":"granted"`, `"reason":"pod_not_found"`, `"message":"bearer refused"`} {
				commandtest.Eventually(t, want+" is logged", func() bool { return strings.Contains(d.Stderr.String(), want) })
			}
			if code := d.Stop(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, d.Stderr.String())
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
	commandtest.Eventually(t, "the new token is used", func() bool {
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
	commandtest.Eventually(t, "the new token is used", func() bool { _, err := authenticate(t, c, token); return err == nil })
}

func TestOperatorModeDemandsWhatItNeeds(t *testing.T) {
	s := newSite(t, driverconf.ModeOperator)
	got := program.Run(t.Context(), "config", "check", "--config", s.settings(driverconf.ModeOperator))
	for _, want := range []string{"portcullis.nats.urls", "portcullis.allowlist.public_keys_file"} {
		if got.Code == 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := program.Run(t.Context(), "config", "check", "--config", s.settings(driverconf.ModeShared)); got.Code != 0 {
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
		"portcullis.mesh.max_message_bytes":   strings.Replace(string(good), "[portcullis.mesh]", "[portcullis.mesh]\nmax_message_bytes = 65535", 1),
		"takes 65536 to 4194304":              strings.Replace(string(good), "[portcullis.mesh]", "[portcullis.mesh]\nmax_message_bytes = 4194305", 1),
		"portcullis.audit.flush_timeout":      string(good) + "[portcullis.audit]\nflush_timeout = \"3s\"\n",
		"portcullis.tokenauth.max_concurrent": strings.Replace(string(good), "[portcullis.tokenauth]", "[portcullis.tokenauth]\nmax_concurrent = 0", 1),
		"portcullis.audit.buffer":             string(good) + "[portcullis.audit]\nbuffer = 1\n",
		"portcullis.allowlist.state_dir":      string(good) + "[portcullis.allowlist]\nstate_dir = \"x\"\n",
	} {
		if got := program.Run(t.Context(), "config", "check", "--config", write(t, "bad.toml", text)); got.Code == 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}
