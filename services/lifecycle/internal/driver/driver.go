package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/capabilities"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Workspaces finds and makes the namespaces of workspaces; *workspaces.Keeper is one.
type Workspaces interface {
	Ensure(ctx context.Context, workspace string) (workspaces.Place, error)
	Delete(ctx context.Context, workspace string) error
	Enter(ctx context.Context, namespace string) (workspaces.Place, error)
	Still(place workspaces.Place) error
}

// View is what is known of the cluster's sandboxes; *observe.Observer is one.
type View interface {
	Get(ctx context.Context, id string) (*computev1.DriverSandbox, error)
	List() ([]*computev1.DriverSandbox, error)
	Watch(ctx context.Context, send func(*computev1.WatchSandboxesEvent) error) error
	// Check says why the view is not the cluster's present state; nil when it is.
	Check(ctx context.Context) error
}

// Finder finds the Sandbox objects with an id, from a consistent read, and none that only bears its labels elsewhere; *observe.Kube is one.
type Finder interface {
	Find(ctx context.Context, sandboxID string) ([]sandboxapi.Object, error)
}

// Cluster is where Sandbox objects are made and deleted; *cluster.Cluster is one.
type Cluster interface {
	Create(ctx context.Context, render func(sandboxapi.Version) (*unstructured.Unstructured, error)) (cluster.Made, error)
	Delete(ctx context.Context, version sandboxapi.Version, namespace, name string, uid types.UID) (bool, error)
	Answered(ctx context.Context, made cluster.Made) error
	Abandoned(ctx context.Context, age time.Duration) ([]cluster.Made, error)
	Reap(ctx context.Context, found cluster.Made) error
	PodGone(ctx context.Context, namespace, name string, owner types.UID, limit time.Duration) bool
	Leftovers(ctx context.Context, gatewayID, sandboxID string) ([]cluster.Leftover, error)
	Look(ctx context.Context, a inventory.Attachment) inventory.Look
	OffersGPU(ctx context.Context) (bool, error)
	NamespaceAnnotations(ctx context.Context, name string) (map[string]string, error)
}

// Deps are the parts that a Driver works with. All are required.
type Deps struct {
	Capabilities *capabilities.Driver
	Requests     *request.Reader
	Templates    *template.Renderer
	Inventory    *inventory.Policy
	Workspaces   Workspaces
	View         View
	Finder       Finder
	Cluster      Cluster
	Companions   supervisorv1.SupervisorServiceClient
	Bearers      tokenauthv1.TokenAuthServiceClient
}

// Driver is the server of the contract's calls. Make it with New.
type Driver struct {
	computev1.UnimplementedComputeDriverServer

	settings   Settings
	kubernetes *driverconf.Kubernetes
	deps       Deps
	gates      *gates
	debts      *debts
	log        zerolog.Logger
	metrics    *metrics
	now        func() time.Time
}

var _ computev1.ComputeDriverServer = (*Driver)(nil)

// New makes a Driver and registers the metrics portcullis_lifecycle_refusals_total, _step_seconds and _abandoned_total. It starts
// nothing. The stock settings are copied.
func New(settings Settings, kubernetes *driverconf.Kubernetes, deps Deps, log zerolog.Logger, reg prometheus.Registerer) (*Driver, error) {
	var problems []error
	settings.Validate(func(key, problem string) {
		problems = append(problems, fmt.Errorf("portcullis.lifecycle.%s %s", key, problem))
	})
	for name, missing := range map[string]bool{
		"capabilities": deps.Capabilities == nil, "requests": deps.Requests == nil, "templates": deps.Templates == nil, "inventory": deps.Inventory == nil,
		"workspaces": deps.Workspaces == nil, "view": deps.View == nil, "finder": deps.Finder == nil, "cluster": deps.Cluster == nil,
		"companions": deps.Companions == nil, "bearers": deps.Bearers == nil,
	} {
		if missing {
			problems = append(problems, fmt.Errorf("driver: %s was not given", name))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	own := *kubernetes
	return &Driver{settings: settings, kubernetes: &own, deps: deps, gates: newGates(), debts: newDebts(), log: log, metrics: m, now: time.Now}, nil
}

// Run deletes what failed and abandoned creates left behind, until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	tick := time.NewTicker(d.settings.ReapInterval.Std())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.reap(ctx)
		}
	}
}
