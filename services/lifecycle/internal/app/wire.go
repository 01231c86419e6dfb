package app

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// Bounds of one connection. The gateway is one client with many calls; policies and images are small.
const (
	maxMessageBytes = 8 << 20
	maxStreams      = 1024
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Serve the compute driver contract to the gateway",
		Settings: defaults,
		Validate: validate,
		Wire:     wire,
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	if _, err := p.ConnectKubernetes(p.Settings.Kubernetes); err != nil {
		return err
	}
	server, err := newServer(p)
	if err != nil {
		return err
	}
	log := telemetry.Component(p.Log, "socket")
	path := p.Config.Kubernetes.SocketPath
	listener, err := udsock.Listen(ctx, path, udsock.Options{Log: log, Registerer: p.Registry})
	if err != nil {
		return err
	}
	if err := p.Checks.AddReadiness("socket", listener.Check); err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info().Str(telemetry.KeyAddress, path).Msg("serving the driver")
	p.Group.Add("driver", func(ctx context.Context) error {
		return daemon.ServeGRPC(ctx, server, listener, p.Drain(), log)
	})
	return nil
}

func newServer(p *command.Parts[*Settings]) (*grpc.Server, error) {
	options := append(daemon.ServerOptions(telemetry.Component(p.Log, "grpc"), p.Checks),
		grpc.Creds(udsock.Credentials()),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
	)
	server := grpc.NewServer(options...)
	how := []contract.Option{contract.WithPrefixes(contract.Prefixes()...)}
	if p.Settings.Own.AllowLegacyGateway {
		how = append(how, contract.WithLegacyGateways())
	}
	if err := contract.Register(server, driver{}, how...); err != nil {
		return nil, err
	}
	daemon.RegisterHealth(server, p.Checks)
	return server, nil
}
