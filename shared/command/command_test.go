package command_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// own is the section of a daemon that has nothing but what every daemon has, a trail of its decisions if it records, and a client of the
// cluster if it uses one.
type own struct {
	daemon.Config
	trail   *audit.Config
	cluster *kubeclient.Config
}

func (o *own) Sections() map[string]driverconf.Section {
	sections := map[string]driverconf.Section{"nswatch": &o.Config}
	if o.trail != nil {
		sections[audit.Section] = o.trail
	}
	if o.cluster != nil {
		sections[kubeclient.Section] = o.cluster
	}
	return sections
}

func (o *own) Process() daemon.Config { return o.Config }

// program is a daemon whose wiring is the test's.
func program(wire func(context.Context, *command.Parts[*own]) error) command.Daemon[*own] {
	return command.Daemon[*own]{
		Name:     "nswatch",
		Short:    "stand-in",
		Settings: func() *own { return &own{Config: daemon.DefaultConfig()} },
		Wire:     wire,
	}
}

// run runs the daemon to its end, with these variables.
func run(ctx context.Context, d command.Daemon[*own], env map[string]string, args ...string) commandtest.Result {
	return commandtest.Of(func() command.Daemon[*own] { return d }).With(env).Run(ctx, args...)
}

func settings(t *testing.T, text string) string {
	t.Helper()
	return commandtest.WriteFile(t, t.TempDir(), "gateway.toml", text)
}

const free = "[portcullis.nswatch]\nhttp_address = \"127.0.0.1:0\"\n"

func neverWired(context.Context, *command.Parts[*own]) error {
	return errors.New("wired although the settings are wrong")
}

func TestConfigCheckPrintsWhatItWouldRunWith(t *testing.T) {
	file := settings(t, "[openshell.drivers.kubernetes]\ngateway_id = \"from-file\"\nnamespace = \"from-file\"\n"+free)
	got := run(t.Context(), program(neverWired), map[string]string{"OPENSHELL_GATEWAY_ID": "from-env"},
		"config", "check", "--config", file, "--sandbox-namespace", "from-flag")
	if got.Code != 0 || got.Stderr != "" {
		t.Fatalf("exit %d, stderr %q", got.Code, got.Stderr)
	}
	for _, want := range []string{"gateway_id = 'from-env'", "namespace = 'from-flag'", "[portcullis.nswatch]", "[portcullis.telemetry]"} {
		if !strings.Contains(got.Stdout, want) {
			t.Errorf("the effective settings lack %s:\n%s", want, got.Stdout)
		}
	}
}

func TestBadInputEndsWithOneLineEach(t *testing.T) {
	tests := map[string]struct {
		file string
		env  map[string]string
		args []string
		want []string // one per line of standard error
	}{
		"not TOML":           {file: "[openshell", want: []string{"gateway.toml"}},
		"unknown key":        {file: "[openshell.drivers.kubernetes]\ngatewayid = \"x\"\n", want: []string{"gateway_id"}},
		"two problems":       {file: "[openshell.drivers.kubernetes]\nworkspace_mode = \"none\"\nsandbox_uid = 0\n", want: []string{"sandbox_uid", "workspace_mode"}},
		"bad section":        {file: "[portcullis.nswatch]\nhttp_address = \"nowhere\"\n", want: []string{"portcullis.nswatch.http_address"}},
		"bad trace target":   {file: "[portcullis.telemetry]\notlp_endpoint = \"collector\"\n", want: []string{"portcullis.telemetry.otlp_endpoint"}},
		"bad trace variable": {env: map[string]string{"OPENSHELL_OTLP_ENDPOINT": "http://c/v1/traces"}, want: []string{"portcullis.telemetry.otlp_endpoint (environment variable OPENSHELL_OTLP_ENDPOINT)"}},
		"bad trace flag":     {args: []string{"--otlp-endpoint=http://c/v1/traces"}, want: []string{"portcullis.telemetry.otlp_endpoint (flag --otlp-endpoint)"}},
		"address to listen":  {args: []string{"--bind-address=127.0.0.1:50061"}, want: []string{"--bind-socket"}},
		"missing file and bad flag": {
			args: []string{"--config", "/nonexistent/gateway.toml", "--sandbox-gid=0"}, want: []string{"/nonexistent/gateway.toml", "--sandbox-gid"},
		},
		"stop too short": {file: "[portcullis.nswatch]\nshutdown_grace = \"10s\"\n", want: []string{"portcullis.telemetry.otlp_shutdown_timeout"}},
		"bad variable":   {env: map[string]string{"OPENSHELL_K8S_SANDBOX_UID": "root"}, want: []string{"OPENSHELL_K8S_SANDBOX_UID"}},
		"bad flag value": {args: []string{"--sandbox-gid=-1"}, want: []string{"--sandbox-gid"}},
		"unknown flag":   {args: []string{"--gatway-id=x"}, want: []string{"--gatway-id"}},
		"stray argument": {args: []string{"start"}, want: []string{"start"}},
		"empty path":     {args: []string{"--config="}, want: []string{"--config"}},
		"missing file":   {args: []string{"--config", "/nonexistent/gateway.toml"}, want: []string{"/nonexistent/gateway.toml"}},
		"no subcommand":  {args: []string{"config"}, want: []string{"subcommand"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := test.args
			if test.file != "" {
				args = append([]string{"--config", settings(t, test.file)}, args...)
			}
			checked := run(t.Context(), program(neverWired), test.env, append([]string{"config", "check"}, args...)...)
			got := run(t.Context(), program(neverWired), test.env, args...)
			if len(test.args) == 0 || strings.HasPrefix(test.args[0], "-") {
				if checked != got {
					t.Errorf("config check ends with %+v, run with %+v", checked, got)
				}
			}
			lines := strings.Split(strings.TrimSuffix(got.Stderr, "\n"), "\n")
			if got.Code == 0 || got.Stdout != "" || len(lines) != len(test.want) {
				t.Fatalf("exit %d, stdout %q, stderr, want %d lines:\n%s", got.Code, got.Stdout, len(test.want), got.Stderr)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(lines[i], "nswatch: ") || !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %q, want it to name %s", i+1, lines[i], want)
				}
			}
		})
	}
}

// TestAStopFlushesTheTrail: a daemon that records decisions keeps time for the last of them, at the expense of its calls.
func TestAStopFlushesTheTrail(t *testing.T) {
	var drain time.Duration
	d := program(func(_ context.Context, p *command.Parts[*own]) error {
		drain = p.Drain()
		return errors.New("wired")
	})
	run(t.Context(), d, nil, "--config", settings(t, free+"shutdown_grace = \"40s\"\n"))
	if drain != 20*time.Second {
		t.Errorf("without a trail calls have %s", drain)
	}
	d.Settings = func() *own {
		trail := audit.DefaultConfig()
		return &own{Config: daemon.DefaultConfig(), trail: &trail}
	}
	run(t.Context(), d, nil, "--config", settings(t, free+"shutdown_grace = \"40s\"\n"))
	if drain != 15*time.Second {
		t.Errorf("with a trail calls have %s", drain)
	}
	for limit, fits := range map[string]bool{"5s": true, "6s": false} {
		file := settings(t, free+"shutdown_grace = \"40s\"\n[portcullis.audit]\nflush_timeout = \""+limit+"\"\n")
		got := run(t.Context(), d, nil, "config", "check", "--config", file)
		if (got.Code == 0) != fits || (!fits && !strings.Contains(got.Stderr, "portcullis.audit.flush_timeout")) {
			t.Errorf("%s: %+v", limit, got)
		}
	}
}

// TestOwnRulesJoinTheOthers: the daemon's own step is part of run and of config check.
func TestOwnRulesJoinTheOthers(t *testing.T) {
	d := program(neverWired)
	d.Validate = func(cfg *driverconf.Config, own *own, report driverconf.Report) {
		if cfg.Kubernetes.GatewayID == "blue" && own.HTTPAddress == "127.0.0.1:0" {
			report("openshell.drivers.kubernetes.socket_path", "is not set")
		}
	}
	file := settings(t, "[openshell.drivers.kubernetes]\ngateway_id = \"blue\"\nsandbox_uid = 0\n"+free)
	for _, args := range [][]string{{"--config", file}, {"config", "check", "--config", file}} {
		got := run(t.Context(), d, nil, args...)
		want := "nswatch: openshell.drivers.kubernetes.sandbox_uid (" + file + ":3): must be from 1 to 4294967294, but is 0\n" +
			"nswatch: openshell.drivers.kubernetes.socket_path: is not set\n"
		if got.Code == 0 || got.Stdout != "" || got.Stderr != want {
			t.Errorf("%v: exit %d, stdout %q, stderr:\n%s\nwant:\n%s", args, got.Code, got.Stdout, got.Stderr, want)
		}
	}
}

// TestTraceEndpointIsPrintedAsItRuns: what a flag or a variable says is the section's value.
func TestTraceEndpointIsPrintedAsItRuns(t *testing.T) {
	file := settings(t, "[portcullis.telemetry]\notlp_endpoint = \"https://of-file\"\n"+free)
	for want, env := range map[string]map[string]string{
		"otlp_endpoint = 'https://of-env' # environment variable OPENSHELL_OTLP_ENDPOINT\n": {"OPENSHELL_OTLP_ENDPOINT": "https://of-env"},
		"otlp_endpoint = '' # environment variable OPENSHELL_OTLP_ENDPOINT\n":               {"OPENSHELL_OTLP_ENDPOINT": ""},
		"otlp_endpoint = 'https://of-file' # " + file + ":2\n":                              nil,
	} {
		got := run(t.Context(), program(neverWired), env, "config", "check", "--config", file)
		if got.Code != 0 || strings.Count(got.Stdout, "\notlp_endpoint = '") != 1 || !strings.Contains(got.Stdout, want) {
			t.Errorf("exit %d, want one endpoint, %s:\n%s%s", got.Code, want, got.Stdout, got.Stderr)
		}
	}
}

func TestFailedWiringStartsNothing(t *testing.T) {
	file := settings(t, free)
	got := run(t.Context(), program(func(_ context.Context, p *command.Parts[*own]) error {
		p.Group.Add("part", func(context.Context) error { panic("started") })
		return errors.New("read key k.pem: no such file")
	}), nil, "--config", file)
	if got.Code == 0 || got.Stderr != "nswatch: read key k.pem: no such file\n" {
		t.Fatalf("exit %d, stderr %q", got.Code, got.Stderr)
	}
}

func TestTakenAdminAddressEndsTheStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, more := range []string{"", "wait_at_start = true\n"} {
		file := settings(t, fmt.Sprintf("[portcullis.nswatch]\nhttp_address = %q\n%s", taken.Addr(), more))
		got := run(t.Context(), program(neverWired), nil, "--config", file)
		if got.Code == 0 || !strings.Contains(got.Stderr, taken.Addr().String()) || strings.Count(got.Stderr, "\n") != 1 {
			t.Fatalf("%q: exit %d, stderr %q", more, got.Code, got.Stderr)
		}
	}
}

func TestRunServesUntilAsked(t *testing.T) {
	p := commandtest.Of(func() command.Daemon[*own] {
		return program(func(_ context.Context, p *command.Parts[*own]) error {
			p.Group.Add("part", func(ctx context.Context) error { <-ctx.Done(); return nil })
			return p.Checks.AddReadiness("part", func(context.Context) error { return nil })
		})
	}).Start(t, "--config", settings(t, free), "--gateway-name", "front")
	if gateway := p.Logged("starting", "gateway_name"); gateway != "front" {
		t.Errorf("the daemon starts for gateway %q", gateway)
	}
	p.AwaitReady()
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if code, text := p.Get(path); code != http.StatusOK {
			t.Errorf("%s answers %d: %s", path, code, text)
		}
	}
	if code := p.Stop(); code != 0 {
		t.Errorf("a requested stop exits with %d:\n%s", code, p.Stderr.String())
	}
}

func TestVersion(t *testing.T) {
	got := run(t.Context(), program(neverWired), nil, "version")
	if got.Code != 0 || !strings.HasPrefix(got.Stdout, "portcullis nswatch ") {
		t.Errorf("exit %d, %q", got.Code, got.Stdout)
	}
}

func TestConfigKeysListsEveryKey(t *testing.T) {
	got := run(t.Context(), program(neverWired), nil, "config", "keys")
	if got.Code != 0 || got.Stderr != "" {
		t.Fatalf("exit %d, stderr %q", got.Code, got.Stderr)
	}
	for _, k := range driverconf.Keys() {
		if !strings.Contains(got.Stdout, k.Name+" ") {
			t.Errorf("the list lacks %s", k.Name)
		}
	}
}
