package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Limits of the shutdown grace, inclusive.
const (
	minGrace = time.Second
	maxGrace = 10 * time.Minute
)

// Config holds the settings that every daemon has. It is embedded in the section of
// each, [portcullis.<daemon>], since daemons on one host need different addresses.
type Config struct {
	// HTTPAddress is "host:port" of the admin listener. The host is an IP address or
	// localhost; empty listens on every address. Port 0 takes any free port. There is
	// no authentication behind it: what it serves is for the node and the cluster's
	// monitoring. In a Pod, set the port alone so that the kubelet's probes arrive.
	HTTPAddress string `toml:"http_address"`
	// Pprof serves profiles below /debug/pprof/, to callers from a loopback address
	// only; kubectl port-forward is one.
	Pprof bool `toml:"pprof"`
	// ShutdownGrace is how long a stop may take before it is forced, 1s to 10m. The
	// orchestrator must wait at least 3 seconds longer before it kills.
	ShutdownGrace driverconf.Duration `toml:"shutdown_grace"`
	// WaitAtStart is for an orchestrator that starts a process again and again: a
	// daemon whose files are missing or wrong, or whose other addresses are taken,
	// stays, not ready and with the reason in /readyz and the log, and tries until
	// its parts can be made. Without it the process ends, which is what a person at a
	// terminal wants. For settings that do not validate there is --waiting-address.
	WaitAtStart bool `toml:"wait_at_start"`
}

// DefaultConfig listens on 127.0.0.1:9464, the port that Prometheus exporters of
// OpenTelemetry have by convention, without profiles, and stops within 20 seconds,
// which fits the 30 that Kubernetes grants a Pod.
func DefaultConfig() Config {
	return Config{
		HTTPAddress:   "127.0.0.1:9464",
		ShutdownGrace: driverconf.Duration(20 * time.Second),
	}
}

// Validate reports every problem with its key.
func (c Config) Validate(report func(key, problem string)) {
	if err := checkAddress(c.HTTPAddress); err != nil {
		report("http_address", err.Error())
	}
	if g := c.ShutdownGrace.Std(); g < minGrace || g > maxGrace {
		report("shutdown_grace", fmt.Sprintf("%s is outside %s to %s", g, minGrace, maxGrace))
	}
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port, such as 127.0.0.1:9464 or :9464", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port number of 0 to 65535", address)
	}
	if host == "" || host == "localhost" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("%q has a host that is neither an IP address nor localhost", address)
	}
	return nil
}

// Listen binds the TCP address of an admin or gRPC listener. Wiring calls it before
// it starts anything, so that a taken port ends the start and not a running daemon.
// The listener belongs to whatever serves it.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose a free address of this host", address, err)
	}
	return listener, nil
}
