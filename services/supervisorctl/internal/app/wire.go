package app

import (
	"context"

	"google.golang.org/grpc"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Provision each sandbox's supervisor companions",
		Settings: defaults,
		Wire:     wire,
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	// Each generation of a sandbox copies the bundle as it is then; one that is unusable now would let none start.
	if _, err := p.Config.Kubernetes.ReadProxyCABundle(); err != nil {
		return err
	}
	if _, err := p.ConnectKubernetes(p.Settings.Kubernetes); err != nil {
		return err
	}
	policy := meshrpc.Policy{supervisorv1.SupervisorService_ServiceDesc.ServiceName: {"lifecycle"}}
	return p.ServeMesh(ctx, p.Settings.Own, p.Settings.Mesh, policy, func(s *grpc.Server) {
		supervisorv1.RegisterSupervisorServiceServer(s, supervisorv1.UnimplementedSupervisorServiceServer{})
	})
}
