package telemetry

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Section is the name of the settings table of this package:
// [portcullis.telemetry].
const Section = "telemetry"

// defaultOTLPPort is the port that OTLP over gRPC has by convention.
const defaultOTLPPort = "4317"

// Limits of the settings, inclusive.
const (
	minOTLPTimeout = 100 * time.Millisecond
	maxOTLPTimeout = time.Minute
)

// Config is the table [portcullis.telemetry]. The zero Config exports nothing.
type Config struct {
	// OTLPEndpoint is the URL of an OTLP gRPC collector, such as
	// "https://collector:4317" or, in plaintext, "http://127.0.0.1:4317". The port
	// defaults to 4317. Empty turns the export of traces off; trace context is still
	// passed on.
	OTLPEndpoint string `toml:"otlp_endpoint"`
	// OTLPCAFile holds the PEM certificates that the collector's certificate must
	// chain to; empty means those of the system. Only with https. It is read at
	// start.
	OTLPCAFile string `toml:"otlp_ca_file"`
	// OTLPTimeout bounds one export with its retries: 100ms to 1m.
	OTLPTimeout driverconf.Duration `toml:"otlp_timeout"`
	// OTLPShutdownTimeout bounds the export of what is left at the end; then the rest
	// is dropped: 100ms to 1m. It must be below the shutdown grace of the daemon, or
	// a lost collector makes a requested stop a forced one.
	OTLPShutdownTimeout driverconf.Duration `toml:"otlp_shutdown_timeout"`
	// TraceSampleRatio is the share of the traces begun here that is recorded, 0 to 1.
	// A trace that a caller began follows the caller's decision.
	TraceSampleRatio float64 `toml:"trace_sample_ratio"`
}

// DefaultConfig exports nothing; once an endpoint is set it records every trace,
// since a control plane makes few.
func DefaultConfig() Config {
	return Config{
		OTLPTimeout:         driverconf.Duration(10 * time.Second),
		OTLPShutdownTimeout: driverconf.Duration(2 * time.Second),
		TraceSampleRatio:    1,
	}
}

// Validate reports every problem with its key, relative to the table. It reads no
// files.
func (c Config) Validate(report func(key, problem string)) {
	endpoint, err := parseEndpoint(c.OTLPEndpoint)
	if err != nil {
		report("otlp_endpoint", err.Error())
	}
	if c.OTLPCAFile != "" && err == nil && !endpoint.tls {
		report("otlp_ca_file", "is set but no https endpoint is: set otlp_endpoint to an https:// URL or remove the key")
	}
	checkTimeout(report, "otlp_timeout", c.OTLPTimeout)
	checkTimeout(report, "otlp_shutdown_timeout", c.OTLPShutdownTimeout)
	// The comparison is written so that NaN fails it.
	if r := c.TraceSampleRatio; !(r >= 0 && r <= 1) {
		report("trace_sample_ratio", fmt.Sprintf("%v is outside 0 to 1", r))
	}
}

func checkTimeout(report func(key, problem string), key string, d driverconf.Duration) {
	if d.Std() < minOTLPTimeout || d.Std() > maxOTLPTimeout {
		report(key, fmt.Sprintf("%s is outside %s to %s", d, minOTLPTimeout, maxOTLPTimeout))
	}
}

// endpoint is where to send traces; the zero endpoint is nowhere.
type endpoint struct {
	target string // host:port
	tls    bool
}

// parseEndpoint accepts http and https URLs that consist of host and port. Its
// errors never repeat the text, which may hold credentials by mistake.
func parseEndpoint(text string) (endpoint, error) {
	if text == "" {
		return endpoint{}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, errors.New("is not a URL: write it as https://host:4317")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return endpoint{}, errors.New("must begin with https:// (TLS) or http:// (plaintext), such as https://host:4317")
	case u.User != nil:
		return endpoint{}, errors.New("must not hold credentials: remove the part before the @")
	case u.Hostname() == "":
		return endpoint{}, errors.New("has no host: write it as https://host:4317")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return endpoint{}, errors.New("must end after the port: OTLP over gRPC has no path or query")
	}
	port := u.Port()
	if port == "" {
		port = defaultOTLPPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, fmt.Errorf("has the port %s: use 1 to 65535", port)
	}
	return endpoint{target: net.JoinHostPort(u.Hostname(), port), tls: u.Scheme == "https"}, nil
}
