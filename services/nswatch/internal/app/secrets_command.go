package app

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/provision"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
)

// secretsCommand makes what the mesh starts with, for a cluster in which nobody else does.
func secretsCommand(load command.Load[*Settings], env command.Environment) *cobra.Command {
	var (
		namespace, certificates string
		renew, gatewayReader    bool
	)
	cmd := &cobra.Command{
		Use:   "secrets --config FILE",
		Short: "Make the Secrets that the mesh starts with, in the cluster",
		Long: `Make the certificates of the mesh and of NATS, the identities in NATS and the keys of the allowlist and of the audit trail, as Secrets and
ConfigMaps of the mesh's namespace. What is there is kept, so it may be repeated: certificates are made anew in the last third of their life.

It needs the right to create Secrets and ConfigMaps in that namespace, to get those that it makes, and to update those that follow from
others. With --renew it makes nothing, looks at certificates alone and makes those anew that end: that needs to get the authorities, and
to get and update the certificates. Of the settings it needs gateway_id and workspace_mode: without operator mode there is nothing of
NATS and of the allowlist.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own := defaults()
			own.Allowlist.Required, own.NATS.Required = false, false
			cfg, err := load(cmd, own)
			if err != nil {
				return err
			}
			options := provision.Options{
				Namespace: namespace, GatewayID: cfg.Kubernetes.GatewayID, Now: time.Now, Renew: renew, GatewayReader: gatewayReader,
				Allowlist: cfg.Kubernetes.WorkspaceMode == driverconf.ModeOperator,
			}
			switch certificates {
			case "make":
				options.Certificates = provision.Make
			case "expect":
				options.Certificates = provision.Expect
			default:
				return fmt.Errorf("--certificates is %q; it must be make or expect", certificates)
			}
			if options.Namespace == "" {
				if options.Namespace, err = leadership.PodNamespace(env.LookupEnv, leadership.MountedNamespace); err != nil {
					return fmt.Errorf("--namespace is empty and this process is in no Pod (%w); name the namespace of the mesh", err)
				}
			}
			clients, err := kubeclient.New(own.Kubernetes, zerolog.Nop(), prometheus.NewRegistry())
			if err != nil {
				return err
			}
			options.Report = func(what, object string) { _, _ = fmt.Fprintf(cmd.OutOrStdout(), "%-8s%s\n", what, object) }
			core := clients.Calls.Typed.CoreV1()
			return provision.Run(cmd.Context(), options, core.Secrets(options.Namespace), core.ConfigMaps(options.Namespace))
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "namespace of the mesh; empty is the Pod's own")
	cmd.Flags().StringVar(&certificates, "certificates", "make", "make, or expect: somebody else, such as cert-manager, makes them")
	cmd.Flags().BoolVar(&gatewayReader, "gateway-reader", false, "make the identity of a gateway that reads the allowlist itself, too")
	cmd.Flags().BoolVar(&renew, "renew", false, "make nothing, and only renew the certificates that end")
	return cmd
}
