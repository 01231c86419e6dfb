package audit

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Section is the name of the settings table of this package: [portcullis.audit].
const Section = "audit"

// Limits of the settings.
const (
	leastAge, mostAge       = time.Hour, 10 * 365 * 24 * time.Hour
	leastBytes, mostBytes   = int64(1 << 20), int64(1 << 40)
	leastBuffer, mostBuffer = 16, 1 << 16
	leastAck, mostAck       = 100 * time.Millisecond, time.Minute
	mostFlush               = 30 * time.Second
)

// Config is the section [portcullis.audit] of the settings, for the daemons and for the bootstrap of the stream. Start
// from DefaultConfig: the zero value does not validate.
type Config struct {
	// Publish sends events to the stream. Without it they are in the log only.
	Publish bool `toml:"publish"`
	// MaxAge is how long the stream keeps an event. 1h to ten years.
	MaxAge driverconf.Duration `toml:"max_age"`
	// MaxBytes bounds the stream; the oldest events go first. The server reserves it. 1 MiB to 1 TiB.
	MaxBytes int64 `toml:"max_bytes"`
	// Replicas of the stream: 1, 3 or 5.
	Replicas int `toml:"replicas"`
	// Buffer is how many events wait to be sent, while the stream cannot be reached; those beyond are dropped and counted.
	// Up to 64 more may be sent and not yet acknowledged. One takes about 1 KiB of memory, with the longest texts 4 KiB. 16
	// to 65536.
	Buffer int `toml:"buffer"`
	// AckTimeout is how long an event may go without an acknowledgement before it is sent again. 100ms to 1m.
	AckTimeout driverconf.Duration `toml:"ack_timeout"`
	// FlushTimeout is how long a daemon that stops waits for what is not yet acknowledged. 0 to 30s.
	FlushTimeout driverconf.Duration `toml:"flush_timeout"`
	// HashKeyFile holds the key of token fingerprints, at least 32 random bytes. Replicas with the same key give a
	// token the same fingerprint. Empty makes a key that ends with the process. Absolute.
	HashKeyFile string `toml:"hash_key_file"`
}

var _ driverconf.Section = (*Config)(nil)

// DefaultConfig keeps 30 days or 256 MiB, whichever is less, in one replica.
func DefaultConfig() Config {
	return Config{
		Publish:      true,
		MaxAge:       driverconf.Duration(30 * 24 * time.Hour),
		MaxBytes:     256 << 20,
		Replicas:     1,
		Buffer:       4096,
		AckTimeout:   driverconf.Duration(5 * time.Second),
		FlushTimeout: driverconf.Duration(2 * time.Second),
	}
}

// Validate reports every problem under its key. It reads no file.
func (c *Config) Validate(report func(key, problem string)) {
	between := func(key string, d driverconf.Duration, least, most time.Duration) {
		if d.Std() < least || d.Std() > most {
			report(key, fmt.Sprintf("is %s, must be from %s to %s", d, least, most))
		}
	}
	between("max_age", c.MaxAge, leastAge, mostAge)
	between("ack_timeout", c.AckTimeout, leastAck, mostAck)
	between("flush_timeout", c.FlushTimeout, 0, mostFlush)
	if c.MaxBytes < leastBytes || c.MaxBytes > mostBytes {
		report("max_bytes", fmt.Sprintf("is %d, must be from %d to %d", c.MaxBytes, leastBytes, mostBytes))
	}
	if c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		report("replicas", fmt.Sprintf("is %d, must be 1, 3 or 5", c.Replicas))
	}
	if c.Buffer < leastBuffer || c.Buffer > mostBuffer {
		report("buffer", fmt.Sprintf("is %d, must be from %d to %d", c.Buffer, leastBuffer, mostBuffer))
	}
	if c.HashKeyFile != "" && !filepath.IsAbs(c.HashKeyFile) {
		report("hash_key_file", "must be an absolute path")
	}
}

// problems are those of Validate, one sentence each.
func (c *Config) problems() []error {
	var found []error
	c.Validate(func(key, problem string) { found = append(found, fmt.Errorf("%s %s", key, problem)) })
	return found
}

// Connection is the connection to NATS; *natsconn.Conn is one.
type Connection interface {
	// Session is the newest session, with a channel that is closed when there is another.
	Session() (natsconn.Session, <-chan struct{})
}

var _ Connection = (*natsconn.Conn)(nil)
