package app

import (
	"context"

	"google.golang.org/grpc"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Authenticate ServiceAccount bearers",
		Settings: defaults,
		Validate: validate,
		Wire:     wire,
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	if p.Config.Kubernetes.WorkspaceMode == driverconf.ModeOperator {
		if _, err := p.ConnectNATS(p.Settings.NATS); err != nil {
			return err
		}
	}
	if _, err := p.ConnectKubernetes(p.Settings.Kubernetes); err != nil {
		return err
	}
	policy := meshrpc.Policy{tokenauthv1.TokenAuthService_ServiceDesc.ServiceName: {"lifecycle"}}
	return p.ServeMesh(ctx, p.Settings.Own, p.Settings.Mesh, policy, func(s *grpc.Server) {
		tokenauthv1.RegisterTokenAuthServiceServer(s, tokenauthv1.UnimplementedTokenAuthServiceServer{})
	})
}
