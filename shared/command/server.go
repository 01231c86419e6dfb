package command

import (
	"net"
	"strconv"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
)

// ServerConfig is the section of a daemon that serves the mesh.
type ServerConfig struct {
	daemon.Config
	// ListenAddress is "host:port" of the mesh's gRPC server; an empty host listens on every address.
	// Without certificates it must be a loopback address.
	ListenAddress string `toml:"listen_address"`
}

// Validate reports every problem with its key.
func (c *ServerConfig) Validate(report func(key, problem string)) {
	c.Config.Validate(report)
	_, port, err := net.SplitHostPort(c.ListenAddress)
	if err != nil {
		report("listen_address", strconv.Quote(c.ListenAddress)+" is not host:port")
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		report("listen_address", "the port of "+strconv.Quote(c.ListenAddress)+" is not 0 to 65535")
	}
}
