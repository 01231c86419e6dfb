package app

import (
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Name is the daemon's name, in the mesh and in the settings.
const Name = "nswatch"

// Settings are what nswatch reads beside the stock table.
type Settings struct {
	Own        daemon.Config
	NATS       natsconn.Config
	Kubernetes kubeclient.Config
}

func defaults() *Settings {
	s := &Settings{Own: daemon.DefaultConfig(), NATS: natsconn.DefaultConfig(), Kubernetes: command.KubernetesDefaults(Name)}
	s.NATS.Required = true
	return s
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{Name: &s.Own, natsconn.Section: &s.NATS, kubeclient.Section: &s.Kubernetes}
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own }
