// Command kube runs the test clusters by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/keeper"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		stop()
		os.Exit(exit.ExitCode())
	default:
		stop()
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "kube",
		Short:         "Run a real Kubernetes for tests: profile controlplane, or node (root)",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		profileCommand("build", "Build and install what the profile needs", build),
		upCommand(),
		profileCommand("down", "Stop the cluster and remove everything of it", down),
		profileCommand("kubeconfig", "Print the path of the running cluster's kubeconfig", kubeconfig),
		runCommand(),
		profileCommand("keep", "Be the process that owns the cluster (internal)", keep),
	)
	return root
}

func profileCommand(name, short string, do func(context.Context, keeper.Profile) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " [PROFILE]",
		Short: short,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := keeper.ControlPlane
			if len(args) == 1 {
				var err error
				if p, err = keeper.Parse(args[0]); err != nil {
					return err
				}
			}
			return do(cmd.Context(), p)
		},
	}
}

func upCommand() *cobra.Command {
	var services bool
	c := profileCommand("up", "Start the cluster and keep it until kube down", func(ctx context.Context, p keeper.Profile) error {
		return up(ctx, p, services)
	})
	c.Flags().BoolVar(&services, "services", false, "also run the cluster's name server (profile node), which takes some seconds")
	return c
}

func build(ctx context.Context, p keeper.Profile) error { return keeper.Prepare(ctx, p, os.Stderr) }

func up(ctx context.Context, p keeper.Profile, services bool) error {
	a, err := keeper.Attach(ctx, p, os.Stderr)
	if err != nil {
		return err
	}
	defer a.Release()
	if err := keeper.Pin(p); err != nil {
		return err
	}
	if services {
		if err := keeper.ServeDNS(ctx, a.Kubeconfig, a.Socket, os.Stderr); err != nil {
			return err
		}
	}
	fmt.Printf("export KUBECONFIG=%s\n", a.Kubeconfig)
	fmt.Fprintf(os.Stderr, "logs: %s\n", a.Logs)
	return nil
}

func down(ctx context.Context, p keeper.Profile) error { return keeper.Down(ctx, p) }

func kubeconfig(_ context.Context, p keeper.Profile) error {
	s, err := keeper.Current(p)
	if err != nil {
		return err
	}
	fmt.Println(s.Kubeconfig)
	return nil
}

func keep(ctx context.Context, p keeper.Profile) error {
	return keeper.Keep(ctx, p, os.Stderr, os.NewFile(3, "starter"))
}

func runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run PROFILE -- COMMAND [ARG...]",
		Short: "Run a command while the cluster is up, with KUBECONFIG set",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := keeper.Parse(args[0])
			if err != nil {
				return err
			}
			a, err := keeper.Attach(cmd.Context(), p, os.Stderr)
			if err != nil {
				return err
			}
			defer a.Release()
			child := exec.CommandContext(cmd.Context(), args[1], args[2:]...)
			child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
			child.Env = append(os.Environ(), "KUBECONFIG="+a.Kubeconfig)
			child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
			return child.Run()
		},
	}
}
