package command_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
)

// wrong are settings that do not validate: a label selector that nobody can read.
const wrong = "[openshell.drivers.kubernetes]\nworkspace_mode = \"operator\"\noperator_namespace_label = \"a=b=c\"\n"

// startUnsettled runs a daemon that has something to listen on while its settings are wrong, and says where those are.
func startUnsettled(t *testing.T, text string) (p *commandtest.Process, file string) {
	t.Helper()
	file = settings(t, text)
	wire := func(_ context.Context, p *command.Parts[*own]) error {
		p.Group.Add("part", func(ctx context.Context) error { <-ctx.Done(); return nil })
		return p.Checks.AddReadiness("part", func(context.Context) error { return nil })
	}
	program := commandtest.Of(func() command.Daemon[*own] { return program(wire) })
	return program.Start(t, "--config", file, "--waiting-address", "127.0.0.1:0"), file
}

// With an address to wait at, wrong settings leave the process alive and not ready, with the key; once they are right, it starts.
func TestSettingsThatAreWaitedFor(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"a selector":     {wrong, "operator_namespace_label"},
		"a key":          {"[portcullis]\nlog_levle = \"info\"\n", "portcullis.log_levle"},
		"no TOML at all": {"[[[", "gateway.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			p, file := startUnsettled(t, test.text)
			p.Line(commandtest.Waiting)
			if code, _ := p.Get("/livez"); code != http.StatusOK {
				t.Errorf("it is not alive: %d", code)
			}
			if code, text := p.Get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, test.says) {
				t.Errorf("/readyz answers %d %q, and nothing of %s", code, text, test.says)
			}
			right := filepath.Join(t.TempDir(), "right.toml")
			if err := os.WriteFile(right, []byte(free), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(right, file); err != nil {
				t.Fatal(err)
			}
			p.Line("starting")
			if code := p.Stop(); code != 0 {
				t.Errorf("exit code %d: %s", code, p.Stderr.String())
			}
		})
	}
}

// Without one they end it, and so does an address that cannot be had.
func TestWrongSettingsEndIt(t *testing.T) {
	for name, args := range map[string][]string{
		"no address":        nil,
		"an empty one":      {"--waiting-address", ""},
		"one that is wrong": {"--waiting-address", "nowhere.invalid:x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t.Context(), program(neverWired), nil, append([]string{"--config", settings(t, wrong)}, args...)...)
			if got.Code == 0 {
				t.Errorf("exit code 0: %s", got.Stderr)
			}
		})
	}
}

// A stop that comes while settings are waited for is no failure.
func TestStopWhileSettingsAreWrong(t *testing.T) {
	p, _ := startUnsettled(t, wrong)
	p.Line(commandtest.Waiting)
	if code := p.Stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Stderr.String())
	}
}
