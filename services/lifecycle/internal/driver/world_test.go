package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/capabilities"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	id         = "4b67c0d0-1111-2222-3333-444444444444"
	namespace  = "team"
	uid        = "uid-1"
	supervisor = "uid-2"
	identity   = "kubernetes://team/uid-1/uid-2"
	hidden     = "hush-hush-bundle"
)

// world stands in for everything around the driver, and notes what was done, in order. A fault makes the step of that name fail.
// The base is a gateway in operator mode in whose cluster everything goes well.
type world struct {
	mu     sync.Mutex
	done   []string
	faults map[string]error
	// before runs at the step of that name, before it is done.
	before map[string]func()
	// takes is how long the step of that name takes, unless its context ends first.
	takes map[string]time.Duration

	settings *driverconf.Kubernetes
	objects  []sandboxapi.Object
	provided *supervisorv1.ProvisionRequest
	released []string          // which runs were to be ended, as named has it
	recorded *supervisorv1.Run // the run of the Sandbox, as supervisorctl tells it
	made     *unstructured.Unstructured
	looks    map[string]inventory.Look
	left     []cluster.Leftover
	log      io.Writer
	offers   bool
	identity *supervisorv1.RuntimeIdentity
	// suspended is what the view says of the sandbox; behind is how often it is asked before it says so.
	suspended bool
	behind    int
	// stale is why the view is not current.
	stale error
}

var loaded = sync.OnceValues(func() (*driverconf.Config, error) { return driverconf.Load(driverconf.Source{}) })

func base(t *testing.T) *world {
	t.Helper()
	c, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	k := c.Kubernetes
	k.WorkspaceMode, k.OperatorNamespaceLabel = driverconf.ModeOperator, new("sandboxes=allowed")
	k.SandboxRuntimeImage, k.AllowDriverConfig = "registry.example/runtime:1", true
	return &world{
		settings: &k, faults: map[string]error{}, before: map[string]func(){}, looks: map[string]inventory.Look{}, offers: true, log: io.Discard,
		identity: &supervisorv1.RuntimeIdentity{Namespace: namespace, SandboxUid: uid, SupervisorUid: supervisor, WorkloadUid: "uid-3"},
	}
}

func (w *world) driver(t *testing.T) *driver.Driver {
	t.Helper()
	d, _ := w.raise(t)
	return d
}

func (w *world) raise(t *testing.T) (*driver.Driver, *prometheus.Registry) {
	t.Helper()
	own := driver.DefaultSettings()
	own.ReapInterval = driverconf.Duration(time.Second)
	deps := driver.Deps{Workspaces: workspaceSide{w}, View: w, Finder: w, Cluster: w, Companions: companions{w}, Bearers: bearers{w}}
	var problems [5]error
	deps.Capabilities, problems[0] = capabilities.New(w.settings, capabilities.Options{Version: "test"})
	deps.Requests, problems[1] = request.New(w.settings)
	deps.Templates, problems[2] = template.New(w.settings, template.Options{})
	deps.Inventory, problems[3] = inventory.New(w.settings)
	registry := prometheus.NewRegistry()
	var d *driver.Driver
	if problems[4] = errors.Join(problems[:4]...); problems[4] == nil {
		d, problems[4] = driver.New(own, w.settings, deps, zerolog.New(w.log), registry)
	}
	if problems[4] != nil {
		t.Fatal(problems[4])
	}
	return d, registry
}

// step notes that something is done, and says whether it fails.
func (w *world) step(ctx context.Context, name string) error {
	if before := w.before[name]; before != nil {
		before()
	}
	if takes := w.takes[name]; takes > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(takes):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, name)
	if err := w.faults[name]; err != nil {
		return err
	}
	return ctx.Err()
}

func (w *world) steps() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.done...)
}

func refusal(reason verdict.Reason) error {
	return &workspaces.Refusal{Decision: verdict.Refuse(reason, "test", "as the test says")}
}

func (w *world) place() workspaces.Place { return workspaces.Place{Namespace: namespace, UID: "ns-1"} }

// Ensure and the next three are the namespaces.
func (w *world) Ensure(ctx context.Context, _ string) (workspaces.Place, error) {
	return w.place(), w.step(ctx, "ensure")
}

func (w *world) Enter(ctx context.Context, _ string) (workspaces.Place, error) {
	return w.place(), w.step(ctx, "enter")
}

// Delete is the cluster's; workspaceSide has the other one.
func (w *world) Delete(ctx context.Context, _ sandboxapi.Version, _, _ string, uid types.UID) (bool, error) {
	if err := w.step(ctx, "delete "+string(uid)); err != nil {
		return false, err
	}
	return w.remove(uid), nil
}

// remove reports whether it was there.
func (w *world) remove(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.objects)
	w.objects = slices.DeleteFunc(slices.Clone(w.objects), func(o sandboxapi.Object) bool { return o.UID == string(uid) })
	return len(w.objects) < before
}

func (w *world) Still(workspaces.Place) error { return w.step(context.Background(), "still") }

// Get and the next two are the view.
// Check is of the View.
func (w *world) Check(context.Context) error { return w.stale }

func (w *world) Get(ctx context.Context, _ string) (*computev1.DriverSandbox, error) {
	if err := w.step(ctx, "get"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	is := w.suspended
	if w.behind > 0 {
		w.behind--
		is = !is
	}
	told := &computev1.DriverSandbox{Id: id, Status: &computev1.DriverSandboxStatus{}}
	if is {
		told.Status.Conditions = []*computev1.DriverCondition{{Type: "Suspended", Status: "True"}}
	}
	return told, nil
}

func (w *world) suspend(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.suspended = is
}

func (w *world) List() ([]*computev1.DriverSandbox, error) {
	return []*computev1.DriverSandbox{{Id: id}}, w.step(context.Background(), "list")
}

func (w *world) Watch(ctx context.Context, _ func(*computev1.WatchSandboxesEvent) error) error {
	return w.step(ctx, "watch")
}

// Find is a consistent read. It leaves out what is not in its place, as *observe.Kube does; of what has no mode it can read no more than
// the metadata.
func (w *world) Find(ctx context.Context, sandboxID string) ([]sandboxapi.Object, error) {
	if err := w.step(ctx, "find"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []sandboxapi.Object
	var problem error
	for _, o := range w.objects {
		if o.Labels[workspace.LabelSandboxID] != sandboxID || snapshot.Placed(o.Namespace, o.Labels, o.Annotations, workspace.SchemeOf(w.settings)) != nil {
			continue
		}
		if o.Mode == 0 {
			problem = observe.ErrUnreadable
		}
		found = append(found, o)
	}
	return found, problem
}

// Create and those that follow are the cluster.
func (w *world) Create(ctx context.Context, render func(sandboxapi.Version) (*unstructured.Unstructured, error)) (cluster.Made, error) {
	object, err := render(sandboxapi.V1beta1)
	if err == nil {
		err = w.step(ctx, "create")
	}
	if err != nil {
		return cluster.Made{}, err
	}
	made, err := sandboxapi.ObjectFrom(withUID(object))
	if err != nil {
		return cluster.Made{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made, w.objects = object, append(w.objects, made)
	return cluster.Made{Namespace: object.GetNamespace(), Name: object.GetName(), UID: uid, Version: sandboxapi.V1beta1}, nil
}

func withUID(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	u.SetUID(uid)
	u.SetResourceVersion("1")
	u.SetGeneration(1)
	return u
}

func (w *world) Answered(ctx context.Context, _ cluster.Made) error { return w.step(ctx, "answered") }

func (w *world) Abandoned(ctx context.Context, _ time.Duration) ([]cluster.Made, error) {
	if err := w.step(ctx, "abandoned"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []cluster.Made
	for i := range w.objects {
		found = append(found, cluster.Made{Namespace: namespace, Name: w.objects[i].Name, UID: types.UID(w.objects[i].UID), Version: sandboxapi.V1beta1})
	}
	return found, nil
}

func (w *world) Reap(ctx context.Context, found cluster.Made) error {
	if err := w.step(ctx, "reap "+string(found.UID)); err != nil {
		return err
	}
	w.remove(found.UID)
	return nil
}

func (w *world) PodGone(ctx context.Context, _, _ string, _ types.UID, _ time.Duration) bool {
	return w.step(ctx, "pod gone") == nil
}

func (w *world) Leftovers(ctx context.Context, _, _ string) ([]cluster.Leftover, error) {
	return w.left, w.step(ctx, "leftovers")
}

func (w *world) Look(ctx context.Context, a inventory.Attachment) inventory.Look {
	if err := w.step(ctx, "look "+a.String()); err != nil {
		return inventory.Failed(err)
	}
	return w.looks[a.String()]
}

func (w *world) OffersGPU(ctx context.Context) (bool, error) { return w.offers, w.step(ctx, "gpu") }

func (w *world) NamespaceAnnotations(ctx context.Context, _ string) (map[string]string, error) {
	return nil, w.step(ctx, "namespace")
}

// workspaceSide tells the two methods apart that have one name.
type workspaceSide struct{ *world }

func (w workspaceSide) Delete(ctx context.Context, _ string) error {
	return w.step(ctx, "delete workspace")
}

// call is a step in another daemon, whose errors are those of gRPC.
func (w *world) call(ctx context.Context, name string) error {
	err := w.step(ctx, name)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return err
}

// companions are supervisorctl.
type companions struct{ *world }

func (c companions) Provision(ctx context.Context, in *supervisorv1.ProvisionRequest, _ ...grpc.CallOption) (*supervisorv1.ProvisionResponse, error) {
	c.provided = in
	return &supervisorv1.ProvisionResponse{Identity: c.identity}, c.call(ctx, "provision")
}

func (c companions) Restart(ctx context.Context, in *supervisorv1.RestartRequest, _ ...grpc.CallOption) (*supervisorv1.RestartResponse, error) {
	c.suspend(false)
	return &supervisorv1.RestartResponse{Identity: c.identity, Status: &supervisorv1.CompanionStatus{Run: c.recorded}}, c.call(ctx, "restart "+in.GetRun().GetGenerationId())
}

func (c companions) Release(ctx context.Context, in *supervisorv1.ReleaseRequest, _ ...grpc.CallOption) (*supervisorv1.ReleaseResponse, error) {
	c.suspend(true)
	c.released = append(c.released, named(in.GetRun()))
	return &supervisorv1.ReleaseResponse{}, c.call(ctx, "release "+in.GetSandbox().GetUid())
}

// named is a run's name for the eye.
func named(run *supervisorv1.Run) string {
	return fmt.Sprintf("%s of session %q, epoch %d", run.GetGenerationId(), run.GetSessionId(), run.GetAuthEpoch())
}

func (c companions) Remove(ctx context.Context, in *supervisorv1.RemoveRequest, _ ...grpc.CallOption) (*supervisorv1.RemoveResponse, error) {
	return &supervisorv1.RemoveResponse{}, c.call(ctx, fmt.Sprintf("remove %s/%s %s", in.GetSandbox().GetNamespace(), in.GetSandbox().GetName(), in.GetSandbox().GetUid()))
}

func (c companions) Status(ctx context.Context, _ *supervisorv1.StatusRequest, _ ...grpc.CallOption) (*supervisorv1.StatusResponse, error) {
	return &supervisorv1.StatusResponse{}, c.step(ctx, "status")
}

// bearers are tokenauth.
type bearers struct{ *world }

func (b bearers) Authenticate(ctx context.Context, _ *tokenauthv1.AuthenticateRequest, _ ...grpc.CallOption) (*tokenauthv1.AuthenticateResponse, error) {
	return &tokenauthv1.AuthenticateResponse{SandboxId: id, RuntimeIdentity: identity}, b.call(ctx, "authenticate")
}

func wish() *computev1.DriverSandbox {
	return &computev1.DriverSandbox{
		Id: id, Name: "box", Workspace: namespace,
		Spec: &computev1.DriverSandboxSpec{
			LaunchAuthentication: []byte(hidden),
			Template:             &computev1.DriverSandboxTemplate{Image: "registry.example/agent:1"},
		},
	}
}

// attaching is a wish with a claim of the workspace.
func attaching(t *testing.T) *computev1.DriverSandbox {
	t.Helper()
	in := wish()
	config, err := structpb.NewStruct(map[string]any{
		"volumes": []any{map[string]any{"name": "data", "persistent_volume_claim": map[string]any{"claim_name": "datasets"}}},
		"containers": map[string]any{"agent": map[string]any{
			"volume_mounts": []any{map[string]any{"name": "data", "mount_path": "/data"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	in.Spec.Template.DriverConfig = config
	return in
}

// claim is the claim as it may be attached.
func claim(uid types.UID) inventory.Look {
	return inventory.Found(&metav1.ObjectMeta{Name: "datasets", Namespace: namespace, UID: uid, Labels: map[string]string{
		"openshell.ai/sandbox-attachable": "true", "openshell.ai/sandbox-attachable-workspace": namespace,
	}})
}

const attached = "PersistentVolumeClaim/" + namespace + "/datasets"

var errAPI = errors.New("the API server is away")
