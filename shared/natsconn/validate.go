package natsconn

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

const (
	maxURLs = 16
	// minStore is the least store that still holds the allowlist bucket's history with room to compact.
	minStore = 16 << 20
)

// Validate reports every contradiction and every value out of range, each under its key. It reads no file; CheckFiles
// does.
func (c *Config) Validate(report func(key, problem string)) {
	if c.Required && !c.Configured() {
		report("urls", `no NATS server: set urls = ["tls://host:4222"], or embedded = true on a single node`)
	}
	c.validateURLs(report)
	c.validateIdentity(report)
	c.validateSubjects(report)
	c.validateLimits(report)
	c.validateEmbedded(report)
}

func (c *Config) validateURLs(report func(key, problem string)) {
	if len(c.URLs) > maxURLs {
		report("urls", fmt.Sprintf("has %d servers, at most %d are used", len(c.URLs), maxURLs))
	}
	schemes := map[string]bool{}
	for i, raw := range c.URLs {
		entry := fmt.Sprintf("entry %d ", i+1)
		u, problem := parseServer(raw)
		if problem != "" {
			report("urls", entry+problem)
			continue
		}
		schemes[u.Scheme] = true
		if slices.Index(c.URLs, raw) < i {
			report("urls", entry+"is the same as an earlier one")
		}
		if u.Scheme == schemePlain && !c.usesTLS() && !c.AllowPlaintext && !loopback(u.Hostname()) {
			report("urls", fmt.Sprintf("%swould reach %s without TLS: use tls://, or set allow_plaintext = true", entry, u.Hostname()))
		}
	}
	if len(schemes) > 1 {
		report("urls", "mixes nats:// and tls://: use one of them")
	}
	if c.AllowPlaintext && (c.usesTLS() || schemes[schemeTLS]) {
		report("allow_plaintext", "contradicts the TLS settings: remove it, or remove those")
	}
}

func (c *Config) validateIdentity(report func(key, problem string)) {
	if c.CredsFile != "" && c.NKeySeedFile != "" {
		report("nkey_seed_file", "cannot be used together with creds_file: set one of them")
	}
	bothOrNeither(report, "cert_file", c.CertFile, "key_file", c.KeyFile)
}

func (c *Config) validateSubjects(report func(key, problem string)) {
	for _, s := range []struct{ key, value string }{
		{"inbox_prefix", c.InboxPrefix},
		{"js_api_prefix", c.JSAPIPrefix},
	} {
		if s.value != "" && !literalSubject(s.value) {
			report(s.key, fmt.Sprintf("%q is not a subject: want tokens joined by dots, without spaces or wildcards", s.value))
		}
	}
}

func (c *Config) validateLimits(report func(key, problem string)) {
	for _, l := range []struct {
		key      string
		value    driverconf.Duration
		min, max time.Duration
	}{
		{"connect_timeout", c.ConnectTimeout, 100 * time.Millisecond, time.Minute},
		{"ping_interval", c.PingInterval, 50 * time.Millisecond, time.Minute},
		{"reconnect_wait", c.ReconnectWait, 10 * time.Millisecond, time.Minute},
		{"reconnect_wait_max", c.ReconnectWaitMax, 10 * time.Millisecond, time.Minute},
		{"drain_timeout", c.DrainTimeout, 10 * time.Millisecond, time.Minute},
	} {
		if v := l.value.Std(); v < l.min || v > l.max {
			report(l.key, fmt.Sprintf("is %s, must be from %s to %s", v, l.min, l.max))
		}
	}
	if c.MaxPingsOut < 1 || c.MaxPingsOut > 10 {
		report("max_pings_out", fmt.Sprintf("is %d, must be from 1 to 10", c.MaxPingsOut))
	}
	if c.ReconnectWait > c.ReconnectWaitMax {
		report("reconnect_wait", fmt.Sprintf("is %s, more than reconnect_wait_max (%s)", c.ReconnectWait, c.ReconnectWaitMax))
	}
}

func (c *Config) validateEmbedded(report func(key, problem string)) {
	if !c.Embedded {
		for _, e := range []struct {
			key string
			set bool
		}{
			{"embedded_store_dir", c.EmbeddedStoreDir != ""},
			{"embedded_cert_file", c.EmbeddedCertFile != ""},
			{"embedded_key_file", c.EmbeddedKeyFile != ""},
			{"embedded_client_ca_file", c.EmbeddedClientCAFile != ""},
			{"embedded_authorized_nkeys", len(c.EmbeddedAuthorizedNKeys) > 0},
		} {
			if e.set {
				report(e.key, "has no effect without embedded = true")
			}
		}
		return
	}
	if len(c.URLs) > 0 {
		report("embedded", "cannot be used together with urls: the server is either on this machine or elsewhere")
	}
	if !filepath.IsAbs(c.EmbeddedStoreDir) {
		report("embedded_store_dir", fmt.Sprintf("is %q, must be an absolute path", c.EmbeddedStoreDir))
	}
	if c.EmbeddedMaxStore < minStore {
		report("embedded_max_store", fmt.Sprintf("is %d bytes, must be at least %d", c.EmbeddedMaxStore, minStore))
	}
	bothOrNeither(report, "embedded_cert_file", c.EmbeddedCertFile, "embedded_key_file", c.EmbeddedKeyFile)
	c.validateEmbeddedListen(report)
	c.validateEmbeddedIdentity(report)
}

func (c *Config) validateEmbeddedListen(report func(key, problem string)) {
	host, port, err := net.SplitHostPort(c.EmbeddedListen)
	ip := net.ParseIP(host)
	if err != nil || ip == nil {
		report("embedded_listen", fmt.Sprintf("is %q, must be ip:port", c.EmbeddedListen))
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		report("embedded_listen", fmt.Sprintf("has port %q, must be from 1 to 65535 so that the other daemons find it", port))
	}
	if ip.IsUnspecified() {
		report("embedded_listen", "is not one address: this machine's daemons could not tell where to connect")
	}
	if ip.IsLoopback() {
		return
	}
	if c.EmbeddedCertFile == "" {
		report("embedded_listen", "is not loopback and has no TLS: set embedded_cert_file, or listen on 127.0.0.1")
	}
	if c.EmbeddedClientCAFile == "" && len(c.EmbeddedAuthorizedNKeys) == 0 {
		report("embedded_listen", "is not loopback and lets in everyone: set embedded_client_ca_file or embedded_authorized_nkeys")
	}
}

func (c *Config) validateEmbeddedIdentity(report func(key, problem string)) {
	for i, key := range c.EmbeddedAuthorizedNKeys {
		if !nkeys.IsValidPublicUserKey(key) {
			report("embedded_authorized_nkeys", fmt.Sprintf("entry %d is not a public user NKEY (U…)", i+1))
		}
	}
	tls := c.EmbeddedCertFile != ""
	if c.EmbeddedClientCAFile != "" && !tls {
		report("embedded_client_ca_file", "needs embedded_cert_file: without TLS no client can present a certificate")
	}
	if c.EmbeddedClientCAFile != "" && c.CertFile == "" {
		report("cert_file", "is missing: the embedded server asks clients for a certificate (embedded_client_ca_file)")
	}
	if tls && c.CAFile == "" {
		report("ca_file", "is missing: clients need it to verify the embedded server (embedded_cert_file)")
	}
	if !tls && c.usesTLS() {
		report("embedded_cert_file", "is missing: the client is set to use TLS")
	}
	if c.CredsFile != "" {
		report("creds_file", "cannot be used with the embedded server: use nkey_seed_file with embedded_authorized_nkeys")
	}
	if (c.NKeySeedFile != "") != (len(c.EmbeddedAuthorizedNKeys) > 0) {
		report("nkey_seed_file", "and embedded_authorized_nkeys must be set together")
	}
	if c.AllowPlaintext {
		report("allow_plaintext", "has no effect on the embedded server")
	}
}

func bothOrNeither(report func(key, problem string), keyA, a, keyB, b string) {
	switch {
	case a != "" && b == "":
		report(keyB, "is missing: "+keyA+" is set")
	case a == "" && b != "":
		report(keyA, "is missing: "+keyB+" is set")
	}
}

// literalSubject reports whether s is a subject without wildcards.
func literalSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n\x00") {
			return false
		}
	}
	return true
}
