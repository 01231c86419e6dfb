package request_test

import (
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const id = "4b67c0d0-1111-2222-3333-444444444444"

// hidden stands in every value that no message may show.
const hidden = "hush-hush"

// world is a request and the settings it is read by. The base is valid, and each case changes one thing.
type world struct {
	settings driverconf.Kubernetes
	sandbox  *computev1.DriverSandbox
}

func base(t testing.TB) *world {
	t.Helper()
	w := &world{settings: stock(t)}
	w.settings.Namespace = "sandboxes"
	w.settings.AllowDriverConfig = true
	w.settings.AllowedExtendedResources = []string{"example.com/fpga"}
	w.settings.DefaultImage = "registry.example/base:1"
	w.sandbox = &computev1.DriverSandbox{
		Id: id, Name: "demo", Workspace: "team-a",
		Status: &computev1.DriverSandboxStatus{Deleting: true}, // sent even on create (contract 2.5)
		Spec: &computev1.DriverSandboxSpec{
			LogLevel: "info", Command: []string{"/bin/run", hidden}, Environment: map[string]string{"TOKEN": hidden},
			Policy: []byte("opaque"), SandboxToken: hidden, LaunchAuthentication: []byte(hidden),
			WorkloadIdentity: &computev1.WorkloadIdentityRequest{User: "sandbox"},
			Template: &computev1.DriverSandboxTemplate{
				Image: "registry.example/agent:1", Labels: map[string]string{"app": "demo"},
				Environment:  map[string]string{"GREETING": hidden, "TOKEN": "older"},
				Resources:    &computev1.DriverResourceRequirements{CpuLimit: "2", MemoryLimit: "4Gi", CpuRequest: "500m"},
				DriverConfig: object(callerConfig()), PlatformConfig: object(platformConfig()),
			},
		},
	}
	return w
}

// loaded are the settings without a file, read once: fuzzing asks often.
var loaded = sync.OnceValues(func() (*driverconf.Config, error) { return driverconf.Load(driverconf.Source{}) })

func stock(t testing.TB) driverconf.Kubernetes {
	t.Helper()
	c, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return c.Kubernetes
}

func callerConfig() map[string]any {
	return map[string]any{
		"pod": map[string]any{
			"node_selector": map[string]any{"disk": "ssd", "zone": "caller"}, "runtime_class_name": "kata", "priority_class_name": "high",
			"tolerations": []any{map[string]any{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60.0}},
		},
		"containers": map[string]any{"agent": map[string]any{
			"resources": map[string]any{"requests": map[string]any{"cpu": "1", "ephemeral-storage": "1Gi"}, "limits": map[string]any{"ephemeral-storage": "2Gi", "example.com/fpga": 1.0}},
			"volume_mounts": []any{
				map[string]any{"name": "data", "mount_path": "/data"},
				map[string]any{"name": "scratch", "mount_path": "/sandbox/scratch", "sub_path": "a/b", "read_only": false},
			},
		}},
		"volumes": []any{
			map[string]any{"name": "data", "persistent_volume_claim": map[string]any{"claim_name": "datasets"}},
			map[string]any{"name": "scratch", "persistent_volume_claim": map[string]any{"claim_name": "scratch.1", "read_only": false}},
		},
	}
}

func platformConfig() map[string]any {
	return map[string]any{
		"annotations": map[string]any{"team": "a"}, "node_selector": map[string]any{"zone": "platform"},
		"tolerations":        []any{map[string]any{"key": "spot", "value": "true", "effect": "NoSchedule"}},
		"resources_raw":      map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}},
		"something_of_later": true,
	}
}

func object(members map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(members)
	if err != nil {
		panic(err)
	}
	return s
}

func (w *world) spec() *computev1.DriverSandboxSpec         { return w.sandbox.Spec }
func (w *world) template() *computev1.DriverSandboxTemplate { return w.sandbox.Spec.Template }

// in changes the caller's configuration; the path ends at the member to set.
func (w *world) in(value any, path ...string) { set(w.template().DriverConfig, value, path...) }

// on changes the platform's.
func (w *world) on(value any, path ...string) { set(w.template().PlatformConfig, value, path...) }

func set(s *structpb.Struct, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		s = s.Fields[name].GetStructValue()
	}
	v, err := structpb.NewValue(value)
	if err != nil {
		panic(err)
	}
	s.Fields[path[len(path)-1]] = v
}

func (w *world) reader(t testing.TB) *request.Reader {
	t.Helper()
	r, err := request.New(&w.settings)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) create(t testing.TB) (request.Sandbox, verdict.Decision) {
	t.Helper()
	return w.reader(t).Create(w.sandbox)
}
