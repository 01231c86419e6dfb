package template_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

var update = flag.Bool("update", false, "write the golden objects anew; the other daemons and the controller read what is in them")

var goldenCases = []struct {
	name   string
	change func(*world)
}{
	{"shared", func(*world) {}},
	{"managed", func(w *world) { w.settings.WorkspaceMode = driverconf.ModeManaged }},
	{"operator", func(w *world) {
		w.settings.WorkspaceMode, w.settings.OperatorNamespaceLabel = driverconf.ModeOperator, new("team=true")
	}},
	{"v1alpha1", func(w *world) { w.run.Version = sandboxapi.V1alpha1 }},
	{"least", func(w *world) {
		w.sandbox.Spec = &computev1.DriverSandboxSpec{LaunchAuthentication: []byte("{}")}
		w.settings.DefaultImage = "registry.example/base:1"
		w.run.Attachments = ""
	}},
	{"shared-pull-secrets", func(w *world) { w.settings.ImagePullSecrets = []string{"registry-a", "registry-b"} }},
	{"managed-pull-secrets", func(w *world) {
		w.settings.WorkspaceMode = driverconf.ModeManaged
		w.settings.ImagePullSecrets = []string{"registry-a", "registry-b"}
	}},
	{"pull-policies", func(w *world) {
		w.settings.ImagePullPolicy, w.settings.SandboxRuntimeImagePullPolicy = driverconf.PullAlways, driverconf.PullIfNotPresent
	}},
	{"user-namespace", func(w *world) { w.settings.EnableUserNamespaces = true }},
	{"user-namespace-declined", func(w *world) {
		w.settings.EnableUserNamespaces = true
		w.template().UserNamespaces = new(false)
	}},
	{"runtime-class-default", func(w *world) { w.settings.DefaultRuntimeClassName = "runc" }},
	{"runtime-class-of-the-caller", func(w *world) {
		w.settings.DefaultRuntimeClassName = "runc"
		w.caller(map[string]any{"pod": map[string]any{"runtime_class_name": "kata"}})
	}},
	{"runtime-class-of-the-platform", func(w *world) {
		w.settings.DefaultRuntimeClassName = "runc"
		w.caller(map[string]any{"pod": map[string]any{"runtime_class_name": "kata"}})
		w.platform(map[string]any{"runtime_class_name": "gvisor"})
	}},
	{"host-gateway", func(w *world) { w.settings.HostGatewayIP = "2001:db8::1" }},
	{"gpu", func(w *world) {
		w.spec().ResourceRequirements = &computev1.ResourceRequirements{Gpu: &computev1.GpuResourceRequirements{Count: new(uint32(2))}}
		w.template().Resources = &computev1.DriverResourceRequirements{CpuLimit: "2", MemoryRequest: "1Gi", MemoryLimit: "4Gi"}
	}},
	{"volume", func(w *world) {
		w.caller(map[string]any{
			"volumes":    []any{volume("data", "datasets", true)},
			"containers": mounts(map[string]any{"name": "data", "mount_path": "/data"}),
		})
		w.run.Attachments = `{"PersistentVolumeClaim/sandboxes/datasets":"uid-of-the-claim"}`
	}},
	{"volume-below-the-workspace", func(w *world) {
		w.caller(map[string]any{
			"volumes":    []any{volume("data", "datasets", false)},
			"containers": mounts(map[string]any{"name": "data", "mount_path": "/sandbox/data", "sub_path": "a", "read_only": false}),
		})
	}},
	{"storage", func(w *world) {
		w.settings.WorkspaceStorageClass, w.settings.WorkspaceDefaultStorageSize = "fast", "10240Mi"
	}},
	{"telemetry-trace-openshift", func(w *world) {
		w.options.Telemetry = true
		w.run.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		w.run.NamespaceAnnotations = map[string]string{
			"openshift.io/sa.scc.uid-range": "1000680000/10000", "openshift.io/sa.scc.supplemental-groups": "1000690000/10000", "other": "left out",
		}
	}},
	{"awaiting-attachment", func(w *world) { w.spec().AwaitMainProcessAttachment, w.spec().Tty = true, true }},
	{"names-at-the-limit", func(w *world) {
		w.sandbox.Id = "ABCDEFAB-CDEF-ABCD-EFAB-CDEFABCDEFAB"
		w.sandbox.Workspace, w.sandbox.Name = strings.Repeat("w", 19), strings.Repeat("n", 42)
		w.settings.GatewayID = strings.Repeat("g", 63)
		w.run.Identity.User, w.run.Identity.Group = 2147483647, 1
		w.settings.SandboxRuntime.BoundaryPort = 65535
	}},
	{"everything", everything},
}

// everything is each option at once.
func everything(w *world) {
	w.options.Telemetry = true
	w.settings.ImagePullSecrets = []string{"registry-a"}
	w.settings.ImagePullPolicy, w.settings.SandboxRuntimeImagePullPolicy = driverconf.PullAlways, driverconf.PullNever
	w.settings.EnableUserNamespaces = true
	w.settings.HostGatewayIP = "192.0.2.1"
	w.settings.WorkspaceStorageClass = "fast"
	w.settings.AllowedExtendedResources = []string{"example.com/fpga"}
	w.settings.SandboxRuntime.BoundaryPort = 6000
	w.template().Labels = map[string]string{"app": "demo"}
	w.template().Environment = map[string]string{"GREETING": "older", "DOLLARS": "$(GREETING) $$HOME", "EMPTY": ""}
	w.template().Resources = &computev1.DriverResourceRequirements{CpuLimit: "2", CpuRequest: "500m", MemoryLimit: "4Gi"}
	w.spec().ResourceRequirements = &computev1.ResourceRequirements{Gpu: &computev1.GpuResourceRequirements{}}
	w.platform(map[string]any{
		"annotations": map[string]any{"team": "a"}, "node_selector": map[string]any{"zone": "platform"},
		"tolerations":   []any{map[string]any{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}},
		"resources_raw": map[string]any{"limits": map[string]any{"ephemeral-storage": "2Gi"}, "requests": map[string]any{"ephemeral-storage": "1Gi"}},
	})
	agent := mounts(
		map[string]any{"name": "data", "mount_path": "/data"},
		map[string]any{"name": "scratch", "mount_path": "/run/scratch", "read_only": false},
	)
	agent["agent"].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{"example.com/fpga": 1.0}}
	w.caller(map[string]any{
		"pod": map[string]any{
			"node_selector": map[string]any{"disk": "ssd", "zone": "caller"}, "runtime_class_name": "kata", "priority_class_name": "high",
			"tolerations": []any{map[string]any{"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60.0}},
		},
		"volumes":    []any{volume("data", "datasets", true), volume("scratch", "scratch", false)},
		"containers": agent,
	})
	w.run.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
}

// rendered is the object as indented JSON.
func rendered(t *testing.T, w *world) []byte {
	t.Helper()
	object, err := w.renderer(t).Sandbox(w.request(t), w.run)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(object.DeepCopy().Object, "", "  ") // DeepCopy takes only what an API client takes
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestGolden(t *testing.T) {
	stray := map[string]bool{}
	paths, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		stray[path] = true
	}
	for _, c := range goldenCases {
		path := filepath.Join("testdata", c.name+".json")
		delete(stray, path)
		t.Run(c.name, func(t *testing.T) {
			w := base(t)
			c.change(w)
			got := rendered(t, w)
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the Sandbox of %s is\n%s\nwant\n%s", c.name, got, want)
			}
			if again := rendered(t, w); !bytes.Equal(got, again) {
				t.Error("two renderings differ")
			}
		})
	}
	for path := range stray {
		t.Errorf("%s belongs to no case", path)
	}
}
