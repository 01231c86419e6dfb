package app

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/audit"
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
	Own        Own
	Mesh       meshrpc.Config
	Kubernetes kubeclient.Config
	NATS       natsconn.Config // in operator mode, and for the audit stream
	Allowlist  allowkv.Config  // used in operator mode
	Audit      audit.Config

	// withoutMesh leaves the table [portcullis.mesh] to the daemon: a command for people has no part in the mesh, and is to
	// run where the daemon's certificates are not.
	withoutMesh bool
}

// Own is the section [portcullis.tokenauth].
type Own struct {
	command.ServerConfig
	service.Settings
}

// Validate reports every problem with its key.
func (o *Own) Validate(report func(key, problem string)) {
	o.ServerConfig.Validate(report)
	o.Settings.Validate(report)
}

// Bounds of a request of the mesh, bytes. The transport's answer to what is larger is no verdict, so the default leaves much
// room above the greatest credential for ones that are too large to be refused with the contract's code. What is received
// is in memory before it is counted as a call.
const (
	leastRequest = 64 << 10
	maxRequest   = 1 << 20
	mostRequest  = 4 << 20
)

func defaults() *Settings {
	s := &Settings{
		Own: Own{
			ServerConfig: command.ServerConfig{Config: daemon.DefaultConfig(), ListenAddress: "127.0.0.1:8443"},
			Settings:     service.DefaultSettings(),
		},
		Mesh:       meshrpc.DefaultConfig(),
		Kubernetes: command.KubernetesDefaults(Name),
		NATS:       natsconn.DefaultConfig(),
		Allowlist:  allowkv.DefaultConfig(),
		Audit:      audit.DefaultConfig(),
	}
	s.Mesh.MaxMessageBytes = maxRequest
	// A call is three or four requests. What keeps them few are the limits on calls; this one is against a loop.
	s.Kubernetes.QPS, s.Kubernetes.Burst = 2000, 4000
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
		Name: &s.Own, meshrpc.Section: &s.Mesh, kubeclient.Section: &s.Kubernetes, natsconn.Section: &s.NATS,
		allowlist.Section: &s.Allowlist, audit.Section: &s.Audit,
	}
	if s.withoutMesh {
		delete(sections, meshrpc.Section)
	}
	return sections
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.Config }

// Full keys that more than one rule names.
const (
	keyMode   = "openshell.drivers.kubernetes.workspace_mode"
	keyPublic = "portcullis.allowlist.public_keys_file"
)

// validate has the rules that only the running daemon has, and those over several tables.
func validate(cfg *driverconf.Config, own *Settings, report driverconf.Report) {
	if n := own.Mesh.MaxMessageBytes; n < leastRequest || n > mostRequest {
		report("portcullis.mesh.max_message_bytes", fmt.Sprintf("is %d; %s takes %d to %d: less cuts credentials off that the contract allows, more is memory that a caller may fill",
			n, Name, leastRequest, mostRequest))
	}
	validateOperator(cfg, own, report)
}

// validateOperator demands what operator mode needs: the allowlist is read from NATS, and believed by its signature.
func validateOperator(cfg *driverconf.Config, own *Settings, report driverconf.Report) {
	if cfg.Kubernetes.WorkspaceMode != driverconf.ModeOperator {
		return
	}
	if !own.NATS.Configured() {
		report("portcullis.nats.urls", "is not set: in operator mode the allowlist is read from NATS",
			"portcullis.nats.embedded", keyMode)
	}
	if own.Allowlist.PublicKeysFile == "" {
		report(keyPublic, "is empty; name the file with the public keys that the allowlist may be signed with", keyMode)
	}
}
