package kubeclient

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Section is the name of the settings table of this package: [portcullis.kubernetes].
const Section = "kubernetes"

// Config is the section [portcullis.kubernetes] of the settings. Start from DefaultConfig: the zero value has no
// limits and does not validate.
type Config struct {
	// Kubeconfig is the absolute path of a kubeconfig. Empty means the rules of the package comment.
	Kubeconfig string `toml:"kubeconfig"`
	// Context names a context of Kubeconfig. Empty means its current context.
	Context string `toml:"context"`
	// QPS and Burst limit Calls: requests per second over time, and at once. QPS 0.1 to 10000, Burst 1 to 20000.
	QPS   float64 `toml:"qps"`
	Burst int     `toml:"burst"`
	// WatchQPS and WatchBurst limit Watches likewise.
	WatchQPS   float64 `toml:"watch_qps"`
	WatchBurst int     `toml:"watch_burst"`
	// CallTimeout bounds one request of Calls from its sending to the last byte of the answer (contract 3.4), and the
	// wait for the first byte of an answer of Watches, which client-go asks for up to eleven times. 1s to 5m.
	CallTimeout driverconf.Duration `toml:"call_timeout"`
	// ConnectTimeout bounds the dial, and the TLS handshake likewise (contract 3.4). 100ms to 1m.
	ConnectTimeout driverconf.Duration `toml:"connect_timeout"`
	// ThrottleTimeout bounds the wait for the rate limiter, before CallTimeout begins. 100ms to 1m.
	ThrottleTimeout driverconf.Duration `toml:"throttle_timeout"`
	// PingInterval is the silence after which an HTTP/2 connection is pinged, PingTimeout the silence after which it
	// is then dead. 100ms to 1m each.
	PingInterval driverconf.Duration `toml:"ping_interval"`
	PingTimeout  driverconf.Duration `toml:"ping_timeout"`
	// UserAgent is what the API server's audit log calls this client. The daemon sets its own name as the default.
	UserAgent string `toml:"user_agent"`
}

// DefaultConfig has the contract's timeouts (3.4). The pings notice a dead connection within 15 s; client-go's own
// settings, 30 s and 15 s, would need 45 s.
func DefaultConfig() Config {
	return Config{
		QPS: 50, Burst: 100, WatchQPS: 10, WatchBurst: 20,
		CallTimeout:     driverconf.Duration(30 * time.Second),
		ConnectTimeout:  driverconf.Duration(10 * time.Second),
		ThrottleTimeout: driverconf.Duration(10 * time.Second),
		PingInterval:    driverconf.Duration(10 * time.Second),
		PingTimeout:     driverconf.Duration(5 * time.Second),
		UserAgent:       "portcullis",
	}
}

// Validate reports every contradiction and every value out of range, each under its key. It reads no file.
func (c *Config) Validate(report func(key, problem string)) {
	if c.Kubeconfig != "" && !filepath.IsAbs(c.Kubeconfig) {
		report("kubeconfig", fmt.Sprintf("is %q, must be an absolute path", c.Kubeconfig))
	}
	if c.Context != "" && c.Kubeconfig == "" {
		report("context", "has no effect without kubeconfig: set both, or remove it")
	}
	checkRate(report, "qps", c.QPS, "burst", c.Burst)
	checkRate(report, "watch_qps", c.WatchQPS, "watch_burst", c.WatchBurst)
	for _, l := range []struct {
		key      string
		value    driverconf.Duration
		min, max time.Duration
	}{
		{"call_timeout", c.CallTimeout, time.Second, 5 * time.Minute},
		{"connect_timeout", c.ConnectTimeout, 100 * time.Millisecond, time.Minute},
		{"throttle_timeout", c.ThrottleTimeout, 100 * time.Millisecond, time.Minute},
		{"ping_interval", c.PingInterval, 100 * time.Millisecond, time.Minute},
		{"ping_timeout", c.PingTimeout, 100 * time.Millisecond, time.Minute},
	} {
		if v := l.value.Std(); v < l.min || v > l.max {
			report(l.key, fmt.Sprintf("is %s, must be from %s to %s", v, l.min, l.max))
		}
	}
	if c.UserAgent == "" || len(c.UserAgent) > 256 || strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		report("user_agent", "must be 1 to 256 printable ASCII characters")
	}
}

// check is Validate as one error, for New.
func (c *Config) check() error {
	var problems []error
	c.Validate(func(key, problem string) {
		problems = append(problems, fmt.Errorf("portcullis.%s.%s: %s", Section, key, problem))
	})
	return errors.Join(problems...)
}

func checkRate(report func(key, problem string), qpsKey string, qps float64, burstKey string, burst int) {
	if math.IsNaN(qps) || qps < 0.1 || qps > 10000 {
		report(qpsKey, fmt.Sprintf("is %v, must be from 0.1 to 10000 requests per second", qps))
	}
	if burst < 1 || burst > 20000 {
		report(burstKey, fmt.Sprintf("is %d, must be from 1 to 20000 requests", burst))
	}
}
