package app

import (
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
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
	return &Settings{Own: Own{Config: daemon.DefaultConfig()}, Kubernetes: kubeclient.DefaultConfig()}
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{Name: &s.Own, kubeclient.Section: &s.Kubernetes}
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.Config }
