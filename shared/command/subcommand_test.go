package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// withLook is a daemon with a subcommand of its own, and with a rule that its own run would break.
func withLook() command.Daemon[*own] {
	d := program(neverWired)
	d.Validate = func(_ *driverconf.Config, _ *own, report driverconf.Report) {
		report("portcullis.nswatch.http_address", "is what only the daemon minds")
	}
	d.Commands = func(load command.Load[*own], env command.Environment) []*cobra.Command {
		return []*cobra.Command{{
			Use: "look", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				mine := &own{Config: daemon.DefaultConfig()}
				mine.Pprof = true // what a command sets beforehand stays, unless the file says otherwise
				cfg, err := load(cmd, mine)
				if err != nil {
					return err
				}
				_, known := env.LookupEnv("HOME")
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s %t %t\n", cfg.Kubernetes.GatewayID, mine.HTTPAddress, mine.Pprof, known)
				return err
			},
		}}
	}
	return d
}

// TestSubcommandsReadTheSameSettings: file, variables and flags, by the tables' own rules and none of the daemon's.
func TestSubcommandsReadTheSameSettings(t *testing.T) {
	file := settings(t, "[openshell.drivers.kubernetes]\ngateway_id = \"blue\"\n"+free)
	env := map[string]string{"HOME": "/h"}
	for want, args := range map[string][]string{
		"blue 127.0.0.1:0 true true\n":   {"look", "--config", file},
		"green 127.0.0.1:0 true true\n":  {"look", "--config", file, "--gateway-id", "green"},
		"openshell 127.0.0.1:9464 true ": {"look"},
	} {
		got := run(t.Context(), withLook(), env, args...)
		if got.Code != 0 || got.Stderr != "" || !strings.HasPrefix(got.Stdout, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
	if got := run(t.Context(), withLook(), env, "config", "check", "--config", file); got.Code == 0 || !strings.Contains(got.Stderr, "only the daemon minds") {
		t.Errorf("config check forgets the daemon's rule: %+v", got)
	}
}

func TestSubcommandsRefuseBadSettings(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a table's rule": {"[portcullis.nswatch]\nhttp_address = \"nowhere\"\n", "portcullis.nswatch.http_address"},
		"unknown key":    {"[portcullis.nswatch]\nhttp = 1\n", "portcullis.nswatch.http"},
	} {
		got := run(t.Context(), withLook(), nil, "look", "--config", settings(t, tc.text))
		if got.Code == 0 || got.Stdout != "" || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, tc.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := run(t.Context(), withLook(), nil, "look", "--config="); got.Code == 0 || !strings.Contains(got.Stderr, "--config is empty") {
		t.Errorf("empty path: %+v", got)
	}
	if got := run(t.Context(), withLook(), nil, "look", "x"); got.Code == 0 || strings.Count(got.Stderr, "\n") != 1 {
		t.Errorf("stray argument: %+v", got)
	}
}
