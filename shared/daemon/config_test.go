package daemon

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func TestConfigValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		breaks func(*Config)
		want   string // one problem, or none when empty
	}{
		{"defaults", func(*Config) {}, ""},
		{"any address", func(c *Config) { c.HTTPAddress = ":9464" }, ""},
		{"version 6", func(c *Config) { c.HTTPAddress = "[::1]:9464" }, ""},
		{"localhost", func(c *Config) { c.HTTPAddress = "localhost:0" }, ""},
		{"empty", func(c *Config) { c.HTTPAddress = "" }, `http_address "" is not host:port`},
		{"no port", func(c *Config) { c.HTTPAddress = "127.0.0.1" }, `http_address "127.0.0.1" is not host:port`},
		{"empty port", func(c *Config) { c.HTTPAddress = "127.0.0.1:" }, `http_address "127.0.0.1:" has no port number`},
		{"named port", func(c *Config) { c.HTTPAddress = "127.0.0.1:http" }, `http_address "127.0.0.1:http" has no port number`},
		{"big port", func(c *Config) { c.HTTPAddress = ":65536" }, `http_address ":65536" has no port number`},
		{"name", func(c *Config) { c.HTTPAddress = "example.org:80" }, `http_address "example.org:80" has a host that is neither`},
		{"url", func(c *Config) { c.HTTPAddress = "http://127.0.0.1:80" }, `http_address "http://127.0.0.1:80" is not host:port`},
		{"no grace", func(c *Config) { c.ShutdownGrace = 0 }, "shutdown_grace 0s is outside 1s to 10m0s"},
		{"negative grace", func(c *Config) { c.ShutdownGrace = -1 }, "shutdown_grace -1ns is outside"},
		{"long grace", func(c *Config) { c.ShutdownGrace = driverconf.Duration(time.Hour) }, "shutdown_grace 1h0m0s is outside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			c.breaks(&cfg)
			var got []string
			cfg.Validate(func(key, problem string) { got = append(got, key+" "+problem) })
			if c.want == "" && len(got) != 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
				t.Errorf("problems %q, want %q", got, c.want)
			}
		})
	}
	var problems int
	Config{}.Validate(func(string, string) { problems++ })
	if problems != 2 {
		t.Errorf("the zero config has %d problems, want 2", problems)
	}
}

// TestConfigEmbeds: a daemon's section is its own keys and these, in one table.
func TestConfigEmbeds(t *testing.T) {
	type section struct {
		Config
		Leases int `toml:"leases"`
	}
	got := section{Config: DefaultConfig()}
	decoder := toml.NewDecoder(strings.NewReader("leases = 3\nhttp_address = \":9000\"\npprof = true\n")).DisallowUnknownFields()
	must(t, decoder.Decode(&got))
	want := section{Config{HTTPAddress: ":9000", Pprof: true, ShutdownGrace: driverconf.Duration(20 * time.Second)}, 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("section (-want +got):\n%s", diff)
	}
}

func TestListen(t *testing.T) {
	first, err := Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	defer func() { _ = first.Close() }()
	if first.Addr().(*net.TCPAddr).Port == 0 {
		t.Error("the address that was chosen is not known")
	}
	_, err = Listen(t.Context(), first.Addr().String())
	if err == nil || !strings.HasPrefix(err.Error(), "listen on "+first.Addr().String()+": ") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a taken address gives %v", err)
	}
}

// FuzzAddress: what Validate accepts, the network package can split.
func FuzzAddress(f *testing.F) {
	f.Add("127.0.0.1:9464")
	f.Add("[::1]:0")
	f.Add("host:99999")
	f.Fuzz(func(t *testing.T, address string) {
		if checkAddress(address) != nil {
			return
		}
		if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
			t.Errorf("%q is accepted: %v", address, err)
		}
	})
}
