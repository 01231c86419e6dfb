package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/natsidentity"
	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/natsreload"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
)

// defaultMeshNamespace is where the manifests put the mesh.
const defaultMeshNamespace = "portcullis"

func natsCommand(env command.Environment) *cobra.Command {
	parent := &cobra.Command{Use: "nats", Short: "Prepare and keep the NATS servers of the mesh", Args: cobra.NoArgs, RunE: command.NeedsSubcommand}
	parent.AddCommand(natsIdentities(), natsReload(env))
	return parent
}

func natsIdentities() *cobra.Command {
	var d natsidentity.Directory
	cmd := &cobra.Command{
		Use:   "identities --dir DIR --gateway-id ID --ca-file FILE",
		Short: "Make the NKEYs of everybody who talks to NATS, and the file by which the servers know them",
		Long: `Make one NKEY for each identity that the NATS servers of deploy/kustomize/base/nats let in, each seed in a file of DIR, and
beside them ` + natsidentity.File + `, which the servers include, and a kustomization that makes the ConfigMap and the Secrets:

	kubectl apply -k DIR

Seeds that are there are kept, so it may be repeated. To replace one, delete its file, repeat it and apply. Keep DIR as you
keep other secrets, or delete the seeds when they are applied: then all of them are new the next time.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.Authority == "" {
				return errors.New("nats identities needs --dir, --gateway-id and --ca-file, the certificate that the NATS servers' own chain to")
			}
			all, err := d.Fill()
			for _, made := range all {
				what := "kept"
				if made.New {
					what = "made"
				}
				if _, said := fmt.Fprintf(cmd.OutOrStdout(), "%s %-20s %s\n", what, made.Name, made.Public); said != nil {
					return errors.Join(err, said)
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&d.Path, "dir", "", "directory of the identities; made if it is missing")
	cmd.Flags().StringVar(&d.GatewayID, "gateway-id", "", "gateway_id of the settings")
	cmd.Flags().StringVar(&d.Authority, "ca-file", "", "certificates, PEM, that those of the NATS servers chain to")
	cmd.Flags().StringVar(&d.Namespace, "namespace", defaultMeshNamespace, "namespace of the mesh")
	return cmd
}

func natsReload(env command.Environment) *cobra.Command {
	var cfg natsreload.Config
	cmd := &cobra.Command{
		Use:   "reload --pid-file FILE --watch DIR",
		Short: "Tell the NATS server of this Pod when its files have changed, until interrupted",
		Long: `Tell the NATS server to read its files (SIGHUP) when one of them has changed, and once at the start. It runs beside the server, as
the same user, and sees its processes (shareProcessNamespace). A server that cannot use what it reads says so in its log and keeps
what it has.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reloader, err := natsreload.New(cfg, zerolog.New(cmd.ErrOrStderr()).With().Timestamp().Logger())
			if err != nil {
				return err
			}
			ctx, release := daemon.SignalContext(cmd.Context(), env.Exit)
			defer release()
			return reloader.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&cfg.PIDFile, "pid-file", "", "file in which the server writes its process number, absolute")
	cmd.Flags().StringArrayVar(&cfg.Dirs, "watch", nil, "directory of the server's files, absolute; may be repeated")
	cmd.Flags().DurationVar(&cfg.Every, "every", 5*time.Second, "how often to look")
	return cmd
}
