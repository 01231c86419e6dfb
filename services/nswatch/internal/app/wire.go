package app

import (
	"context"

	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/embedded"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Publish which namespaces are trusted",
		Settings: defaults,
		Wire:     wire,
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	if !p.Settings.NATS.Embedded {
		return connect(p)
	}
	// Before the connection, so that a stop ends the connection first.
	server, err := hostNATS(ctx, p)
	if err != nil {
		return err
	}
	if err := connect(p); err != nil {
		server.Release()
		return err
	}
	return nil
}

// hostNATS makes the embedded server and claims its store and address, so that a start ends here if
// they cannot be had.
func hostNATS(ctx context.Context, p *command.Parts[*Settings]) (*embedded.Server, error) {
	server, err := embedded.New(embedded.FromSettings(p.Settings.NATS), telemetry.Component(p.Log, "nats-server"))
	if err != nil {
		return nil, err
	}
	if err := p.Checks.AddReadiness("nats-server", server.Ready); err != nil {
		return nil, err
	}
	if err := server.Claim(ctx); err != nil {
		return nil, err
	}
	p.Group.Add("nats-server", server.Run)
	return server, nil
}

func connect(p *command.Parts[*Settings]) error {
	if _, err := p.ConnectNATS(p.Settings.NATS); err != nil {
		return err
	}
	_, err := p.ConnectKubernetes(p.Settings.Kubernetes)
	return err
}
