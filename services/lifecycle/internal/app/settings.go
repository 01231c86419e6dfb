package app

import (
	"fmt"
	"net"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// Name is the daemon's name, in the mesh and in the settings.
const Name = "lifecycle"

// Own is the table [portcullis.lifecycle].
type Own struct {
	daemon.Config
	driver.Settings
	View
	// SupervisorctlAddress and TokenauthAddress are "host:port" of the two daemons in the mesh.
	SupervisorctlAddress string `toml:"supervisorctl_address"`
	TokenauthAddress     string `toml:"tokenauth_address"`
	// RelayListenAddress is "host:port" on which the driver is served to relays, over mutual TLS. Empty serves the private socket
	// alone.
	RelayListenAddress string `toml:"relay_listen_address"`
	// AllowLegacyGateway speaks to gateways older than the contract of today too, v0.0.105 and later:
	// it serves the removed method and adds times in the removed fields. Such a gateway says less
	// about itself, so less is checked. Default false.
	AllowLegacyGateway bool `toml:"allow_legacy_gateway"`
	// OpenShiftSCC is how managed namespaces come by their ranges on OpenShift: "copy" (the default) or "allocate" (contract 9.3).
	OpenShiftSCC workspaces.SCC `toml:"openshift_scc"`
	// SandboxTelemetry is passed to workloads as OPENSHELL_TELEMETRY_ENABLED. Default false.
	SandboxTelemetry bool `toml:"sandbox_telemetry"`
}

// View is the part of the settings that is about the view of the cluster.
type View = observe.Settings

// Validate reports every problem with its key.
func (o *Own) Validate(report func(key, problem string)) {
	o.Config.Validate(report)
	o.Settings.Validate(report)
	o.View.Validate(report)
	address := func(key, value, what string) {
		if host, port, err := net.SplitHostPort(value); err != nil || host == "" || port == "" {
			report(key, "is not host:port; name the Service and the mesh port of "+what)
		}
	}
	address("supervisorctl_address", o.SupervisorctlAddress, "supervisorctl")
	address("tokenauth_address", o.TokenauthAddress, "tokenauth")
	if o.RelayListenAddress != "" {
		if _, port, err := net.SplitHostPort(o.RelayListenAddress); err != nil || port == "" {
			report("relay_listen_address", "is not host:port; an empty host listens on every address")
		}
	}
	if !o.OpenShiftSCC.Valid() {
		report("openshift_scc", `is not "copy" or "allocate"`)
	}
}

// Settings are what lifecycle reads beside the stock table.
type Settings struct {
	Own        Own
	Mesh       meshrpc.Config
	Kubernetes kubeclient.Config
	NATS       natsconn.Config // in operator mode
	Allowlist  allowkv.Config  // in operator mode
}

func defaults() *Settings {
	s := &Settings{
		Own: Own{
			Config: daemon.DefaultConfig(), Settings: driver.DefaultSettings(), View: observe.DefaultSettings(),
			SupervisorctlAddress: "127.0.0.1:8444", TokenauthAddress: "127.0.0.1:8443", OpenShiftSCC: workspaces.SCCCopy,
		},
		Mesh:       meshrpc.DefaultConfig(),
		Kubernetes: command.KubernetesDefaults(Name),
		NATS:       natsconn.DefaultConfig(),
		Allowlist:  allowkv.DefaultConfig(),
	}
	s.Mesh.MaxMessageBytes = maxMessageBytes
	// A create is a handful of requests; this is against a loop.
	s.Kubernetes.QPS, s.Kubernetes.Burst = 500, 1000
	return s
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{
		Name: &s.Own, meshrpc.Section: &s.Mesh, kubeclient.Section: &s.Kubernetes, natsconn.Section: &s.NATS, allowlist.Section: &s.Allowlist,
	}
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.Config }

// Full keys that more than one rule names.
const (
	keySocket = "openshell.drivers.kubernetes.socket_path"
	keyMode   = "openshell.drivers.kubernetes.workspace_mode"
)

func validate(cfg *driverconf.Config, own *Settings, report driverconf.Report) {
	validateSocket(cfg, report)
	validateRelays(own, report)
	template.Validate(&cfg.Kubernetes, func(key, problem string) { report("openshell.drivers.kubernetes."+key, problem) })
	if cfg.Kubernetes.WorkspaceMode != driverconf.ModeOperator {
		return
	}
	if !own.NATS.Configured() {
		report("portcullis.nats.urls", "is not set: in operator mode the allowlist is read from NATS", "portcullis.nats.embedded", keyMode)
	}
	if own.Allowlist.PublicKeysFile == "" {
		report("portcullis.allowlist.public_keys_file", "is empty; name the file with the public keys that the allowlist may be signed with", keyMode)
	}
}

// validateRelays demands that a call takes as long over a relay as over the socket: the mesh ends calls of its own accord.
func validateRelays(own *Settings, report driverconf.Report) {
	if own.Own.RelayListenAddress == "" {
		return
	}
	longest := own.Mesh.MaxCallDuration
	demand := func(key string, timeout driverconf.Duration) {
		if timeout > longest {
			report("portcullis.lifecycle."+key, fmt.Sprintf("is %s, and calls that come over a relay are ended after max_call_duration, %s: raise that to it, or lower this",
				timeout, longest), "portcullis.mesh.max_call_duration", "portcullis.lifecycle.relay_listen_address")
		}
	}
	demand("create_timeout", own.Own.CreateTimeout)
	demand("stop_timeout", own.Own.StopTimeout)
}

// validateSocket demands the socket, which only this daemon serves, and the text rules of its path (contract 2.2).
func validateSocket(cfg *driverconf.Config, report driverconf.Report) {
	path := cfg.Kubernetes.SocketPath
	if path == "" {
		report(keySocket, "is not set: the driver is served on a private Unix socket only, since whoever reaches it is believed"+
			" (set it, --bind-socket or OPENSHELL_COMPUTE_DRIVER_SOCKET)")
		return
	}
	if err := udsock.CheckPath(path); err != nil {
		report(keySocket, err.Error())
	}
}
