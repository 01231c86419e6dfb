package request_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestEverything(t *testing.T) {
	w := base(t)
	sandbox, d := w.create(t)
	if !d.Granted() {
		t.Fatal(d.Explain())
	}
	q := resource.MustParse
	want := request.Spec{
		ID: id, Name: "demo", Workspace: "team-a", Namespace: "sandboxes", ObjectName: "team-a--demo", Image: "registry.example/agent:1",
		Environment: map[string]string{"GREETING": hidden, "TOKEN": hidden}, LogLevel: "info", Labels: map[string]string{"app": "demo"},
		Annotations: map[string]string{"team": "a"}, NodeSelector: map[string]string{"disk": "ssd", "zone": "platform"},
		Tolerations: []corev1.Toleration{
			{Key: "spot", Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(60))},
		},
		RuntimeClass: "kata", PriorityClass: "high",
		Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{
				"cpu": q("2"), "memory": q("4Gi"), "ephemeral-storage": q("2Gi"), "nvidia.com/gpu": q("1"), "example.com/fpga": q("1"),
			},
			Requests: corev1.ResourceList{"cpu": q("500m"), "memory": q("4Gi"), "ephemeral-storage": q("1Gi")},
		},
		GPU:     true,
		Volumes: []request.Volume{{Name: "data", Claim: "datasets", ReadOnly: true}, {Name: "scratch", Claim: "scratch.1"}},
		Mounts: []request.Mount{
			{Volume: "data", Path: "/data", ReadOnly: true}, {Volume: "scratch", Path: "/sandbox/scratch", SubPath: "a/b"},
		},
		MainProcess: `{"version":1,"command":["/bin/run","` + hidden + `"],"tty":false}`, CallerConfig: true,
	}
	if diff := cmp.Diff(want, sandbox.Spec()); diff != "" {
		t.Error(diff)
	}
	if validated, d := w.reader(t).Validate(w.sandbox); !d.Granted() || !reflect.DeepEqual(validated, sandbox) {
		t.Errorf("validate read it differently: %s", d.Explain())
	}
}

func TestTheLeast(t *testing.T) {
	w := base(t)
	w.sandbox.Spec = &computev1.DriverSandboxSpec{LaunchAuthentication: []byte("x")}
	sandbox, d := w.create(t)
	want := request.Spec{
		ID: id, Name: "demo", Workspace: "team-a", Namespace: "sandboxes", ObjectName: "team-a--demo", Image: "registry.example/base:1",
		Environment: map[string]string{}, NodeSelector: map[string]string{}, MainProcess: `{"version":1,"command":["/bin/bash","-l"],"tty":true}`,
	}
	if diff := cmp.Diff(want, sandbox.Spec()); diff != "" || !d.Granted() {
		t.Error(d.Explain(), diff)
	}
}

// TestItNeverChanges: neither what was read nor what is handed out is the Sandbox itself.
func TestItNeverChanges(t *testing.T) {
	w := base(t)
	sandbox, _ := w.create(t)
	another, _ := base(t).create(t)
	before := another.Spec()
	clear(w.template().Labels)
	clear(w.spec().Environment)
	out := sandbox.Spec()
	clear(out.Environment)
	clear(out.Labels)
	clear(out.Annotations)
	clear(out.NodeSelector)
	clear(out.Resources.Limits)
	*out.Tolerations[1].TolerationSeconds = 1
	out.Volumes[0].Claim, out.Mounts[0].Path = "x", "x"
	if diff := cmp.Diff(before, sandbox.Spec()); diff != "" {
		t.Error(diff)
	}
	if none := (request.Sandbox{}); !none.IsZero() || sandbox.IsZero() {
		t.Error("the wrong one is zero")
	}
}

func TestPlacesAndPrecedence(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*world)
		got    func(request.Spec) any
		want   any
	}{
		{"managed", func(w *world) { w.settings.WorkspaceMode = driverconf.ModeManaged }, func(s request.Spec) any { return s.Namespace + "/" + s.ObjectName }, "openshell-openshell-team-a/demo"},
		{"operator", func(w *world) { w.settings.WorkspaceMode = driverconf.ModeOperator }, func(s request.Spec) any { return s.Namespace + "/" + s.ObjectName }, "team-a/demo"},
		{"the namespace that it is", func(w *world) { w.sandbox.Namespace = "sandboxes" }, func(s request.Spec) any { return s.Namespace }, "sandboxes"},
		{"63 characters", func(w *world) { w.sandbox.Name = strings.Repeat("n", 63-len("team-a--")) }, func(s request.Spec) any { return len(s.ObjectName) }, 63},
		{"the platform's runtime class", func(w *world) { w.on("gvisor", "runtime_class_name") }, func(s request.Spec) any { return s.RuntimeClass }, "gvisor"},
		{"the default runtime class", func(w *world) {
			w.settings.DefaultRuntimeClassName = "runc"
			w.in("", "pod", "runtime_class_name")
		}, func(s request.Spec) any { return s.RuntimeClass }, "runc"},
		{"the caller's before the default", func(w *world) { w.settings.DefaultRuntimeClassName = "runc" }, func(s request.Spec) any { return s.RuntimeClass }, "kata"},
		{"no runtime class", func(w *world) { w.in(nil, "pod", "runtime_class_name") }, func(s request.Spec) any { return s.RuntimeClass }, ""},
		{"user namespaces by the settings", func(w *world) { w.settings.EnableUserNamespaces = true }, func(s request.Spec) any { return s.UserNamespace }, true},
		{"user namespaces off by the request", func(w *world) {
			w.settings.EnableUserNamespaces, w.template().UserNamespaces = true, new(false)
		}, func(s request.Spec) any { return s.UserNamespace }, false},
		{"user namespaces on by the request", func(w *world) { w.template().UserNamespaces = new(true) }, func(s request.Spec) any { return s.UserNamespace }, true},
		{"log level by the environment", func(w *world) {
			w.spec().LogLevel = ""
			w.spec().Environment["OPENSHELL_LOG_LEVEL"] = "debug"
		}, func(s request.Spec) any { return s.LogLevel }, "debug"},
		{"log level by its field first", func(w *world) { w.spec().Environment["OPENSHELL_LOG_LEVEL"] = "debug" }, func(s request.Spec) any { return s.LogLevel }, "info"},
		{"the log level is no variable", func(w *world) { w.spec().Environment["OPENSHELL_LOG_LEVEL"] = "debug" }, func(s request.Spec) any { return len(s.Environment) }, 2},
		{"a driver_config without members", func(w *world) { w.settings.AllowDriverConfig, w.template().DriverConfig = false, object(nil) }, func(s request.Spec) any { return s.CallerConfig }, false},
		{"gpu by default", func(w *world) { w.spec().ResourceRequirements = gpu(nil) }, gpus, "1"},
		{"gpu by count", func(w *world) { w.spec().ResourceRequirements = gpu(new(uint32(4))) }, gpus, "4"},
		{"gpu: the greatest count", func(w *world) { w.spec().ResourceRequirements = gpu(new(uint32(math.MaxUint32))) }, gpus, "4294967295"},
		{"no gpu", func(w *world) { w.template().PlatformConfig = nil }, func(s request.Spec) any { return s.GPU }, false},
		{"a request alone", func(w *world) { w.template().Resources = &computev1.DriverResourceRequirements{MemoryRequest: "1Gi"} }, func(s request.Spec) any {
			_, limited := s.Resources.Limits["memory"]
			q := s.Resources.Requests["memory"]
			return q.String() + map[bool]string{true: " limited"}[limited]
		}, "1Gi"},
		{"awaiting attachment", func(w *world) { w.spec().AwaitMainProcessAttachment = true }, func(s request.Spec) any {
			return strings.Contains(s.MainProcess, `"await_main_process_attachment":true`)
		}, true},
		{"below /run", func(w *world) { w.in(mounts("data", "/run/app"), "containers", "agent", "volume_mounts") }, func(s request.Spec) any { return s.Mounts[0].Path }, "/run/app"},
		{"no sub path by null", func(w *world) {
			w.in([]any{map[string]any{"name": "data", "mount_path": "/x", "sub_path": nil}}, "containers", "agent", "volume_mounts")
		}, func(s request.Spec) any { return s.Mounts[0].SubPath }, ""},
	} {
		w := base(t)
		c.change(w)
		sandbox, d := w.create(t)
		if !d.Granted() {
			t.Errorf("%s: %s", c.name, d.Explain())
		} else if got := c.got(sandbox.Spec()); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func gpu(count *uint32) *computev1.ResourceRequirements {
	return &computev1.ResourceRequirements{Gpu: &computev1.GpuResourceRequirements{Count: count}}
}

func gpus(s request.Spec) any {
	q := s.Resources.Limits["nvidia.com/gpu"]
	return q.String()
}

func mounts(name string, paths ...string) []any {
	var list []any
	for _, p := range paths {
		list = append(list, map[string]any{"name": name, "mount_path": p})
	}
	return list
}

func TestNewRefuses(t *testing.T) {
	if _, err := request.New(nil); err == nil {
		t.Error("no settings are taken")
	}
	if _, err := request.New(&driverconf.Kubernetes{}); err == nil {
		t.Error("settings without a mode are taken")
	}
}

func TestGPUOnNodes(t *testing.T) {
	node := func(quantity string) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(quantity)}}}
	}
	if request.NodeOffersGPU(nil) || request.NodeOffersGPU(&corev1.Node{}) || request.NodeOffersGPU(node("0")) || !request.NodeOffersGPU(node("1")) {
		t.Error("the wrong nodes offer one")
	}
	down := errors.New("down")
	for _, c := range []struct {
		offered bool
		err     error
		want    verdict.Reason
	}{{true, nil, ""}, {true, down, ""}, {false, nil, verdict.GPUAbsent}, {false, down, verdict.GPUUnreadable}} {
		if d := request.JudgeGPU(c.offered, c.err); d.Reason != c.want || d.Granted() != (c.want == "") {
			t.Errorf("%v, %v: %s", c.offered, c.err, d.Explain())
		}
	}
}
