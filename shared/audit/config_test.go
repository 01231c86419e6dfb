package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func TestConfigValidate(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*Config)
		want  []string
	}{
		{"default", func(*Config) {}, nil},
		{"least", func(c *Config) {
			c.MaxAge, c.MaxBytes, c.Buffer, c.AckTimeout, c.FlushTimeout = driverconf.Duration(leastAge), leastBytes, leastBuffer, driverconf.Duration(leastAck), 0
		}, nil},
		{"age", func(c *Config) { c.MaxAge = driverconf.Duration(leastAge - 1) }, []string{"max_age"}},
		{"endless age", func(c *Config) { c.MaxAge = driverconf.Duration(mostAge + 1) }, []string{"max_age"}},
		{"no age", func(c *Config) { c.MaxAge = 0 }, []string{"max_age"}},
		{"bytes", func(c *Config) { c.MaxBytes = leastBytes - 1 }, []string{"max_bytes"}},
		{"endless bytes", func(c *Config) { c.MaxBytes = -1 }, []string{"max_bytes"}},
		{"replicas", func(c *Config) { c.Replicas = 2 }, []string{"replicas"}},
		{"buffer", func(c *Config) { c.Buffer = mostBuffer + 1 }, []string{"buffer"}},
		{"ack", func(c *Config) { c.AckTimeout = driverconf.Duration(leastAck - 1) }, []string{"ack_timeout"}},
		{"flush", func(c *Config) { c.FlushTimeout = driverconf.Duration(mostFlush + 1) }, []string{"flush_timeout"}},
		{"key file", func(c *Config) { c.HashKeyFile = "key" }, []string{"hash_key_file"}},
		{"zero value", func(c *Config) { *c = Config{} }, []string{"max_age", "ack_timeout", "max_bytes", "replicas", "buffer"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := DefaultConfig()
			test.spoil(&cfg)
			var keys []string
			cfg.Validate(func(key, _ string) { keys = append(keys, key) })
			if diff := cmp.Diff(test.want, keys); diff != "" {
				t.Error(diff)
			}
			if _, err := New(cfg, origin, nil, zerolog.Nop(), prometheus.NewRegistry()); (err == nil) != (test.want == nil) {
				t.Errorf("New: %v", err)
			}
		})
	}
}

// TestSectionLoads has every key of the section in a settings file.
func TestSectionLoads(t *testing.T) {
	cfg := DefaultConfig()
	text := `[portcullis.audit]
publish = false
max_age = "48h"
max_bytes = 2097152
replicas = 3
buffer = 100
ack_timeout = "1s"
flush_timeout = "1s"
hash_key_file = "/etc/portcullis/audit.key"
`
	_, err := driverconf.Load(driverconf.Source{Bytes: []byte(text), Sections: map[string]driverconf.Section{Section: &cfg}})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		MaxAge: driverconf.Duration(48 * 60 * 60 * 1e9), MaxBytes: 2 << 20, Replicas: 3, Buffer: 100,
		AckTimeout: driverconf.Duration(1e9), FlushTimeout: driverconf.Duration(1e9), HashKeyFile: "/etc/portcullis/audit.key",
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Error(diff)
	}
}

func TestNewRefused(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := New(DefaultConfig(), origin, nil, zerolog.Nop(), registry); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		origin Origin
		reg    prometheus.Registerer
		want   string
	}{
		"no daemon":          {Origin{GatewayID: "a"}, prometheus.NewRegistry(), "daemon"},
		"daemon is no token": {Origin{Daemon: "a.b", GatewayID: "a"}, prometheus.NewRegistry(), "daemon"},
		"no gateway":         {Origin{Daemon: "a"}, prometheus.NewRegistry(), "gateway id"},
		"gateway in lines":   {Origin{Daemon: "a", GatewayID: "a\nb"}, prometheus.NewRegistry(), "gateway id"},
		"no registerer":      {origin, nil, "registerer"},
		"registered twice":   {origin, registry, "register metrics"},
	} {
		if _, err := New(DefaultConfig(), test.origin, nil, zerolog.Nop(), test.reg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMetricNames: every series is there before anything happened.
func TestMetricNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := New(DefaultConfig(), origin, away{}, zerolog.Nop(), registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range families {
		got[f.GetName()] = len(f.GetMetric())
	}
	want := map[string]int{
		"portcullis_audit_dropped_total": 6, "portcullis_audit_failures_total": 4, "portcullis_audit_published_total": 1,
		"portcullis_audit_publish_seconds": 1, "portcullis_audit_queue_length": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSubject(t *testing.T) {
	for _, test := range []struct{ gateway, want string }{
		{"gw-1", "portcullis.audit.gw-1.tokenauth"},
		{"a.b", "portcullis.audit.a%2Eb.tokenauth"},
		{"a..b_C", "portcullis.audit.a%2E%2Eb_C.tokenauth"},
		{"*>% ", "portcullis.audit.%2A%3E%25%20.tokenauth"},
	} {
		if got := Subject(test.gateway, "tokenauth"); got != test.want {
			t.Errorf("%q: %s, want %s", test.gateway, got, test.want)
		}
	}
}
