package request_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// bounded is what every refusal keeps to.
func bounded(t *testing.T, d verdict.Decision) {
	t.Helper()
	if d.Granted() {
		return
	}
	if len(d.Message()) > 7000 || len(d.Step) > 310 || d.Message() == "" || strings.Contains(d.Explain(), hidden) {
		t.Fatalf("a refusal of %d bytes at %q: %.300q", len(d.Message()), d.Step, d.Message())
	}
}

// FuzzDriverConfig: any structure is read or refused, in bounded time and words; and what is accepted holds the rules of contract
// 11.4 by a plain reading.
func FuzzDriverConfig(f *testing.F) {
	good, _ := json.Marshal(callerConfig())
	f.Add(good)
	f.Add([]byte(`{"pod":{"tolerations":[{"operator":"Exists"}]}}`))
	f.Add([]byte(`{"volumes":[{"name":"workspace","persistent_volume_claim":{"claim_name":"x"}}]}`))
	f.Add([]byte(`{"pod":{"node_selector":{"a":null}},"containers":{"agent":{"resources":{"limits":{"nvidia.com/gpu":1e308}}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s structpb.Struct
		if protojson.Unmarshal(text, &s) != nil {
			return
		}
		w := base(t)
		w.template().DriverConfig = &s
		sandbox, d := w.create(t)
		bounded(t, d)
		if !d.Granted() {
			return
		}
		spec := sandbox.Spec()
		if spec.CallerConfig != (len(s.Fields) > 0) {
			t.Fatal("whether the caller had a configuration is lost")
		}
		for name := range s.Fields {
			if name != "pod" && name != "containers" && name != "volumes" {
				t.Fatalf("%q was accepted", name)
			}
		}
		volumes := map[string]request.Volume{}
		for _, v := range spec.Volumes {
			if _, twice := volumes[v.Name]; twice || strings.HasPrefix(v.Name, "openshell-run") || v.Name == "workspace" || v.Claim == "" {
				t.Fatalf("volume %+v", v)
			}
			volumes[v.Name] = v
		}
		for _, m := range spec.Mounts {
			if v, declared := volumes[m.Volume]; !declared || v.ReadOnly && !m.ReadOnly || !strings.HasPrefix(m.Path, "/") || strings.Contains(m.Path, "..") && strings.Contains(m.Path, "/../") {
				t.Fatalf("mount %+v of %+v", m, v)
			}
		}
		for kind := range spec.Resources.Limits {
			if strings.Contains(string(kind), "/") && kind != "nvidia.com/gpu" && kind != "example.com/fpga" {
				t.Fatalf("resource %s", kind)
			}
		}
		if strings.HasPrefix(spec.PriorityClass, "system-") || len(spec.RuntimeClass) > 253 {
			t.Fatalf("classes %q and %q", spec.RuntimeClass, spec.PriorityClass)
		}
	})
}

// FuzzNames: whatever names are accepted, in whichever mode, compose into names that Kubernetes takes, and into none of a companion.
func FuzzNames(f *testing.F) {
	f.Add("team-a", "demo", id, byte(0))
	f.Add("os", "supervisor-x", id, byte(0))
	f.Add("a--b", "c", "A", byte(1))
	f.Add("os-supervisor-a", "b", "x", byte(2))
	modes := []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator}
	f.Fuzz(func(t *testing.T, workspace, name, id string, mode byte) {
		w := base(t)
		w.settings.WorkspaceMode = modes[int(mode)%3]
		w.sandbox.Workspace, w.sandbox.Name, w.sandbox.Id = workspace, name, id
		sandbox, d := w.create(t)
		bounded(t, d)
		if !d.Granted() {
			return
		}
		s := sandbox.Spec()
		for _, text := range []string{s.Namespace, s.ObjectName, "os-supervisor-" + strings.ToLower(s.ID), "os-sandbox-" + strings.ToLower(s.ID) + "-abcdefabcdef", s.Workspace, s.Name} {
			if len(validation.IsDNS1123Label(text)) > 0 {
				t.Fatalf("%q is no name", text)
			}
		}
		if strings.HasPrefix(s.ObjectName, "os-supervisor-") || strings.HasPrefix(s.ObjectName, "os-boundary-") || s.ID != id {
			t.Fatalf("%q may be a companion's", s.ObjectName)
		}
	})
}

// FuzzMetadata: whatever labels, annotations and variables are accepted, Kubernetes takes, and they are not the driver's.
func FuzzMetadata(f *testing.F) {
	f.Add("app", "demo", "team", "a", "GREETING", "hello")
	f.Add("x.openshell.ai/a", "b", "OPENTELEMETRY.io/trace-context", "x", "Openshell_X", "y")
	f.Add("agents.x-k8s.io./a", "b", "CDI.k8s.io/x", "x", "A.B-C", "")
	f.Fuzz(func(t *testing.T, label, value, annotation, text, name, content string) {
		w := base(t)
		w.template().Labels = map[string]string{label: value}
		w.spec().Environment = map[string]string{name: content}
		w.on(map[string]any{strings.ToValidUTF8(annotation, ""): strings.ToValidUTF8(text, "")}, "annotations")
		sandbox, d := w.create(t)
		bounded(t, d)
		if !d.Granted() {
			return
		}
		s := sandbox.Spec()
		if len(validation.IsQualifiedName(label)) > 0 || len(validation.IsValidLabelValue(value)) > 0 || len(validation.IsEnvVarName(name)) > 0 {
			t.Fatalf("%q=%q and %q are accepted", label, value, name)
		}
		for _, key := range []string{label, annotation} {
			domain, _, found := strings.Cut(strings.ToLower(key), "/")
			if found && slices.ContainsFunc([]string{"openshell.ai", "openshell.io", "agents.x-k8s.io", "cdi.k8s.io", "k8s.v1.cni.cncf.io"}, func(own string) bool {
				return domain == own || strings.HasSuffix(domain, ".openshell.ai") || strings.HasSuffix(domain, ".agents.x-k8s.io")
			}) {
				t.Fatalf("%q is accepted", key)
			}
		}
		if strings.HasPrefix(strings.ToUpper(name), "OPENSHELL_") && name != "OPENSHELL_LOG_LEVEL" {
			t.Fatalf("%q is accepted", name)
		}
		if name != "OPENSHELL_LOG_LEVEL" && s.Environment[name] != content {
			t.Fatalf("%q is not what was asked for", name)
		}
	})
}
