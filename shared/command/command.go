package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Settings are a daemon's own settings, with their defaults filled in when made.
type Settings interface {
	// Sections returns the [portcullis.<name>] tables that the daemon reads, by name, its own
	// included. The telemetry table is added to them.
	Sections() map[string]driverconf.Section
	// Process returns the settings that every daemon has; valid once the sections are loaded.
	Process() daemon.Config
}

// Daemon describes one program.
type Daemon[S Settings] struct {
	Name  string // as in the mesh identity and the name of its section
	Short string // one line for the help
	// Settings returns fresh settings with defaults.
	Settings func() S
	// Validate reports what no table's own rule can see, under full dotted keys: what this daemon alone
	// demands, and rules over several tables. It does no I/O, since config check runs it too. Nil adds no rule.
	Validate func(cfg *driverconf.Config, own S, report driverconf.Report)
	// Wire makes the daemon's parts and adds them to the parts' group and checks, in start order. It
	// starts nothing, and may be called again with fresh Parts after it returned an error. What it opens itself (a listener) it must
	// close then, or give to Parts.Opened.
	Wire func(ctx context.Context, p *Parts[S]) error
	// Commands returns subcommands of the daemon's own, for people. Nil adds none. Their errors are printed like
	// those of the others; load reads the settings when a command needs them.
	Commands func(load Load[S], env Environment) []*cobra.Command
}

// Load reads the settings for a subcommand into own, which is fresh and not used again after an error: from the same
// file, variables and flags as the daemon, all problems in one error. Each table's own rules apply. Daemon.Validate
// does not, since a command needs less than the daemon: what it needs, own demands or the command checks.
type Load[S Settings] func(cmd *cobra.Command, own S) (*driverconf.Config, error)

// Environment is what a program gets from its surroundings.
type Environment struct {
	Args      []string // without the program's name
	LookupEnv func(string) (string, bool)
	Stdout    io.Writer
	Stderr    io.Writer // safe for concurrent use, as os.Stderr is
	// Exit ends the process at once; it is called when a second signal arrives.
	Exit func(code int)
	// SetGRPCLog makes grpc log through the daemon's logger, which withholds what could hold a key; it
	// is process-wide and so nil in tests.
	SetGRPCLog func(grpclog.LoggerV2)
	// SetKubeLog does the same for client-go, which would write lines of its own format.
	SetKubeLog func(logr.Logger)
	// SetOTelLog does the same for OpenTelemetry, which prints what its variables hold.
	SetOTelLog func(logr.Logger, otel.ErrorHandler)
}

// System is the environment of a real process.
func System() Environment {
	return Environment{
		Args:       os.Args[1:],
		LookupEnv:  os.LookupEnv,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		Exit:       os.Exit,
		SetGRPCLog: grpclog.SetLoggerV2,
		SetKubeLog: func(log logr.Logger) { klog.SetLogger(log) },
		SetOTelLog: func(log logr.Logger, errors otel.ErrorHandler) { otel.SetLogger(log); otel.SetErrorHandler(errors) },
	}
}

// Main runs the program and returns its exit code: 0 only if it did what was asked, and for a running
// daemon that is a stop that was asked for and went well.
func Main[S Settings](ctx context.Context, d Daemon[S], env Environment) int {
	root := d.root(env)
	root.SetArgs(env.Args)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	return daemon.Exit(env.Stderr, d.Name, root.ExecuteContext(ctx))
}

func (d Daemon[S]) root(env Environment) *cobra.Command {
	var file, waiting string
	root := &cobra.Command{
		Use:           d.Name,
		Short:         d.Short,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return d.serve(cmd, file, env, waiting) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&file, "config", "", "path of the settings file, the gateway's TOML")
	root.Flags().StringVar(&waiting, flagWaitingAddress, "",
		"host:port that answers probes, alive and not ready, as long as the settings are wrong; without it that ends the process")
	driverconf.RegisterFlags(root.PersistentFlags())
	config := &cobra.Command{Use: "config", Short: "Look at the settings", Args: cobra.NoArgs, RunE: NeedsSubcommand}
	config.AddCommand(&cobra.Command{
		Use:   "check",
		Short: "Validate the settings offline and print the effective ones, secrets redacted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := d.load(cmd, file, env)
			if err != nil {
				return err
			}
			return found.cfg.WriteEffective(cmd.OutOrStdout())
		},
	})
	config.AddCommand(&cobra.Command{
		Use:   "keys",
		Short: "List the stock settings with their defaults, rules, variables and flags",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return writeKeys(cmd.OutOrStdout()) },
	})
	if d.Commands != nil {
		root.AddCommand(d.Commands(func(cmd *cobra.Command, own S) (*driverconf.Config, error) {
			cfg, _, err := d.read(cmd, file, env, own, nil)
			return cfg, err
		}, env)...)
	}
	root.AddCommand(config, &cobra.Command{
		Use:   "version",
		Short: "Print what program this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := telemetry.ReadBuild()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "portcullis %s %s, commit %s, %s\n", d.Name, b.Version, b.Commit, b.GoVersion)
			return err
		},
	})
	return root
}

// Subcommand is the program as a subcommand of another one, for a binary that has two parts to play: with settings, a --config and
// a config check of its own. It runs as a process of its own, under d.Name; use is what it is called on the command line.
func (d Daemon[S]) Subcommand(use string, env Environment) *cobra.Command {
	cmd := d.root(env)
	cmd.Use = use
	return cmd
}

// NeedsSubcommand is what a command does that only holds others: an error that says so.
func NeedsSubcommand(cmd *cobra.Command, _ []string) error {
	return fmt.Errorf("%s needs a subcommand: see %s --help", cmd.CommandPath(), cmd.CommandPath())
}

// load reads the daemon's settings into fresh values, all problems in one error.
func (d Daemon[S]) load(cmd *cobra.Command, file string, env Environment) (*settled[S], error) {
	own := d.Settings()
	cfg, tracing, err := d.read(cmd, file, env, own, d.Validate)
	if err != nil {
		return nil, err
	}
	return &settled[S]{cfg: cfg, own: own, tracing: tracing}, nil
}

// read reads the settings into own and judges them by the rules of their tables and by validate, if there is one.
func (d Daemon[S]) read(
	cmd *cobra.Command, file string, env Environment, own S, validate func(*driverconf.Config, S, driverconf.Report),
) (*driverconf.Config, telemetry.Config, error) {
	tracing := telemetry.DefaultConfig()
	if file == "" && cmd.Flags().Changed("config") {
		return nil, tracing, errors.New("--config is empty: name the settings file, or leave the flag out to run without one")
	}
	sections := maps.Clone(own.Sections())
	sections[telemetry.Section] = &tracing
	src := driverconf.Source{Path: file, LookupEnv: env.LookupEnv, Flags: cmd.Flags(), Sections: sections}
	src.Validate = func(cfg *driverconf.Config, report driverconf.Report) {
		d.checkStop(own, tracing, report)
		if validate != nil {
			validate(cfg, own, report)
		}
	}
	cfg, err := driverconf.Load(src)
	return cfg, tracing, err
}
