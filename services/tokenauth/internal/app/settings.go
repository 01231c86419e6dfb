package app

import (
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Name is the daemon's name, in the mesh and in the settings.
const Name = "tokenauth"

// Settings are what tokenauth reads beside the stock table.
type Settings struct {
	Own        command.ServerConfig
	Mesh       meshrpc.Config
	Kubernetes kubeclient.Config
	NATS       natsconn.Config // used in operator mode
}

func defaults() *Settings {
	return &Settings{
		Own:        command.ServerConfig{Config: daemon.DefaultConfig(), ListenAddress: "127.0.0.1:8443"},
		Mesh:       meshrpc.DefaultConfig(),
		Kubernetes: command.KubernetesDefaults(Name),
		NATS:       natsconn.DefaultConfig(),
	}
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{
		Name: &s.Own, meshrpc.Section: &s.Mesh, kubeclient.Section: &s.Kubernetes, natsconn.Section: &s.NATS,
	}
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.Config }

// validate demands NATS in operator mode: the allowlist is read from it.
func validate(cfg *driverconf.Config, own *Settings, report driverconf.Report) {
	if cfg.Kubernetes.WorkspaceMode == driverconf.ModeOperator && !own.NATS.Configured() {
		report("portcullis.nats.urls", "is not set: in operator mode the allowlist is read from NATS",
			"portcullis.nats.embedded", "openshell.drivers.kubernetes.workspace_mode")
	}
}
