package natsconn

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Section is the name of the settings table of this package: [portcullis.nats].
const Section = "nats"

// Config is the section [portcullis.nats] of the settings. Start from DefaultConfig: the zero value has no limits
// and does not validate.
type Config struct {
	// URLs are the servers, nats://host:port or tls://host:port, tried in random order; a host name that resolves to
	// several addresses (a headless Service) is tried address by address. Servers that the cluster advertises are
	// not used: this list is the list. No credentials in a URL.
	URLs []string `toml:"urls"`
	// CAFile is the PEM bundle that the servers' certificates must chain to. Empty with TLS means the system's roots.
	CAFile string `toml:"ca_file"`
	// CertFile and KeyFile are the client's certificate and key, PEM, for mutual TLS. Both or neither.
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
	// CredsFile is a NATS credentials file (user JWT and seed). Excludes NKeySeedFile.
	CredsFile string `toml:"creds_file"`
	// NKeySeedFile holds a user NKEY seed ("SU…"). Excludes CredsFile.
	NKeySeedFile string `toml:"nkey_seed_file"`
	// TLSHandshakeFirst starts TLS before the server's first line; the server must be set likewise.
	TLSHandshakeFirst bool `toml:"tls_handshake_first"`
	// AllowPlaintext permits connections without TLS to hosts other than loopback. What travels there can be read
	// and withheld by anyone on the path; signatures still stop forged allowlists.
	AllowPlaintext bool `toml:"allow_plaintext"`
	// InboxPrefix replaces _INBOX in reply subjects, so that permissions can tell users apart (NATS reference 5.2).
	InboxPrefix string `toml:"inbox_prefix"`
	// JSAPIPrefix replaces $JS.API, for readers that import the API subjects from another account (NATS reference 5.4).
	JSAPIPrefix string `toml:"js_api_prefix"`

	// ConnectTimeout bounds each of the dial and the handshake of one attempt. 100ms to 1m.
	ConnectTimeout driverconf.Duration `toml:"connect_timeout"`
	// PingInterval and MaxPingsOut decide when silence is a broken connection: after PingInterval × (MaxPingsOut + 1).
	// 50ms to 1m, and 1 to 10.
	PingInterval driverconf.Duration `toml:"ping_interval"`
	MaxPingsOut  int                 `toml:"max_pings_out"`
	// ReconnectWait is the first wait after a failed round over all servers; it doubles up to ReconnectWaitMax. Each
	// wait is drawn from half to one and a half times its value. 10ms to 1m.
	ReconnectWait    driverconf.Duration `toml:"reconnect_wait"`
	ReconnectWaitMax driverconf.Duration `toml:"reconnect_wait_max"`
	// DrainTimeout bounds the drain when Run stops; after it the connection is closed. 10ms to 1m.
	DrainTimeout driverconf.Duration `toml:"drain_timeout"`

	// Embedded says that one daemon on this machine hosts the server (package embedded) and that this client reaches
	// it at EmbeddedListen. Excludes URLs.
	Embedded bool `toml:"embedded"`
	// EmbeddedStoreDir is the JetStream store, absolute. One server per store.
	EmbeddedStoreDir string `toml:"embedded_store_dir"`
	// EmbeddedListen is "ip:port". Other than loopback needs TLS and client identities.
	EmbeddedListen string `toml:"embedded_listen"`
	// EmbeddedCertFile and EmbeddedKeyFile give the server TLS. Both or neither.
	EmbeddedCertFile string `toml:"embedded_cert_file"`
	EmbeddedKeyFile  string `toml:"embedded_key_file"`
	// EmbeddedClientCAFile makes the server ask clients for a certificate that chains to it.
	EmbeddedClientCAFile string `toml:"embedded_client_ca_file"`
	// EmbeddedAuthorizedNKeys are the public user NKEYs ("U…") that are let in. Empty on loopback lets in every
	// process that can reach the port.
	EmbeddedAuthorizedNKeys []string `toml:"embedded_authorized_nkeys"`
	// EmbeddedMaxStore bounds the store, bytes, at least 16 MiB.
	EmbeddedMaxStore int64 `toml:"embedded_max_store"`

	// Name is what the server's reports call this client. Set by the daemon, not by settings.
	Name string `toml:"-"`
	// Required makes Validate ask for a server. Set by daemons that cannot work without NATS.
	Required bool `toml:"-"`
}

// DefaultConfig has no server; every limit is set. The pings notice a half-open connection in about 6 s
// (NATS reference 3.1), well inside the 15 s that an allowlist may go without proof.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout:   driverconf.Duration(5 * time.Second),
		PingInterval:     driverconf.Duration(2 * time.Second),
		MaxPingsOut:      2,
		ReconnectWait:    driverconf.Duration(100 * time.Millisecond),
		ReconnectWaitMax: driverconf.Duration(2 * time.Second),
		DrainTimeout:     driverconf.Duration(2 * time.Second),
		EmbeddedListen:   "127.0.0.1:4222",
		EmbeddedMaxStore: 1 << 30,
		Name:             "portcullis",
	}
}

// Configured reports whether the settings name a server at all.
func (c *Config) Configured() bool { return len(c.URLs) > 0 || c.Embedded }

// servers are the URLs to try.
func (c *Config) servers() []string {
	if !c.Embedded {
		return c.URLs
	}
	if c.EmbeddedCertFile != "" {
		return []string{"tls://" + c.EmbeddedListen}
	}
	return []string{"nats://" + c.EmbeddedListen}
}

// usesTLS reports whether a setting other than the URL scheme asks for TLS.
func (c *Config) usesTLS() bool {
	return c.CAFile != "" || c.CertFile != "" || c.TLSHandshakeFirst
}
