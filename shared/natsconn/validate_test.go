package natsconn_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// problems are the reports of Validate by key; several of one key are joined.
func problems(cfg natsconn.Config) map[string]string {
	found := map[string]string{}
	cfg.Validate(func(key, problem string) { found[key] = strings.TrimPrefix(found[key]+"; "+problem, "; ") })
	return found
}

// remote and embedded are the two valid bases that each case breaks in one way.
func remote() natsconn.Config {
	cfg := natsconn.DefaultConfig()
	cfg.URLs = []string{"tls://nats-0.nats:4222", "tls://nats-1.nats:4222"}
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = "/tls/ca.crt", "/tls/tls.crt", "/tls/tls.key"
	cfg.InboxPrefix, cfg.JSAPIPrefix = "_INBOX_reader", "allow.API"
	return cfg
}

func embedded() natsconn.Config {
	cfg := natsconn.DefaultConfig()
	cfg.Embedded, cfg.EmbeddedStoreDir = true, "/var/lib/portcullis/nats"
	return cfg
}

// exposed is an embedded server for other machines.
func exposed(t testing.TB) natsconn.Config {
	public, _ := natstest.NKey(t)
	cfg := embedded()
	cfg.EmbeddedListen = "10.0.0.1:4222"
	cfg.EmbeddedCertFile, cfg.EmbeddedKeyFile, cfg.EmbeddedClientCAFile = "/tls/tls.crt", "/tls/tls.key", "/tls/ca.crt"
	cfg.EmbeddedAuthorizedNKeys, cfg.NKeySeedFile = []string{public}, "/nats/seed"
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = "/tls/ca.crt", "/tls/tls.crt", "/tls/tls.key"
	return cfg
}

func TestValidSettings(t *testing.T) {
	plain := natsconn.DefaultConfig()
	plain.URLs = []string{"nats://127.0.0.1:4222", "nats://[::1]:4222", "nats://localhost"}
	allowed := natsconn.DefaultConfig()
	allowed.URLs, allowed.AllowPlaintext = []string{"nats://nats:4222"}, true
	six := embedded()
	six.EmbeddedListen = "[::1]:4222"
	for name, cfg := range map[string]natsconn.Config{
		"remote": remote(), "embedded": embedded(), "embedded for other machines": exposed(t), "loopback without TLS": plain,
		"plaintext allowed": allowed, "embedded on IPv6": six, "no server": natsconn.DefaultConfig(),
	} {
		if found := problems(cfg); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestBrokenSettings(t *testing.T) {
	type breakage = func(c *natsconn.Config)
	setURL := func(url string) breakage { return func(c *natsconn.Config) { c.URLs[1] = url } }
	duration := func(d time.Duration) driverconf.Duration { return driverconf.Duration(d) }
	for _, c := range []struct {
		name  string
		base  natsconn.Config
		spoil breakage
		key   string
		text  string
	}{
		{"no server where one is needed", natsconn.DefaultConfig(), func(c *natsconn.Config) { c.Required = true }, "urls", "no NATS server"},
		{"no scheme", remote(), setURL("nats-1.nats:4222"), "urls", "entry 2 is neither"},
		{"other scheme", remote(), setURL("wss://nats-1.nats"), "urls", "entry 2 is neither"},
		{"no host", remote(), setURL("tls://:4222"), "urls", "has no host"},
		{"opaque", remote(), setURL("tls:nats-1"), "urls", "has no host"},
		{"empty", remote(), setURL(""), "urls", "neither"},
		{"space", remote(), setURL("tls://nats 1:4222"), "urls", "not a URL"},
		{"two hosts in one", remote(), setURL("tls://a,tls://b"), "urls", "more than one host"},
		{"two names in one", remote(), setURL("tls://a,b:4222"), "urls", "more than one host"},
		{"path", remote(), setURL("tls://nats-1:4222/x"), "urls", "more than scheme"},
		{"query", remote(), setURL("tls://nats-1:4222?x=1"), "urls", "more than scheme"},
		{"port 0", remote(), setURL("tls://nats-1:0"), "urls", "port"},
		{"port too large", remote(), setURL("tls://nats-1:65536"), "urls", "port"},
		{"twice the same", remote(), setURL("tls://nats-0.nats:4222"), "urls", "entry 2 is the same"},
		{"mixed schemes", remote(), setURL("nats://nats-1.nats:4222"), "urls", "mixes"},
		{"user and password", remote(), setURL("tls://admin:hunter2@nats-1"), "urls", "credentials"},
		{"token", remote(), setURL("tls://hunter2@nats-1"), "urls", "credentials"},
		{"password in a broken URL", remote(), setURL("tls://admin:hunter2@nats-1:port"), "urls", "not a URL"},
		{"password without scheme", remote(), setURL("admin:hunter2@nats-1:4222"), "urls", "entry 2"},
		{"too many", remote(), func(c *natsconn.Config) {
			c.URLs = nil
			for _, r := range "abcdefghijklmnopq" {
				c.URLs = append(c.URLs, "tls://"+string(r))
			}
		}, "urls", "17 servers"},
		{"plaintext to another host", natsconn.DefaultConfig(), func(c *natsconn.Config) { c.URLs = []string{"nats://10.0.0.1:4222"} }, "urls", "without TLS"},
		{"plaintext and TLS", remote(), func(c *natsconn.Config) { c.AllowPlaintext = true }, "allow_plaintext", "contradicts"},
		{"creds and seed", remote(), func(c *natsconn.Config) { c.CredsFile, c.NKeySeedFile = "/c", "/s" }, "nkey_seed_file", "creds_file"},
		{"certificate without key", remote(), func(c *natsconn.Config) { c.KeyFile = "" }, "key_file", "missing"},
		{"key without certificate", remote(), func(c *natsconn.Config) { c.CertFile = "" }, "cert_file", "missing"},
		{"wildcard inbox", remote(), func(c *natsconn.Config) { c.InboxPrefix = "_INBOX.>" }, "inbox_prefix", "not a subject"},
		{"inbox with an end dot", remote(), func(c *natsconn.Config) { c.InboxPrefix = "_INBOX." }, "inbox_prefix", "not a subject"},
		{"API prefix with a space", remote(), func(c *natsconn.Config) { c.JSAPIPrefix = "a b" }, "js_api_prefix", "not a subject"},
		{"no connect timeout", remote(), func(c *natsconn.Config) { c.ConnectTimeout = 0 }, "connect_timeout", "from 100ms"},
		{"ping never", remote(), func(c *natsconn.Config) { c.PingInterval = duration(time.Hour) }, "ping_interval", "to 1m"},
		{"negative pings", remote(), func(c *natsconn.Config) { c.MaxPingsOut = -1 }, "max_pings_out", "from 1 to 10"},
		{"no wait", remote(), func(c *natsconn.Config) { c.ReconnectWait = 0 }, "reconnect_wait", "from 10ms"},
		{"longest wait too long", remote(), func(c *natsconn.Config) { c.ReconnectWaitMax = duration(time.Hour) }, "reconnect_wait_max", "to 1m"},
		{"first wait above the longest", remote(), func(c *natsconn.Config) { c.ReconnectWait = duration(3 * time.Second) }, "reconnect_wait", "more than reconnect_wait_max"},
		{"no drain", remote(), func(c *natsconn.Config) { c.DrainTimeout = 0 }, "drain_timeout", "from 10ms"},
		{"store of no server", remote(), func(c *natsconn.Config) { c.EmbeddedStoreDir = "/store" }, "embedded_store_dir", "no effect"},
		{"users of no server", remote(), func(c *natsconn.Config) { c.EmbeddedAuthorizedNKeys = []string{"U"} }, "embedded_authorized_nkeys", "no effect"},

		{"embedded and urls", embedded(), func(c *natsconn.Config) { c.URLs = []string{"nats://127.0.0.1:4222"} }, "embedded", "together with urls"},
		{"no store", embedded(), func(c *natsconn.Config) { c.EmbeddedStoreDir = "" }, "embedded_store_dir", "absolute"},
		{"relative store", embedded(), func(c *natsconn.Config) { c.EmbeddedStoreDir = "nats" }, "embedded_store_dir", "absolute"},
		{"tiny store", embedded(), func(c *natsconn.Config) { c.EmbeddedMaxStore = 1 }, "embedded_max_store", "at least"},
		{"listen without port", embedded(), func(c *natsconn.Config) { c.EmbeddedListen = "127.0.0.1" }, "embedded_listen", "ip:port"},
		{"listen on a name", embedded(), func(c *natsconn.Config) { c.EmbeddedListen = "localhost:4222" }, "embedded_listen", "ip:port"},
		{"listen on a random port", embedded(), func(c *natsconn.Config) { c.EmbeddedListen = "127.0.0.1:0" }, "embedded_listen", "port"},
		{"credentials for the embedded server", embedded(), func(c *natsconn.Config) { c.CredsFile = "/c" }, "creds_file", "embedded server"},
		{"seed without users", embedded(), func(c *natsconn.Config) { c.NKeySeedFile = "/s" }, "nkey_seed_file", "together"},
		{"client TLS to a server without", embedded(), func(c *natsconn.Config) { c.CAFile = "/ca" }, "embedded_cert_file", "missing"},
		{"plaintext allowed", embedded(), func(c *natsconn.Config) { c.AllowPlaintext = true }, "allow_plaintext", "no effect"},

		{"all addresses", exposed(t), func(c *natsconn.Config) { c.EmbeddedListen = "0.0.0.0:4222" }, "embedded_listen", "not one address"},
		{"exposed without TLS", embedded(), func(c *natsconn.Config) { c.EmbeddedListen = "10.0.0.1:4222" }, "embedded_listen", "no TLS"},
		{"exposed to everyone", exposed(t), func(c *natsconn.Config) {
			c.EmbeddedClientCAFile, c.EmbeddedAuthorizedNKeys, c.NKeySeedFile = "", nil, ""
		}, "embedded_listen", "everyone"},
		{"server certificate without key", exposed(t), func(c *natsconn.Config) { c.EmbeddedKeyFile = "" }, "embedded_key_file", "missing"},
		{"client authority without TLS", embedded(), func(c *natsconn.Config) { c.EmbeddedClientCAFile = "/ca" }, "embedded_client_ca_file", "needs embedded_cert_file"},
		{"client certificate missing", exposed(t), func(c *natsconn.Config) { c.CertFile, c.KeyFile = "", "" }, "cert_file", "asks clients"},
		{"authority of the server missing", exposed(t), func(c *natsconn.Config) { c.CAFile = "" }, "ca_file", "verify"},
		{"user key malformed", exposed(t), func(c *natsconn.Config) { c.EmbeddedAuthorizedNKeys[0] = "UABC" }, "embedded_authorized_nkeys", "entry 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spoil(&c.base)
			found := problems(c.base)
			if !strings.Contains(found[c.key], c.text) {
				t.Errorf("%s: got %v, want %q", c.key, found, c.text)
			}
			if all := strings.Join(slices.Collect(maps.Values(found)), " "); strings.Contains(all, "hunter2") {
				t.Errorf("a password is in %q", all)
			}
			if _, err := natsconn.New(c.base, zerolog.Nop(), prometheus.NewRegistry()); err == nil {
				t.Error("new accepted it")
			}
		})
	}
}

func TestZeroConfigIsRefused(t *testing.T) {
	if _, err := natsconn.New(natsconn.Config{}, zerolog.Nop(), prometheus.NewRegistry()); err == nil {
		t.Error("new accepted the zero settings")
	}
	if _, err := natsconn.New(natsconn.DefaultConfig(), zerolog.Nop(), prometheus.NewRegistry()); err == nil {
		t.Error("new accepted settings without a server")
	}
}

// TestSectionLoads goes through the settings loader, which has rules for sections, and back by its printer.
func TestSectionLoads(t *testing.T) {
	const text = `
[portcullis.nats]
urls = ["tls://nats-0.nats:4222", "tls://nats-1.nats:4222"]
ca_file = "/tls/ca.crt"
cert_file = "/tls/tls.crt"
key_file = "/tls/tls.key"
inbox_prefix = "_INBOX_reader"
js_api_prefix = "allow.API"
ping_interval = "1s"
`
	load := func(text string) (natsconn.Config, *driverconf.Config, error) {
		cfg := natsconn.DefaultConfig()
		all, err := driverconf.Load(driverconf.Source{Bytes: []byte(text), Sections: map[string]driverconf.Section{natsconn.Section: &cfg}})
		return cfg, all, err
	}
	got, all, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	want := remote()
	want.PingInterval = driverconf.Duration(time.Second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	var printed strings.Builder
	if err := all.WriteEffective(&printed); err != nil {
		t.Fatal(err)
	}
	again, _, err := load(printed.String())
	if err != nil {
		t.Fatalf("the printed settings do not load: %v", err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("settings after printing (-before +after):\n%s", diff)
	}
	_, _, err = load(text + "ping_intervall = \"1s\"\n" + "name = \"x\"\nurls = [\"tls://admin:hunter2@nats\"]\n")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("broken settings: %v, want problems without the password", err)
	}
	_, _, err = load(strings.Replace(text, "nats-1.nats", "admin:hunter2@nats-1", 1) + "name = \"x\"\n")
	for _, problem := range []string{"portcullis.nats.urls", "portcullis.nats.name"} {
		if err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("broken settings: %v, want %s and no password", err, problem)
		}
	}
}

// FuzzURLsNeverLeak: whatever the entry, no problem text repeats what stands before an @.
func FuzzURLsNeverLeak(f *testing.F) {
	for _, seed := range []string{"tls://%s@host", "nats://user:%s@host:4222", "%s@host", "tls://a:%s@b:c", "tls:%s@x", "tls://%zz:%s@b"} {
		f.Add(seed)
	}
	const secret = "correct-horse-battery-staple"
	f.Fuzz(func(t *testing.T, shape string) {
		if !strings.Contains(shape, "%s@") {
			return
		}
		cfg := natsconn.DefaultConfig()
		cfg.URLs = []string{strings.ReplaceAll(shape, "%s", secret)}
		cfg.Validate(func(_, problem string) {
			if strings.Contains(problem, secret) {
				t.Errorf("the problem repeats the password: %q", problem)
			}
		})
	})
}
