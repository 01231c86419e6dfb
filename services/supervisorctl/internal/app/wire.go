package app

import (
	"context"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Provision each sandbox's supervisor companions",
		Settings: defaults,
		Validate: validate,
		Wire:     wire,
		Commands: commands,
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	// Each generation of a sandbox copies the bundle as it is then; one that is unusable now would let none start.
	if _, err := p.Config.Kubernetes.ReadProxyCABundle(); err != nil {
		return err
	}
	clients, err := p.ConnectKubernetes(p.Settings.Kubernetes)
	if err != nil {
		return err
	}
	if err := p.RequireSandboxes(clients); err != nil {
		return err
	}
	own := &p.Settings.Own
	objects, err := cluster.New(clients.Calls, own.RequestTimeout.Std())
	if err != nil {
		return err
	}
	conductor, err := conduct.New(&p.Config.Kubernetes, own.options(), objects, telemetry.Component(p.Log, "conduct"), p.Registry, p.Tracing.Provider())
	if err != nil {
		return err
	}
	p.Group.Add("events", conductor.Run)
	fences, err := patrol(p, objects, clients)
	if err != nil {
		return err
	}
	server, err := service.New(own.Calls, p.Config.Kubernetes.GatewayID, conductor, fences, telemetry.Component(p.Log, "calls"), p.Registry)
	if err != nil {
		return err
	}
	if err := keep(p, conductor, clients); err != nil {
		return err
	}
	policy := meshrpc.Policy{supervisorv1.SupervisorService_ServiceDesc.ServiceName: {"lifecycle"}}
	return p.ServeMesh(ctx, own.ServerConfig, p.Settings.Mesh, policy, func(s meshrpc.Registrar) {
		supervisorv1.RegisterSupervisorServiceServer(s, server)
	})
}
