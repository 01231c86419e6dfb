package meshrpc

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Section is the name of the settings table of this package: [portcullis.mesh].
const Section = "mesh"

// Config is the table [portcullis.mesh]. The zero Config is not valid: it has neither
// certificates nor the permission to do without.
type Config struct {
	// CertFile holds this daemon's certificate in PEM, leaf first, then intermediates.
	// It names the daemon in exactly one URI, spiffe://portcullis/<daemon>, and is good
	// for both ends of a connection.
	CertFile string `toml:"cert_file"`
	// KeyFile holds the certificate's key in PEM. It lies in the same directory as
	// CertFile, so that both are replaced together.
	KeyFile string `toml:"key_file"`
	// CAFile holds the PEM certificates of the authorities that vouch for the mesh.
	CAFile string `toml:"ca_file"`
	// RefreshInterval is how often the three files are looked at: 100ms to 1h. A change
	// is used for new connections at the latest after two intervals.
	RefreshInterval driverconf.Duration `toml:"refresh_interval"`
	// AllowPlaintextLoopback does without certificates. Every address of the mesh must
	// then be a loopback address, and every process of the machine that can reach it is
	// the caller PlaintextCaller. For development on one machine.
	AllowPlaintextLoopback bool `toml:"allow_plaintext_loopback"`

	// MaxMessageBytes bounds one received message, and one sent by a client: 1024 to
	// 64 MiB.
	MaxMessageBytes int `toml:"max_message_bytes"`
	// MaxConcurrentStreams bounds the calls in progress on one connection: 1 to 10000.
	MaxConcurrentStreams int `toml:"max_concurrent_streams"`
	// MaxConnectionAge is when a server asks a client to connect anew: 1m to 24h. It
	// bounds how long a replaced certificate or authority stays in use, and spreads
	// clients over new replicas.
	MaxConnectionAge driverconf.Duration `toml:"max_connection_age"`
	// HandshakeTimeout bounds the setup of one connection: 100ms to 1m.
	HandshakeTimeout driverconf.Duration `toml:"handshake_timeout"`
	// KeepaliveTime is the silence after which a connection is probed: 10s (gRPC's
	// floor for clients) to 1h. A server takes probes at half this interval for abuse.
	KeepaliveTime driverconf.Duration `toml:"keepalive_time"`
	// KeepaliveTimeout is how long the answer to a probe may take: 1s to 1m.
	KeepaliveTimeout driverconf.Duration `toml:"keepalive_timeout"`

	// CallTimeout is the deadline of calls made without one: 100ms to MaxCallDuration.
	CallTimeout driverconf.Duration `toml:"call_timeout"`
	// MaxCallDuration is the longest that a server works on a call, whatever deadline
	// the caller set: 1s to 1h. Streams end with the connection instead, that long after
	// MaxConnectionAge, or have no end, see EndlessStreams.
	MaxCallDuration driverconf.Duration `toml:"max_call_duration"`
	// MaxAttempts bounds the attempts of an idempotent call, the first included: 1 to
	// 10.
	MaxAttempts int `toml:"max_attempts"`
}

// DefaultConfig is valid once it has certificates. A call may take five minutes
// because the slowest work of the mesh, completing a sandbox, may (contract 7.15).
func DefaultConfig() Config {
	return Config{
		RefreshInterval:      driverconf.Duration(time.Minute),
		MaxMessageBytes:      4 << 20,
		MaxConcurrentStreams: 256,
		MaxConnectionAge:     driverconf.Duration(30 * time.Minute),
		HandshakeTimeout:     driverconf.Duration(10 * time.Second),
		KeepaliveTime:        driverconf.Duration(30 * time.Second),
		KeepaliveTimeout:     driverconf.Duration(10 * time.Second),
		CallTimeout:          driverconf.Duration(30 * time.Second),
		MaxCallDuration:      driverconf.Duration(5 * time.Minute),
		MaxAttempts:          4,
	}
}

// Validate reports every problem with its key, relative to the table. It reads no
// files; New does.
func (c Config) Validate(report func(key, problem string)) {
	c.validateFiles(report)
	within := func(key string, d driverconf.Duration, low, high time.Duration) {
		if d.Std() < low || d.Std() > high {
			report(key, fmt.Sprintf("%s is outside %s to %s", d, low, high))
		}
	}
	count := func(key string, n, low, high int) {
		if n < low || n > high {
			report(key, fmt.Sprintf("%d is outside %d to %d", n, low, high))
		}
	}
	within("refresh_interval", c.RefreshInterval, 100*time.Millisecond, time.Hour)
	count("max_message_bytes", c.MaxMessageBytes, 1<<10, 64<<20)
	count("max_concurrent_streams", c.MaxConcurrentStreams, 1, 10000)
	within("max_connection_age", c.MaxConnectionAge, time.Minute, 24*time.Hour)
	within("handshake_timeout", c.HandshakeTimeout, 100*time.Millisecond, time.Minute)
	within("keepalive_time", c.KeepaliveTime, 10*time.Second, time.Hour)
	within("keepalive_timeout", c.KeepaliveTimeout, time.Second, time.Minute)
	within("max_call_duration", c.MaxCallDuration, time.Second, time.Hour)
	within("call_timeout", c.CallTimeout, 100*time.Millisecond, time.Hour)
	if c.CallTimeout > c.MaxCallDuration {
		report("call_timeout", fmt.Sprintf("%s is longer than max_call_duration, %s: no server would work that long", c.CallTimeout, c.MaxCallDuration))
	}
	count("max_attempts", c.MaxAttempts, 1, 10)
}

func (c Config) validateFiles(report func(key, problem string)) {
	files := []struct{ key, path string }{{"cert_file", c.CertFile}, {"key_file", c.KeyFile}, {"ca_file", c.CAFile}}
	set := 0
	for _, f := range files {
		if f.path != "" {
			set++
		}
	}
	switch {
	case c.AllowPlaintextLoopback && set > 0:
		report("allow_plaintext_loopback", "is true although certificates are set: remove the certificates for plaintext, or this key for TLS")
		return
	case c.AllowPlaintextLoopback:
		return
	}
	for _, f := range files {
		switch {
		case f.path == "" && set == 0:
			report(f.key, "is not set: give the daemon its certificate, or set allow_plaintext_loopback = true to run the mesh on one machine without")
		case f.path == "":
			report(f.key, "is not set: cert_file, key_file and ca_file go together")
		case !filepath.IsAbs(f.path):
			report(f.key, fmt.Sprintf("%q is relative: give an absolute path", f.path))
		}
	}
	if c.CertFile != "" && c.KeyFile != "" && filepath.Dir(c.CertFile) != filepath.Dir(c.KeyFile) {
		report("key_file", fmt.Sprintf("%q is not in the directory of cert_file, %q: put both in one directory, so that they are replaced together", c.KeyFile, filepath.Dir(c.CertFile)))
	}
}
