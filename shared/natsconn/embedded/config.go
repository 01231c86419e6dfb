package embedded

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

const (
	// MaxPayload is the largest message in bytes. The allowlist is one message, and its size limits follow from this.
	MaxPayload = 1 << 20
	// MaxConsumers is the most consumers per stream. Readers that crash leave theirs until the inactive threshold, so
	// it is far above the number of readers; a leak hits it before it hits the machine (bug corpus J12, NATS
	// reference 9, trap 24).
	MaxConsumers = 1000
	// maxMemory bounds streams in memory, which the mesh does not use.
	maxMemory = 16 << 20
)

// Config is what the server needs. The zero value is refused.
type Config struct {
	// StoreDir is the JetStream store, absolute. It is made if missing.
	StoreDir string
	// Listen is "ip:port"; port 0 picks a free one. Other than loopback needs TLS and one of ClientCAFile and
	// AuthorizedNKeys.
	Listen string
	// CertFile and KeyFile turn TLS on. They and ClientCAFile are read again when they have changed.
	CertFile, KeyFile string
	// ClientCAFile makes clients present a certificate that chains to it.
	ClientCAFile string
	// HandshakeFirst starts TLS before the server's first line.
	HandshakeFirst bool
	// AuthorizedNKeys are the public user NKEYs that are let in. Empty lets in everyone who can connect.
	AuthorizedNKeys []string
	// MaxStore bounds the store, bytes.
	MaxStore int64
}

// FromSettings takes the embedded_* keys of the section [portcullis.nats].
func FromSettings(s natsconn.Config) Config {
	return Config{
		StoreDir: s.EmbeddedStoreDir, Listen: s.EmbeddedListen, MaxStore: s.EmbeddedMaxStore,
		CertFile: s.EmbeddedCertFile, KeyFile: s.EmbeddedKeyFile, ClientCAFile: s.EmbeddedClientCAFile,
		HandshakeFirst: s.TLSHandshakeFirst, AuthorizedNKeys: s.EmbeddedAuthorizedNKeys,
	}
}

// validate is the safety net under the settings' own validation, which words the same rules by key.
func (c *Config) validate() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !filepath.IsAbs(c.StoreDir) {
		refuse("store directory %q is not an absolute path", c.StoreDir)
	}
	if c.MaxStore <= 0 {
		refuse("store limit of %d bytes is not positive", c.MaxStore)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		refuse("certificate and key must be set together")
	}
	if c.CertFile == "" && (c.ClientCAFile != "" || c.HandshakeFirst) {
		refuse("a client authority and TLS first need a certificate")
	}
	for i, key := range c.AuthorizedNKeys {
		if !nkeys.IsValidPublicUserKey(key) {
			refuse("authorized NKEY %d is not a public user key", i+1)
		}
	}
	host, _, err := c.address()
	if err != nil {
		problems = append(problems, err)
	} else if !host.IsLoopback() {
		if c.CertFile == "" {
			refuse("%s is not loopback and there is no TLS", c.Listen)
		}
		if c.ClientCAFile == "" && len(c.AuthorizedNKeys) == 0 {
			refuse("%s is not loopback and every client is let in", c.Listen)
		}
	}
	return errors.Join(problems...)
}

// address splits Listen.
func (c *Config) address() (net.IP, int, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || ip == nil || perr != nil {
		return nil, 0, fmt.Errorf("listen address %q is not ip:port", c.Listen)
	}
	return ip, int(n), nil
}
