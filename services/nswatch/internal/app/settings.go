package app

import (
	"path/filepath"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Name is the daemon's name, in the mesh and in the settings.
const Name = "nswatch"

// Settings are what nswatch reads beside the stock table.
type Settings struct {
	Own        Own
	Allowlist  allowkv.Config
	NATS       natsconn.Config
	Kubernetes kubeclient.Config
	// Audit bounds the audit stream on the embedded server, which nobody else could make.
	Audit auditBounds
}

// auditBounds is the section [portcullis.audit], as one who makes the stream and publishes nothing reads it: of a type of
// its own, since flush_timeout takes no part in its stop.
type auditBounds struct{ audit.Config }

// Own is the section [portcullis.nswatch].
type Own struct {
	daemon.Config
	leadership.Settings
	// SigningKeyFile is the private key that records are signed with, as nswatch keys generate writes it. Absolute.
	// The daemon demands it, and refuses a file that everybody on the machine may read; the subcommands have no use
	// for it.
	SigningKeyFile string `toml:"signing_key_file"`
}

// Validate reports every problem with its key. It reads no file.
func (o *Own) Validate(report func(key, problem string)) {
	o.Config.Validate(report)
	o.Settings.Validate(report)
	if o.SigningKeyFile != "" && !filepath.IsAbs(o.SigningKeyFile) {
		report("signing_key_file", "must be an absolute path")
	}
}

func defaults() *Settings {
	s := &Settings{
		Own:        Own{Config: daemon.DefaultConfig(), Settings: leadership.DefaultSettings()},
		Allowlist:  allowkv.DefaultConfig(),
		NATS:       natsconn.DefaultConfig(),
		Kubernetes: command.KubernetesDefaults(Name),
		Audit:      auditBounds{audit.DefaultConfig()},
	}
	s.NATS.Required, s.Allowlist.Required = true, true
	// A dead connection to the API server is noticed before the Lease is lost by it: validate demands it.
	s.Kubernetes.PingInterval, s.Kubernetes.PingTimeout = driverconf.Duration(3*time.Second), driverconf.Duration(2*time.Second)
	return s
}

// Sections implements command.Settings.
func (s *Settings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{
		Name: &s.Own, allowlist.Section: &s.Allowlist, natsconn.Section: &s.NATS, kubeclient.Section: &s.Kubernetes,
		audit.Section: &s.Audit,
	}
}

// Process implements command.Settings.
func (s *Settings) Process() daemon.Config { return s.Own.Config }
