package app_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// TestExplain: the table and the JSON have every step, and the exit code tells the verdict.
func TestExplain(t *testing.T) {
	s := newSite(t, driverconf.ModeShared)
	settings := s.settings(driverconf.ModeShared)
	token := apitest.Valid(driverconf.ModeShared).Token
	for ending, name := range map[string]string{"": "plain", "\n": "line end", "\r\n": "line end of Windows"} {
		got := program.Run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", token+ending))
		if got.Code != 0 || got.Stderr != "" || !strings.Contains(got.Stdout, apitest.Identity(driverconf.ModeShared)) || !strings.Contains(got.Stdout, "pod.found") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s.Change(func(w *apitest.World) { w.Sandbox.Labels["openshell.ai/gateway-id"] = "another" })
	got := program.Run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", token), "--output", "json")
	var report struct {
		Outcome, Reason, Step string
		Steps                 []struct{ Name, Outcome, Evidence string }
	}
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if got.Code != 2 || report.Outcome != "denied" || report.Reason != "sandbox_other_gateway" || report.Step != "sandbox.gateway" || len(report.Steps) < 30 ||
		!strings.Contains(got.Stderr, "the token is refused") {
		t.Errorf("%+v", got)
	}
	s.On(apitest.Pods, apitest.Fail(500, "InternalError", "etcd is away"))
	got = program.Run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", token))
	if got.Code != 3 || !strings.Contains(got.Stderr, "could not be found out") || !strings.Contains(got.Stdout, "unknown") {
		t.Errorf("%+v", got)
	}
}

// TestExplainReadsTheStandardInput: for a Pod, into which nobody can put a file. What is no token by its size is refused there as well.
func TestExplainReadsTheStandardInput(t *testing.T) {
	s := newSite(t, driverconf.ModeShared)
	settings := s.settings(driverconf.ModeShared)
	before := os.Stdin
	t.Cleanup(func() { os.Stdin = before })
	for name, c := range map[string]struct {
		input, want string
		code        int
	}{
		"a token": {apitest.Valid(driverconf.ModeShared).Token + "\n", apitest.Identity(driverconf.ModeShared), 0},
		"nothing": {"", "credential_missing", 2},
		"huge":    {strings.Repeat("x", 2<<20), "the standard input is larger than", 1},
	} {
		file, err := os.Open(write(t, "input", c.input))
		if err != nil {
			t.Fatal(err)
		}
		os.Stdin = file
		got := program.Run(t.Context(), "explain", "--config", settings, "--token-file", "-")
		_ = file.Close()
		if got.Code != c.code || !strings.Contains(got.Stdout+got.Stderr, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestExplainNeedsNoPartOfTheMesh: it runs where the daemon's certificates are not.
func TestExplainNeedsNoPartOfTheMesh(t *testing.T) {
	s := newSite(t, driverconf.ModeShared)
	text, err := os.ReadFile(s.settings(driverconf.ModeShared))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "[portcullis.mesh]\n")
	_, after, ok := strings.Cut(rest, "[portcullis.kubernetes]")
	if !ok {
		t.Fatalf("the settings are otherwise:\n%s", text)
	}
	settings := write(t, "gateway.toml", before+"[portcullis.kubernetes]"+after)
	token := write(t, "token", apitest.Valid(driverconf.ModeShared).Token)
	if got := program.Run(t.Context(), "explain", "--config", settings, "--token-file", token); got.Code != 0 {
		t.Errorf("%+v", got)
	}
	if got := program.Run(t.Context(), "config", "check", "--config", settings); got.Code == 0 || !strings.Contains(got.Stderr, "portcullis.mesh.cert_file") {
		t.Errorf("the daemon does without: %+v", got)
	}
}

// TestExplainSaysWhyThereIsNoList: in operator mode with NATS away the verdict is unknown, and what is wrong is told.
func TestExplainSaysWhyThereIsNoList(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := closed.Addr().String()
	_ = closed.Close()
	w := startWriter(t)
	s := newSite(t, driverconf.ModeOperator)
	settings := s.settings(driverconf.ModeOperator, strings.Replace(w.tables(), w.url, "nats://"+away, 1))
	got := program.Run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", apitest.Valid(driverconf.ModeOperator).Token))
	if got.Code != 3 || !strings.Contains(got.Stdout, "list trouble") || !strings.Contains(got.Stdout, "not connected to NATS") ||
		!strings.Contains(got.Stdout, away) || !strings.Contains(got.Stderr, "unsynced") {
		t.Errorf("%+v", got)
	}
}

func TestExplainRefuses(t *testing.T) {
	s := newSite(t, driverconf.ModeShared)
	settings := s.settings(driverconf.ModeShared)
	token := write(t, "token", "x")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":       {[]string{"explain", "--config", settings}, 1, "--token-file is not set"},
		"absent":        {[]string{"explain", "--config", settings, "--token-file", "/nonexistent/token"}, 1, "/nonexistent/token"},
		"directory":     {[]string{"explain", "--config", settings, "--token-file", filepath.Dir(token)}, 1, "not a regular file"},
		"endless":       {[]string{"explain", "--config", settings, "--token-file", "/dev/zero"}, 1, "not a regular file"},
		"huge":          {[]string{"explain", "--config", settings, "--token-file", write(t, "huge", strings.Repeat("x", 2<<20))}, 1, "larger than"},
		"output":        {[]string{"explain", "--config", settings, "--token-file", token, "-o", "yaml"}, 1, "use table or json"},
		"no settings":   {[]string{"explain", "--config", "/nonexistent/gateway.toml", "--token-file", token}, 1, "/nonexistent/gateway.toml"},
		"stray":         {[]string{"explain", "--config", settings, token}, 1, "unknown command"},
		"empty":         {[]string{"explain", "--config", settings, "--token-file", write(t, "empty", "\n")}, 2, "credential_missing"},
		"operator mode": {[]string{"explain", "--config", s.settings(driverconf.ModeOperator), "--token-file", token}, 1, "portcullis.nats.urls"},
	} {
		if got := program.Run(t.Context(), c.args...); got.Code != c.code || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%s: %+v, want %d and %q", name, got, c.code, c.want)
		}
	}
	if seen := s.Seen(); len(seen) > 0 {
		t.Errorf("asked for %v", seen)
	}
	help := program.Run(t.Context(), "explain", "--help")
	for _, want := range []string{"\n  0  the token is accepted", "\n  2  it is refused", "\n  3  it could not be found out", "\n  1  nothing was decided"} {
		if !strings.Contains(help.Stdout, want) {
			t.Errorf("%q is not in the help", want)
		}
	}
}
