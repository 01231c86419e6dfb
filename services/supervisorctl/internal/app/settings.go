package app

import (
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/reconcile"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
)

// Name is the daemon's name, in the mesh and in the settings.
const Name = "supervisorctl"

// Settings are what supervisorctl reads beside the stock table.
type Settings struct {
	Own        Own
	Mesh       meshrpc.Config
	Kubernetes kubeclient.Config
	// withoutMesh leaves [portcullis.mesh] alone: a command needs no certificates.
	withoutMesh bool
}

type (
	// Calls are the bounds of calls.
	Calls = service.Settings
	// Lease is what the replicas share, so that one of them runs the loop.
	Lease = leadership.Settings
	// Loop is how the reconcile loop looks at sandboxes.
	Loop = reconcile.Settings
	// Probe is how fences are probed.
	Probe = probe.Settings
)

// Own is the section [portcullis.supervisorctl].
type Own struct {
	command.ServerConfig
	Calls
	Lease
	Loop
	Probe
	// Telemetry is OPENSHELL_TELEMETRY_ENABLED of supervisors (contract 7.6).
	Telemetry bool `toml:"telemetry_enabled"`
	// StageClientKey stages the client's certificate and key for supervisors, for gateways that still ask for one.
	StageClientKey bool `toml:"stage_client_key"`
}

// Validate reports every problem with its key.
func (o *Own) Validate(report func(key, problem string)) {
	o.ServerConfig.Validate(report)
	o.Calls.Validate(report)
	o.Lease.Validate(report)
	o.Loop.Validate(report)
	o.Probe.Validate(report)
}

// Bounds of the requests to the API server: a Provision makes some twenty, and as many calls as max_concurrent allows are to go on at
// once.
const (
	qps   = 400
	burst = 800
)

func defaults() *Settings {
	s := &Settings{
		Own: Own{
			ServerConfig: command.ServerConfig{Config: daemon.DefaultConfig(), ListenAddress: "127.0.0.1:8444"},
			Calls:        service.DefaultSettings(), Lease: leadership.DefaultSettings(), Loop: reconcile.DefaultSettings(),
			Probe: probe.DefaultSettings(), Telemetry: true,
		},
		Mesh:       meshrpc.DefaultConfig(),
		Kubernetes: command.KubernetesDefaults(Name),
	}
	s.Kubernetes.QPS, s.Kubernetes.Burst = qps, burst
	return s
}

// forPeople are the settings of a command.
func forPeople() *Settings {
	s := defaults()
	s.withoutMesh = true
	return s
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	sections := map[string]driverconf.Section{
		Name: &s.Own, meshrpc.Section: &s.Mesh, kubeclient.Section: &s.Kubernetes,
	}
	if s.withoutMesh {
		delete(sections, meshrpc.Section)
	}
	return sections
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.ServerConfig.Config }

func (o *Own) options() companion.Options {
	return companion.Options{Telemetry: o.Telemetry, ClientKey: o.StageClientKey}
}

// validate reports what of the stock table is right in itself, and no companion can be rendered with.
func validate(cfg *driverconf.Config, own *Settings, report driverconf.Report) {
	companion.Validate(&cfg.Kubernetes, own.Own.options(), func(key, problem string) {
		report("openshell.drivers.kubernetes."+key, problem)
	})
	own.Own.Probe.ValidateWith(&cfg.Kubernetes, func(key, problem string) { report("portcullis.supervisorctl."+key, problem) })
}
