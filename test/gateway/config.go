package gateway

import (
	"errors"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// Config is what a gateway is made of.
type Config struct {
	// Socket is the driver's, the key socket_path of its table (contract 2.1).
	Socket string
	// DriverName is the configured name, by which driver_config is chosen and runs are bound (contract 2.1). Default kubernetes.
	DriverName string
	// Prefix of the driver's service (contract 0.2). Default contract.OpenShell.
	Prefix contract.Prefix
	// Policy is the gateway's admission policy; the driver's must equal it (contract 2.4).
	Policy driverconf.AdmissionPolicy
	// GatewayID is in the tokens' issuer. Default openshell.
	GatewayID string
	// Version is what the driver is told. Default reference.
	Version string
	// Standby is for a gateway whose records another one uses too, which holds the lease: this one serves calls, and neither watches, sweeps,
	// minds deadlines nor finishes what a former process left (contract 2.8). Its events are of its own writes alone.
	Standby bool

	// Timing defaults to DefaultTiming, Clock to the system's.
	Timing Timing
	Clock  clock.Clock
	Log    zerolog.Logger
	// DriverOptions are added to those of the connection to the driver.
	DriverOptions []grpc.DialOption
}

// Timing is every timer of contract 2.12. A field that is not positive gets its default.
type Timing struct {
	ConnectRetry    time.Duration // between two tries to reach the driver
	ConnectDeadline time.Duration // until Run gives up to reach the driver and to shake hands
	Recovery        time.Duration // of the GetSandbox behind a failed call
	WatchReopen     time.Duration // after a watch ended
	Sweep           time.Duration // between two sweeps
	OrphanGrace     time.Duration // age from which a row may be pruned
	Provisioning    time.Duration // window of a create or start
	Tick            time.Duration // between two looks at the windows
	ReclaimTimeout  time.Duration // of the StopSandbox behind a missed window
	ReclaimRetry    time.Duration // between two of them
}

// DefaultTiming returns the values of contract 2.12.
func DefaultTiming() Timing {
	return Timing{
		ConnectRetry: 250 * time.Millisecond, ConnectDeadline: 30 * time.Second, Recovery: 10 * time.Second, WatchReopen: 2 * time.Second,
		Sweep: time.Minute, OrphanGrace: 5 * time.Minute, Provisioning: 5 * time.Minute, Tick: time.Second,
		ReclaimTimeout: 30 * time.Second, ReclaimRetry: 5 * time.Second,
	}
}

func (t *Timing) complete() {
	d := DefaultTiming()
	for _, field := range []struct{ value, fallback *time.Duration }{
		{&t.ConnectRetry, &d.ConnectRetry},
		{&t.ConnectDeadline, &d.ConnectDeadline},
		{&t.Recovery, &d.Recovery},
		{&t.WatchReopen, &d.WatchReopen},
		{&t.Sweep, &d.Sweep},
		{&t.OrphanGrace, &d.OrphanGrace},
		{&t.Provisioning, &d.Provisioning},
		{&t.Tick, &d.Tick},
		{&t.ReclaimTimeout, &d.ReclaimTimeout},
		{&t.ReclaimRetry, &d.ReclaimRetry},
	} {
		if *field.value <= 0 {
			*field.value = *field.fallback
		}
	}
}

// Records is where the gateway keeps what must outlive it; *record.Store is one.
type Records interface {
	Create(row record.Row, finish func(*record.Row)) (record.Row, error)
	Swap(row record.Row) (record.Row, error)
	Remove(id string, version uint64) error
	Get(id string) (record.Row, error)
	Find(workspace, name string) (record.Row, error)
	List() ([]record.Row, error)
	PutWorkspace(w record.Workspace) error
	RemoveWorkspace(name string) error
	Workspaces() ([]record.Workspace, error)
	Ring() ([]byte, error)
	PutRing(b []byte) error
}

var _ Records = (*record.Store)(nil)

func (c *Config) complete() error {
	if c.Socket == "" {
		return errors.New("gateway: socket_path: not set: it is where the driver listens")
	}
	if c.DriverName == "" {
		c.DriverName = "kubernetes"
	}
	if c.GatewayID == "" {
		c.GatewayID = "openshell"
	}
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	c.Timing.complete()
	return nil
}
