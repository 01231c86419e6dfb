// Package settings reads what a gateway needs from the stock settings file: of the table [openshell.drivers.<name>] the socket,
// the admission policy and the gateway's id (contract 2.1, 2.4).
//
// The policy is read and judged by shared/driverconf, as the driver's side reads it, so that one file means the same on both.
// Everything else in the file is the driver's business and not looked at.
//
// Callers: cmd/gateway and the demo.
package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Driver is the gateway's part of a driver's table.
type Driver struct {
	// Name is the configured one (contract 2.1).
	Name string
	// Socket is empty when the table has none.
	Socket string
	// GatewayID is never empty.
	GatewayID string
	Policy    driverconf.AdmissionPolicy
}

// ours reports whether a gateway reads the key.
func ours(key string) bool {
	return slices.Contains([]string{"socket_path", "gateway_id", "allow_driver_config", "resource_admission"}, key)
}

// Load reads a file.
func Load(path, name string) (Driver, error) {
	f, err := os.Open(path)
	if err != nil {
		return Driver{}, fmt.Errorf("read the settings: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, driverconf.MaxFileBytes+1))
	if err != nil {
		return Driver{}, fmt.Errorf("read the settings %s: %w", path, err)
	}
	if len(text) > driverconf.MaxFileBytes {
		return Driver{}, fmt.Errorf("read the settings %s: longer than %d bytes", path, driverconf.MaxFileBytes)
	}
	d, err := Parse(text, name)
	if err != nil {
		return Driver{}, fmt.Errorf("settings %s: %w", path, err)
	}
	return d, nil
}

// Parse reads the text of a file. A driver without a table has the defaults and no socket.
func Parse(text []byte, name string) (Driver, error) {
	if name == "" {
		return Driver{}, errors.New("driver name: empty")
	}
	var file struct {
		OpenShell struct {
			Drivers map[string]map[string]any `toml:"drivers"`
		} `toml:"openshell"`
	}
	if err := toml.Unmarshal(text, &file); err != nil {
		return Driver{}, fmt.Errorf("not readable as TOML: %w", err)
	}
	table := maps.Clone(file.OpenShell.Drivers[name])
	maps.DeleteFunc(table, func(key string, _ any) bool { return !ours(key) })
	stock, err := toml.Marshal(map[string]any{"openshell": map[string]any{"drivers": map[string]any{"kubernetes": table}}})
	if err != nil {
		return Driver{}, fmt.Errorf("openshell.drivers.%s: %w", name, err)
	}
	loaded, err := driverconf.Load(driverconf.Source{Path: "openshell.drivers." + name, Bytes: stock})
	if err != nil {
		return Driver{}, err
	}
	k := loaded.Kubernetes
	return Driver{Name: name, Socket: k.SocketPath, GatewayID: k.GatewayID, Policy: k.AdmissionPolicy()}, nil
}
