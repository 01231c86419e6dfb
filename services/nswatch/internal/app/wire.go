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

func wire(_ context.Context, p *command.Parts[*Settings]) error {
	if p.Settings.NATS.Embedded {
		// Before the connection, so that a stop ends the connection first.
		server, err := embedded.New(embedded.FromSettings(p.Settings.NATS), telemetry.Component(p.Log, "nats-server"))
		if err != nil {
			return err
		}
		if err := p.Checks.AddReadiness("nats-server", server.Ready); err != nil {
			return err
		}
		p.Group.Add("nats-server", server.Run)
	}
	if _, err := p.ConnectNATS(p.Settings.NATS); err != nil {
		return err
	}
	_, err := p.ConnectKubernetes(p.Settings.Kubernetes)
	return err
}
