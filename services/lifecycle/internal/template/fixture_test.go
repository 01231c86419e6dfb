package template_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/identity"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

const id = "4b67c0d0-1111-2222-3333-444444444444"

// world is everything that a Sandbox is rendered from. The base is valid, and each case changes one thing.
type world struct {
	settings driverconf.Kubernetes
	options  template.Options
	sandbox  *computev1.DriverSandbox
	run      template.Run
}

// loaded are the settings without a file.
var loaded = sync.OnceValues(func() (*driverconf.Config, error) { return driverconf.Load(driverconf.Source{}) })

func base(t testing.TB) *world {
	t.Helper()
	c, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{settings: c.Kubernetes}
	w.settings.Namespace = "sandboxes"
	w.settings.ServiceAccountName = "sandbox"
	w.settings.SandboxRuntimeImage = "registry.example/runtime:1"
	w.settings.AllowDriverConfig = true
	w.sandbox = &computev1.DriverSandbox{
		Id: id, Name: "demo", Workspace: "team-a",
		Spec: &computev1.DriverSandboxSpec{
			LogLevel: "info", Command: []string{"/bin/run", "--all"}, LaunchAuthentication: []byte("{}"),
			Environment: map[string]string{"GREETING": "hello"},
			Template:    &computev1.DriverSandboxTemplate{Image: "registry.example/agent:1"},
		},
	}
	w.run = template.Run{
		Identity: identity.Identity{User: 10001, Group: 10002}, Generation: strings.Repeat("0123456789abcdef", 4),
		Version: sandboxapi.V1beta1, StartedAt: time.UnixMilli(1700000000123), Attachments: "{}",
	}
	return w
}

func (w *world) spec() *computev1.DriverSandboxSpec         { return w.sandbox.Spec }
func (w *world) template() *computev1.DriverSandboxTemplate { return w.sandbox.Spec.Template }

func (w *world) caller(members map[string]any)   { w.template().DriverConfig = object(members) }
func (w *world) platform(members map[string]any) { w.template().PlatformConfig = object(members) }

func object(members map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(members)
	if err != nil {
		panic(err)
	}
	return s
}

func volume(name, claim string, readOnly bool) map[string]any {
	return map[string]any{"name": name, "persistent_volume_claim": map[string]any{"claim_name": claim, "read_only": readOnly}}
}

func mounts(list ...any) map[string]any {
	return map[string]any{"agent": map[string]any{"volume_mounts": list}}
}

func (w *world) renderer(t testing.TB) *template.Renderer {
	t.Helper()
	r, err := template.New(&w.settings, w.options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) request(t testing.TB) request.Sandbox {
	t.Helper()
	reader, err := request.New(&w.settings)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, d := reader.Create(w.sandbox)
	if !d.Granted() {
		t.Fatal(d.Explain())
	}
	return sandbox
}
