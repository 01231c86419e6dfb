package kubeclient

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func TestDefaultsAreValid(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Validate(func(key, problem string) { t.Errorf("%s %s", key, problem) })
}

// TestSectionLoads goes through the settings loader, which has rules for sections.
func TestSectionLoads(t *testing.T) {
	load := func(text string) (Config, error) {
		cfg := DefaultConfig()
		_, err := driverconf.Load(driverconf.Source{Bytes: []byte(text), Sections: map[string]driverconf.Section{Section: &cfg}})
		return cfg, err
	}
	got, err := load("[portcullis.kubernetes]\nkubeconfig = \"/etc/kubeconfig\"\ncontext = \"prod\"\nqps = 2.5\ncall_timeout = \"20s\"\n")
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Kubeconfig, want.Context, want.QPS, want.CallTimeout = "/etc/kubeconfig", "prod", 2.5, driverconf.Duration(20*time.Second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if _, err := load("[portcullis.kubernetes]\nqps = 0.0\nqqps = 1\n"); err == nil ||
		!strings.Contains(err.Error(), "portcullis.kubernetes.qps") || !strings.Contains(err.Error(), "portcullis.kubernetes.qqps") {
		t.Errorf("got %v, want both problems", err)
	}
}

func TestBrokenSettings(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(c *Config)
		key   string
	}{
		{"relative kubeconfig", func(c *Config) { c.Kubeconfig = "kubeconfig" }, "kubeconfig"},
		{"context without kubeconfig", func(c *Config) { c.Context = "prod" }, "context"},
		{"no rate", func(c *Config) { c.QPS = 0 }, "qps"},
		{"unlimited rate", func(c *Config) { c.QPS = -1 }, "qps"},
		{"rate that is no number", func(c *Config) { c.QPS = math.NaN() }, "qps"},
		{"infinite rate", func(c *Config) { c.QPS = math.Inf(1) }, "qps"},
		{"no burst", func(c *Config) { c.Burst = 0 }, "burst"},
		{"no watch rate", func(c *Config) { c.WatchQPS = 0 }, "watch_qps"},
		{"no watch burst", func(c *Config) { c.WatchBurst = 0 }, "watch_burst"},
		{"calls without limit", func(c *Config) { c.CallTimeout = 0 }, "call_timeout"},
		{"endless calls", func(c *Config) { c.CallTimeout = driverconf.Duration(time.Hour) }, "call_timeout"},
		{"connect without limit", func(c *Config) { c.ConnectTimeout = 0 }, "connect_timeout"},
		{"throttle without limit", func(c *Config) { c.ThrottleTimeout = 0 }, "throttle_timeout"},
		{"no pings", func(c *Config) { c.PingInterval = 0 }, "ping_interval"},
		{"pings never time out", func(c *Config) { c.PingTimeout = 0 }, "ping_timeout"},
		{"no user agent", func(c *Config) { c.UserAgent = "" }, "user_agent"},
		{"user agent of two lines", func(c *Config) { c.UserAgent = "a\r\nX-Evil: b" }, "user_agent"},
		{"zero", func(c *Config) { *c = Config{} }, "call_timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			c.spoil(&cfg)
			found := map[string]bool{}
			cfg.Validate(func(key, _ string) { found[key] = true })
			if !found[c.key] {
				t.Errorf("reported %v, want %s", found, c.key)
			}
			_, err := build(cfg, zerolog.Nop(), prometheus.NewRegistry(), nowhere(), time.Now)
			if err == nil || !strings.Contains(err.Error(), "portcullis.kubernetes."+c.key) {
				t.Errorf("build: %v, want an error that names the key", err)
			}
		})
	}
}
