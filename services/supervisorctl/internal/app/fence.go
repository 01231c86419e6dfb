package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Exit codes of fence probe beside 0, which says that the fence is enforced, and daemon.ExitFailed, which says that nothing was probed.
const (
	exitNotEnforced = 2
	exitUnknown     = 3
)

func commands(load command.Load[*Settings], env command.Environment) []*cobra.Command {
	fence := &cobra.Command{Use: "fence", Short: "Look at the fence around sandboxes", Args: cobra.NoArgs, RunE: command.NeedsSubcommand}
	fence.AddCommand(probeCommand(load, env), canaryCommand(env))
	return []*cobra.Command{fence}
}

func probeCommand(load command.Load[*Settings], env command.Environment) *cobra.Command {
	var namespace string
	var targets []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Prove with canary Pods that the fence of a namespace is enforced",
		Long: `Prove with two canary Pods that the NetworkPolicies around sandboxes are enforced in a namespace.

The settings file, the variables and the flags are the daemon's; probe_image of [portcullis.supervisorctl] must name
supervisorctl's own image, which the Pods run. [portcullis.mesh] is not looked at. The command asks the API server itself and
needs the daemon's rights. It makes the two policies of the namespace where they are absent, as the first sandbox would, and
changes none. The Pods are removed at the end, and when the command is interrupted.

A Pod with a workload's labels tries to reach every target and must not. A Pod with a supervisor's labels, on the same node, must
reach every target before, at the same times and after, and the other Pod at the boundary port and at no other; without this, and
unless the two policies stay as they are meanwhile, nothing is proven.

Exit codes:
  0  the fence is enforced
  2  it is not enforced, or the policies are not the required ones
  3  it could not be found out
  1  nothing was probed: the settings or the command line are wrong, or the result could not be written`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own := forPeople()
			cfg, err := load(cmd, own)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("target") {
				own.Own.Targets = targets
			}
			if err := choose(&namespace, &cfg.Kubernetes, &own.Own.Probe); err != nil {
				return err
			}
			ctx, release := daemon.SignalContext(cmd.Context(), env.Exit)
			defer release()
			return probeOnce(ctx, &cfg.Kubernetes, own, namespace, func(r *probe.Result) error {
				if asJSON {
					return probe.WriteJSON(cmd.OutOrStdout(), r)
				}
				return probe.WriteText(cmd.OutOrStdout(), r)
			})
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "the namespace; in shared mode, the one of the sandboxes unless it is set")
	cmd.Flags().StringArrayVar(&targets, "target", nil, `"kubernetes" for the API server's Service, or IP:PORT; repeatable, instead of fence_probe_targets`)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the result as JSON")
	return cmd
}

// choose completes and checks what the command line says.
func choose(namespace *string, k *driverconf.Kubernetes, s *probe.Settings) error {
	if *namespace == "" && k.WorkspaceMode == driverconf.ModeShared {
		*namespace = k.Namespace
	}
	if *namespace == "" {
		return fmt.Errorf("--namespace is not set, and in %s mode there is more than one: name the namespace", k.WorkspaceMode)
	}
	if err := canary.CheckTargets(s.Targets); err != nil {
		return fmt.Errorf("--target: %w", err)
	}
	return nil
}

// probeOnce makes one probe and gives it to show. The error of a result that is no proof says what it is.
func probeOnce(ctx context.Context, k *driverconf.Kubernetes, own *Settings, namespace string, show func(*probe.Result) error) error {
	clients, err := kubeclient.New(own.Kubernetes, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	objects, err := cluster.New(clients.Calls, own.Own.RequestTimeout.Std())
	if err != nil {
		return err
	}
	prober, err := probe.New(k, own.Own.Probe, objects, canaries(clients))
	if err != nil {
		return err
	}
	result := prober.Probe(ctx, namespace)
	if err := show(&result); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	switch result.Decision.Outcome() {
	case verdict.Granted:
		return nil
	case verdict.Denied:
		return daemon.WithExitCode(fmt.Errorf("namespace %s is not fenced: %s", namespace, result.Decision.Explain()), exitNotEnforced)
	default:
		return daemon.WithExitCode(fmt.Errorf("whether namespace %s is fenced could not be found out: %s", namespace, result.Decision.Explain()), exitUnknown)
	}
}

// mostCanaries is how many leftovers of former probes are looked for at once.
const mostCanaries = 100

func canaries(clients *kubeclient.Clients) probe.Canaries {
	return func(ctx context.Context, namespace string, with map[string]string) ([]corev1.Pod, error) {
		list, err := clients.Calls.Typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(with).String(), Limit: mostCanaries})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
}

// patrol adds the daemon's own probes, where they are asked for; else it is nil.
func patrol(p *command.Parts[*Settings], objects *cluster.Cluster, clients *kubeclient.Clients) (service.Fences, error) {
	settings := p.Settings.Own.Probe
	if settings.Startup == probe.Off {
		return nil, nil //nolint:nilnil // nobody probes, which is no error
	}
	prober, err := probe.New(&p.Config.Kubernetes, settings, objects, canaries(clients))
	if err != nil {
		return nil, err
	}
	watch, err := probe.NewPatrol(&p.Config.Kubernetes, settings, prober, telemetry.Component(p.Log, "fence-probe"), p.Registry)
	if err != nil {
		return nil, err
	}
	p.Group.Add("fence-probe", watch.Run)
	return watch, nil
}

// terminationLog is where the kubelet reads a container's termination message.
const terminationLog = "/dev/termination-log"

// canaryCommand is what the Pods of a probe run; nobody else has a use for it.
func canaryCommand(env command.Environment) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:    "canary PLAN",
		Short:  "Be a canary of a fence probe, in a Pod",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := canary.DecodePlan(args[0])
			if err != nil {
				return err
			}
			ctx, release := daemon.SignalContext(cmd.Context(), env.Exit)
			defer release()
			network := canary.PodNetwork()
			network.LookupEnv = env.LookupEnv
			report := canary.Run(ctx, plan, network)
			text, err := report.Encode()
			if err != nil {
				return err
			}
			if err := write(file, text); err != nil {
				return fmt.Errorf("write the canary's report: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "report-file", terminationLog, "file that the report is written to")
	return cmd
}

// write fills a file that the kubelet has made; the directory is not ours to write in.
func write(file string, text []byte) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := f.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return err
}
