package allowkv

import (
	"path/filepath"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Config is the section [portcullis.allowlist] of the settings, for the writer and the readers alike. Start from
// DefaultConfig: the zero value does not validate.
type Config struct {
	allowlist.Settings
	// PublicKeysFile holds the keys that records may be signed with, one line each; several while keys are rotated.
	// Absolute. Writer and readers need it.
	PublicKeysFile string `toml:"public_keys_file"`
	// StateDir is where a reader keeps its high-water marks over a restart (rule R2). Absolute; empty keeps none, and
	// then only rule R4 stands between a restarted reader and a recorded stream.
	StateDir string `toml:"state_dir"`

	// Required makes Validate ask for PublicKeysFile. Set by a daemon that cannot work without the list.
	Required bool `toml:"-"`
}

var _ driverconf.Section = (*Config)(nil)

// DefaultConfig has the bounds that the protocol states, and no files.
func DefaultConfig() Config { return Config{Settings: allowlist.DefaultSettings()} }

// Validate reports every problem under its key. It reads no file.
func (c *Config) Validate(report func(key, problem string)) {
	c.Settings.Validate(report)
	switch {
	case c.PublicKeysFile == "" && c.Required:
		report("public_keys_file", "is empty; name the file with the public keys that the allowlist may be signed with")
	case c.PublicKeysFile != "" && !filepath.IsAbs(c.PublicKeysFile):
		report("public_keys_file", "must be an absolute path")
	}
	if c.StateDir != "" && !filepath.IsAbs(c.StateDir) {
		report("state_dir", "must be an absolute path")
	}
}

// Connection is the connection to NATS; *natsconn.Conn is one.
type Connection interface {
	// Session is the newest session, with a channel that is closed when there is another.
	Session() (natsconn.Session, <-chan struct{})
}

var _ Connection = (*natsconn.Conn)(nil)
