package telemetry

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func problems(c Config) []string {
	var found []string
	c.Validate(func(key, problem string) { found = append(found, key+" "+problem) })
	return found
}

func validConfig() Config {
	c := DefaultConfig()
	c.OTLPEndpoint, c.OTLPCAFile = "https://collector.example:4317", "/etc/portcullis/otlp-ca.pem"
	return c
}

func TestConfigValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		breaks func(*Config)
		want   string // one problem, or none when empty
	}{
		{"valid", func(*Config) {}, ""},
		{"defaults", func(c *Config) { *c = DefaultConfig() }, ""},
		{"plaintext", func(c *Config) { c.OTLPEndpoint, c.OTLPCAFile = "http://127.0.0.1", "" }, ""},
		{"address of version 6", func(c *Config) { c.OTLPEndpoint = "https://[::1]:4317/" }, ""},
		{"no scheme", func(c *Config) { c.OTLPEndpoint = "collector:4317" }, "otlp_endpoint must begin with https://"},
		{"other scheme", func(c *Config) { c.OTLPEndpoint = "unix:///run/x" }, "otlp_endpoint must begin with https://"},
		{"no host", func(c *Config) { c.OTLPEndpoint = "https://:4317" }, "otlp_endpoint has no host"},
		{"path", func(c *Config) { c.OTLPEndpoint = "https://c:4317/v1/traces" }, "otlp_endpoint must end after the port"},
		{"query", func(c *Config) { c.OTLPEndpoint = "https://c?x=1" }, "otlp_endpoint must end after the port"},
		{"port zero", func(c *Config) { c.OTLPEndpoint = "https://c:0" }, "otlp_endpoint has the port 0"},
		{"port too big", func(c *Config) { c.OTLPEndpoint = "https://c:65536" }, "otlp_endpoint has the port 65536"},
		{"not a URL", func(c *Config) { c.OTLPEndpoint = "https://hunter2%zz" }, "otlp_endpoint is not a URL"},
		{"credentials", func(c *Config) { c.OTLPEndpoint = "https://u:hunter2@c" }, "otlp_endpoint must not hold credentials"},
		{"ca with plaintext", func(c *Config) { c.OTLPEndpoint = "http://c" }, "otlp_ca_file is set but no https"},
		{"ca without endpoint", func(c *Config) { c.OTLPEndpoint = "" }, "otlp_ca_file is set but no https"},
		{"no timeout", func(c *Config) { c.OTLPTimeout = 0 }, "otlp_timeout 0s is outside 100ms to 1m0s"},
		{"negative timeout", func(c *Config) { c.OTLPTimeout = -1 }, "otlp_timeout -1ns is outside"},
		{"long shutdown", func(c *Config) { c.OTLPShutdownTimeout = driverconf.Duration(time.Hour) }, "otlp_shutdown_timeout 1h0m0s is outside"},
		{"ratio above one", func(c *Config) { c.TraceSampleRatio = 1.5 }, "trace_sample_ratio 1.5 is outside 0 to 1"},
		{"negative ratio", func(c *Config) { c.TraceSampleRatio = -0.1 }, "trace_sample_ratio -0.1 is outside"},
		{"ratio is no number", func(c *Config) { c.TraceSampleRatio = math.NaN() }, "trace_sample_ratio NaN is outside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := validConfig()
			c.breaks(&cfg)
			got := problems(cfg)
			switch {
			case c.want == "" && len(got) != 0:
				t.Errorf("unexpected problems: %q", got)
			case c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)):
				t.Errorf("problems = %q, want one that begins with %q", got, c.want)
			case strings.Contains(strings.Join(got, ""), "hunter2"):
				t.Errorf("a problem repeats credentials: %q", got)
			}
		})
	}
}

func TestConfigReportsAllProblems(t *testing.T) {
	want := 4
	if got := problems(Config{OTLPEndpoint: "x", TraceSampleRatio: 2}); len(got) != want {
		t.Errorf("got %d problems, want %d: %q", len(got), want, got)
	}
}

func TestConfigDecodes(t *testing.T) {
	got := DefaultConfig()
	decoder := toml.NewDecoder(strings.NewReader(`
otlp_endpoint = "https://collector.example:4317"
otlp_ca_file = "/etc/portcullis/otlp-ca.pem"
otlp_shutdown_timeout = "2s"
trace_sample_ratio = 0.25
`)).DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := validConfig()
	want.OTLPShutdownTimeout, want.TraceSampleRatio = driverconf.Duration(2*time.Second), 0.25
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// FuzzEndpoint: what is accepted can be dialled, and errors never quote the text.
func FuzzEndpoint(f *testing.F) {
	f.Add("https://collector:4317")
	f.Add("http://[::1]")
	f.Add("https://user:hunter2@host/path")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseEndpoint(text)
		switch {
		case err == nil && text != "" && e.target == "":
			t.Errorf("%q is accepted but leads nowhere", text)
		case err != nil && e != (endpoint{}):
			t.Errorf("%q is refused but leads to %+v", text, e)
		case e.tls && !strings.HasPrefix(strings.ToLower(text), "https:"):
			t.Errorf("%q became TLS", text)
		case e.target != "" && !e.tls && !strings.HasPrefix(strings.ToLower(text), "http:"):
			t.Errorf("%q became plaintext without being asked for", text)
		}
	})
}
