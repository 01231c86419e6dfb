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

	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// How long the command waits for a connection, and then for the server's answers.
const (
	connectPatience = 5 * time.Second
	answerPatience  = 10 * time.Second
)

func auditCommand(load command.Load[*Settings]) *cobra.Command {
	parent := &cobra.Command{
		Use:   "audit",
		Short: "Make the audit stream",
		Args:  cobra.NoArgs,
		RunE:  command.NeedsSubcommand,
	}
	parent.AddCommand(auditBootstrap(load))
	return parent
}

func auditBootstrap(load command.Load[*Settings]) *cobra.Command {
	var shrink bool
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Create the audit stream, or bring the bounds of the one that exists in line with the settings",
		Long: `Create the JetStream stream ` + audit.Stream + `, or make sure that the one that exists is right.

Its bounds, max_age, max_bytes and replicas of [portcullis.audit], are changed to what the settings say: to more at once, to
less only with --shrink, since the server then deletes the events beyond them at once. Anything else that differs is an error.
It may be repeated.

It needs [portcullis.nats] with credentials that may create the stream, which the daemon's are not to be. The rest of the file
is not used but must be valid; [portcullis.mesh] is not looked at.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own := forPeople()
			own.NATS.Required = true
			if _, err := load(cmd, own); err != nil {
				return err
			}
			var options []audit.BootstrapOption
			if shrink {
				options = append(options, audit.AllowShrink())
			}
			return withNATS(cmd.Context(), own.NATS, func(ctx context.Context, conn *natsconn.Conn) error {
				return bootstrapStream(ctx, conn, own.Audit, options, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().BoolVar(&shrink, "shrink", false, "also lower bounds, and delete the events that are then beyond them")
	return cmd
}

func bootstrapStream(ctx context.Context, conn *natsconn.Conn, cfg audit.Config, options []audit.BootstrapOption, out io.Writer) error {
	connecting, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	session, err := conn.Await(connecting)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	done, err := audit.Bootstrap(asking, session.JetStream, cfg, options...)
	switch {
	case errors.Is(err, audit.ErrStreamShrinks):
		return fmt.Errorf("%w: correct the settings, or run it again with --shrink, which deletes the events beyond", err)
	case err != nil:
		return err
	case done.Created:
		_, err = fmt.Fprintf(out, "created the stream %s: max_age %s, max_bytes %d, replicas %d\n", audit.Stream, cfg.MaxAge, cfg.MaxBytes, cfg.Replicas)
	case len(done.Changes) == 0:
		_, err = fmt.Fprintf(out, "the stream %s is there and right\n", audit.Stream)
	}
	for _, change := range done.Changes {
		_, said := fmt.Fprintf(out, "changed the stream %s: %s\n", audit.Stream, change)
		err = errors.Join(err, said)
	}
	return err
}

// withNATS runs work beside a connection, which ends with it. What is wrong with the connection shows in its readiness;
// nothing is logged.
func withNATS(ctx context.Context, cfg natsconn.Config, work func(context.Context, *natsconn.Conn) error) error {
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
