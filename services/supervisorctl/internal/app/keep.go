package app

import (
	"context"
	"crypto/rand"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/reconcile"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// keep adds the reconcile loop, which runs in the one process that holds the Lease.
func keep(p *command.Parts[*Settings], conductor *conduct.Conductor, clients *kubeclient.Clients) error {
	lease, gateway := p.Settings.Own.Lease, p.Config.Kubernetes.GatewayID
	if lease.LeaseNamespace == "" {
		own, err := leadership.PodNamespace(p.LookupEnv, leadership.MountedNamespace)
		if err != nil {
			return fmt.Errorf("portcullis.supervisorctl.lease_namespace is empty and this process is in no Pod (%w); name the namespace of the Lease", err)
		}
		lease.LeaseNamespace = own
	}
	if lease.LeaseName == "" {
		lease.LeaseName = leadership.DefaultLeaseName(Name, gateway)
	}
	identity, err := leadership.NewIdentity(Name, leadership.PodName(p.LookupEnv), rand.Reader)
	if err != nil {
		return err
	}
	loop, err := reconcile.New(p.Settings.Own.Loop, workspace.SchemeOf(&p.Config.Kubernetes), conductor, clients.Watches.Metadata, func(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
		return clients.Watches.Typed.CoreV1().Pods(namespace).Watch(ctx, options)
	},
		telemetry.Component(p.Log, "reconcile"), p.Registry)
	if err != nil {
		return err
	}
	election, err := leadership.New(lease, Name, identity, clients.Calls.Typed.CoordinationV1(), loop.Lead, telemetry.Component(p.Log, "leadership"), p.Registry)
	if err != nil {
		return err
	}
	p.Group.Add("leadership", election.Run)
	return nil
}
