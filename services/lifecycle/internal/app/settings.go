package app

import (
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// Name is the daemon's name, in the mesh and in the settings.
const Name = "lifecycle"

// Own is the table [portcullis.lifecycle].
type Own struct {
	daemon.Config
	// AllowLegacyGateway speaks to gateways older than the contract of today too, v0.0.105 and later:
	// it serves the removed method and adds times in the removed fields. Such a gateway says less
	// about itself, so less is checked. Default false.
	AllowLegacyGateway bool `toml:"allow_legacy_gateway"`
}

// Settings are what lifecycle reads beside the stock table.
type Settings struct {
	Own        Own
	Kubernetes kubeclient.Config
}

func defaults() *Settings {
	return &Settings{Own: Own{Config: daemon.DefaultConfig()}, Kubernetes: command.KubernetesDefaults(Name)}
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{Name: &s.Own, kubeclient.Section: &s.Kubernetes}
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.Config }

// validate demands the socket, which only this daemon serves, and the text rules of its path (contract 2.2).
func validate(cfg *driverconf.Config, _ *Settings, report driverconf.Report) {
	const key = "openshell.drivers.kubernetes.socket_path"
	path := cfg.Kubernetes.SocketPath
	if path == "" {
		report(key, "is not set: the driver is served on a private Unix socket only, since whoever reaches it is believed"+
			" (set it, --bind-socket or OPENSHELL_COMPUTE_DRIVER_SOCKET)")
		return
	}
	if err := udsock.CheckPath(path); err != nil {
		report(key, err.Error())
	}
}
