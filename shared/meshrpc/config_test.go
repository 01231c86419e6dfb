package meshrpc

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func validConfig() Config {
	cfg := DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = "/certs/tls.crt", "/certs/tls.key", "/ca/ca.crt"
	return cfg
}

func problemsOf(c Config) []string {
	var found []string
	c.Validate(func(key, problem string) { found = append(found, key+" "+problem) })
	return found
}

func TestValidate(t *testing.T) {
	d := func(d time.Duration) driverconf.Duration { return driverconf.Duration(d) }
	cases := map[string]struct {
		breaks func(*Config)
		want   []string // the beginning of each problem, in order
	}{
		"valid":               {func(*Config) {}, nil},
		"plaintext":           {func(c *Config) { *c = plaintextConfig() }, nil},
		"defaults alone":      {func(c *Config) { *c = DefaultConfig() }, []string{"cert_file is not set: give", "key_file is not set", "ca_file is not set"}},
		"no certificate":      {func(c *Config) { c.CertFile = "" }, []string{"cert_file is not set: cert_file, key_file and ca_file go together"}},
		"no key":              {func(c *Config) { c.KeyFile = "" }, []string{"key_file is not set"}},
		"no authority":        {func(c *Config) { c.CAFile = "" }, []string{"ca_file is not set"}},
		"relative path":       {func(c *Config) { c.CAFile = "ca.crt" }, []string{`ca_file "ca.crt" is relative`}},
		"two directories":     {func(c *Config) { c.KeyFile = "/keys/tls.key" }, []string{`key_file "/keys/tls.key" is not in the directory`}},
		"TLS and plaintext":   {func(c *Config) { c.AllowPlaintextLoopback = true }, []string{"allow_plaintext_loopback is true although"}},
		"refresh too fast":    {func(c *Config) { c.RefreshInterval = d(99 * time.Millisecond) }, []string{"refresh_interval 99ms is outside"}},
		"refresh too slow":    {func(c *Config) { c.RefreshInterval = d(2 * time.Hour) }, []string{"refresh_interval"}},
		"message too small":   {func(c *Config) { c.MaxMessageBytes = 1023 }, []string{"max_message_bytes 1023 is outside"}},
		"message too large":   {func(c *Config) { c.MaxMessageBytes = 64<<20 + 1 }, []string{"max_message_bytes"}},
		"no streams":          {func(c *Config) { c.MaxConcurrentStreams = 0 }, []string{"max_concurrent_streams"}},
		"too many streams":    {func(c *Config) { c.MaxConcurrentStreams = 10001 }, []string{"max_concurrent_streams"}},
		"connection too old":  {func(c *Config) { c.MaxConnectionAge = d(25 * time.Hour) }, []string{"max_connection_age"}},
		"connection immortal": {func(c *Config) { c.MaxConnectionAge = 0 }, []string{"max_connection_age"}},
		"handshake for ever":  {func(c *Config) { c.HandshakeTimeout = d(time.Hour) }, []string{"handshake_timeout"}},
		"keepalive too fast":  {func(c *Config) { c.KeepaliveTime = d(9 * time.Second) }, []string{"keepalive_time 9s is outside"}},
		"keepalive no answer": {func(c *Config) { c.KeepaliveTimeout = 0 }, []string{"keepalive_timeout"}},
		"call without end":    {func(c *Config) { c.MaxCallDuration = d(2 * time.Hour) }, []string{"max_call_duration"}},
		"negative call":       {func(c *Config) { c.CallTimeout = -1 }, []string{"call_timeout -1ns is outside"}},
		"call beyond cap":     {func(c *Config) { c.CallTimeout = c.MaxCallDuration + 1 }, []string{"call_timeout 5m0.000000001s is longer than max_call_duration"}},
		"no attempt":          {func(c *Config) { c.MaxAttempts = 0 }, []string{"max_attempts 0 is outside"}},
		"too many attempts":   {func(c *Config) { c.MaxAttempts = 11 }, []string{"max_attempts"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := validConfig()
			c.breaks(&cfg)
			got := problemsOf(cfg)
			if len(got) != len(c.want) {
				t.Fatalf("problems %q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("problem %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
	if len(problemsOf(Config{})) == 0 {
		t.Error("the zero Config is valid")
	}
}

// The table decodes with its keys and is a section of the settings.
func TestConfigIsASection(t *testing.T) {
	cfg := DefaultConfig()
	_, err := driverconf.Load(driverconf.Source{
		Bytes: []byte(`
[openshell.drivers.kubernetes]
namespace = "sandboxes"
[portcullis.mesh]
cert_file = "/certs/tls.crt"
key_file = "/certs/tls.key"
ca_file = "/certs/ca.crt"
refresh_interval = "5s"
max_message_bytes = 2048
max_concurrent_streams = 3
max_connection_age = "1h"
handshake_timeout = "2s"
keepalive_time = "11s"
keepalive_timeout = "3s"
call_timeout = "4s"
max_call_duration = "1m"
max_attempts = 2
`),
		Sections: map[string]driverconf.Section{Section: &cfg},
	})
	must(t, err)
	d := func(d time.Duration) driverconf.Duration { return driverconf.Duration(d) }
	want := Config{
		CertFile: "/certs/tls.crt", KeyFile: "/certs/tls.key", CAFile: "/certs/ca.crt",
		RefreshInterval: d(5 * time.Second), MaxMessageBytes: 2048, MaxConcurrentStreams: 3,
		MaxConnectionAge: d(time.Hour), HandshakeTimeout: d(2 * time.Second),
		KeepaliveTime: d(11 * time.Second), KeepaliveTimeout: d(3 * time.Second),
		CallTimeout: d(4 * time.Second), MaxCallDuration: d(time.Minute), MaxAttempts: 2,
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
