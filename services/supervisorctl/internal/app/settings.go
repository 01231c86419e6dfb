package app

import (
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
)

// Name is the daemon's name, in the mesh and in the settings.
const Name = "supervisorctl"

// Settings are what supervisorctl reads beside the stock table.
type Settings struct {
	Own        command.ServerConfig
	Mesh       meshrpc.Config
	Kubernetes kubeclient.Config
}

func defaults() *Settings {
	return &Settings{
		Own:        command.ServerConfig{Config: daemon.DefaultConfig(), ListenAddress: "127.0.0.1:8444"},
		Mesh:       meshrpc.DefaultConfig(),
		Kubernetes: command.KubernetesDefaults(Name),
	}
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{
		Name: &s.Own, meshrpc.Section: &s.Mesh, kubeclient.Section: &s.Kubernetes,
	}
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.Config }
