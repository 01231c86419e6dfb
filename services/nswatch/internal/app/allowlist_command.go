package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/inspection"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// connectPatience is how long a subcommand waits for NATS.
const connectPatience = 5 * time.Second

func commands(load command.Load[*Settings], env command.Environment) []*cobra.Command {
	a := allowlistCommands{load: load, env: env}
	parent := &cobra.Command{
		Use:   "allowlist",
		Short: "Look at the published allowlist, and make its bucket",
		Long: `Look at what NATS holds of the allowlist, and make its bucket.

The settings file, the variables and the flags are the daemon's. show, verify and watch need the gateway's id,
[portcullis.nats] with a reader's credentials, and public_keys_file in [portcullis.allowlist]; bootstrap needs
[portcullis.nats] with credentials that may create the bucket. The rest is not used, but the file must be valid as a
whole: every table is checked, and a problem in any of them ends the command.`,
		Args: cobra.NoArgs,
		RunE: command.NeedsSubcommand,
	}
	parent.AddCommand(a.bootstrap(), a.show(), a.verify(), a.watch())
	return []*cobra.Command{keysCommand(), parent, natsCommand(env), secretsCommand(load, env)}
}

// allowlistCommands make the subcommands of allowlist.
type allowlistCommands struct {
	load command.Load[*Settings]
	env  command.Environment
}

func (a allowlistCommands) bootstrap() *cobra.Command {
	var replicas int
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Create the bucket, or make sure that the one that exists is right",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own := defaults()
			own.Allowlist.Required = false
			if _, err := a.load(cmd, own); err != nil {
				return err
			}
			return a.connected(cmd.Context(), own, func(ctx context.Context, conn *natsconn.Conn) error {
				session, err := await(ctx, conn)
				if err != nil {
					return err
				}
				created, err := allowkv.Bootstrap(ctx, session.JetStream, replicas)
				if err != nil {
					return err
				}
				text := "the bucket %s is there and right\n"
				if created {
					text = "created the bucket %s\n"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), text, allowkv.Bucket)
				return err
			})
		},
	}
	cmd.Flags().IntVar(&replicas, "replicas", 1, "copies of the bucket: 1 on a single NATS server, 3 or 5 in a cluster")
	return cmd
}

func (a allowlistCommands) show() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the newest snapshot and heartbeat, whether they verify, and the last changes",
		Long:  "Print the newest snapshot and heartbeat, whether they verify, and the last changes. The exit code is 0 when they\ncould be shown, whatever they are worth; verify is the command that judges. Like it, it looks again at a list that is\nnewer than the one that is vouched for.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := formOf(output, inspection.WriteTable, inspection.WriteJSON)
			if err != nil {
				return err
			}
			return a.inspect(cmd, func(report *inspection.Report) error { return write(cmd.OutOrStdout(), report) })
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (a allowlistCommands) verify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Exit with 0 only if the published allowlist is one that readers can use now",
		Long: `Exit with 0 only if the snapshot and the heartbeat verify and belong together, and the heartbeat vouches for the list
and is younger than max_staleness by the clocks of its writer and of this machine. Otherwise each reason is printed. A list
that is newer than the one that is vouched for is looked at again, for two heartbeat_interval and at least two seconds. A
reader may know more, such as a revision that must not come back.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.inspect(cmd, func(report *inspection.Report) error {
				if err := report.Err(); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), report.Summary())
				return err
			})
		},
	}
}

func (a allowlistCommands) watch() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print the newest records and every change from then on, until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := formOf(output, inspection.WriteLine, inspection.WriteJSONLine)
			if err != nil {
				return err
			}
			own, gateway, keys, err := a.readable(cmd)
			if err != nil {
				return err
			}
			ctx, release := daemon.SignalContext(cmd.Context(), a.env.Exit)
			defer release()
			return a.connected(ctx, own, func(ctx context.Context, conn *natsconn.Conn) error {
				// Later interruptions are lines; that nobody is there at all ends the command.
				if _, err := await(ctx, conn); err != nil && ctx.Err() == nil {
					return err
				}
				return watch(ctx, conn, keys, gateway, func(c allowkv.Change) error { return write(cmd.OutOrStdout(), c) })
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

// watch ends with ctx, or with the first line that nobody takes.
func watch(ctx context.Context, conn *natsconn.Conn, keys allowlist.KeySet, gateway string, write func(allowkv.Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	err := allowkv.InspectWatch(ctx, conn, keys, gateway, func(c allowkv.Change) {
		if failed == nil {
			if failed = write(c); failed != nil {
				cancel()
			}
		}
	})
	return errors.Join(err, failed)
}

// inspect judges what the bucket holds and gives it to show.
func (a allowlistCommands) inspect(cmd *cobra.Command, show func(*inspection.Report) error) error {
	own, gateway, keys, err := a.readable(cmd)
	if err != nil {
		return err
	}
	return a.connected(cmd.Context(), own, func(ctx context.Context, conn *natsconn.Conn) error {
		session, err := await(ctx, conn)
		if err != nil {
			return err
		}
		bounds := &own.Allowlist.Settings
		report, err := settled(ctx, bounds, func() (*inspection.Report, error) {
			found, err := allowkv.Inspect(ctx, session.JetStream, keys, gateway)
			return inspection.NewReport(&found, bounds), err
		})
		if err != nil {
			return err
		}
		return show(report)
	})
}

// settlePatience is the least time for which a writer is taken to be between its two writes.
const settlePatience = 2 * time.Second

// settled looks again while the writer is between its two writes, in which readers go on with the list before. One that
// has not vouched for its list after two intervals of the heartbeat is not between them.
func settled(ctx context.Context, bounds *allowlist.Settings, look func() (*inspection.Report, error)) (*inspection.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, max(settlePatience, 2*bounds.HeartbeatInterval.Std()))
	defer cancel()
	for {
		report, err := look()
		if err != nil || !report.Unvouched() {
			return report, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return report, nil
		}
	}
}

// readable reads what a reader of the list needs.
func (a allowlistCommands) readable(cmd *cobra.Command) (own *Settings, gateway string, keys allowlist.KeySet, err error) {
	own = defaults()
	cfg, err := a.load(cmd, own)
	if err != nil {
		return nil, "", keys, err
	}
	keys, err = readPublicKeys(own.Allowlist.PublicKeysFile)
	return own, cfg.Kubernetes.GatewayID, keys, err
}

// connected runs work beside a connection, which ends with it. What is wrong with the connection is in the error of
// await; nothing is logged.
func (a allowlistCommands) connected(ctx context.Context, own *Settings, work func(context.Context, *natsconn.Conn) error) error {
	cfg := own.NATS
	cfg.Name = "portcullis-" + Name
	conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(running) }()
	err = work(ctx, conn)
	cancel()
	return errors.Join(err, <-ended)
}

func await(ctx context.Context, conn *natsconn.Conn) (natsconn.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	return conn.Await(ctx)
}

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "table, or json")
}

// formOf chooses by the value of --output.
func formOf[T any](output string, table, json func(io.Writer, T) error) (func(io.Writer, T) error, error) {
	switch output {
	case "table":
		return table, nil
	case "json":
		return json, nil
	default:
		return nil, fmt.Errorf("--output is %q; use table or json", output)
	}
}
