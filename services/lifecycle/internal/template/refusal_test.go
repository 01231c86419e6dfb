package template_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/identity"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*driverconf.Kubernetes)
		want   string
	}{
		{"no runtime image", func(k *driverconf.Kubernetes) { k.SandboxRuntimeImage = "" }, "sandbox_runtime_image must be set"},
		{"a runtime image with a blank", func(k *driverconf.Kubernetes) { k.SandboxRuntimeImage = "a b" }, "sandbox_runtime_image must be an image"},
		{"a long default image", func(k *driverconf.Kubernetes) { k.DefaultImage = strings.Repeat("a", 1025) }, "default_image "},
		{"another pull policy", func(k *driverconf.Kubernetes) { k.ImagePullPolicy = "missing" }, "image_pull_policy "},
		{"another pull policy of the runtime", func(k *driverconf.Kubernetes) { k.SandboxRuntimeImagePullPolicy = "missing" }, "sandbox_runtime_image_pull_policy "},
		{"many pull Secrets", func(k *driverconf.Kubernetes) {
			for range 257 {
				k.ImagePullSecrets = append(k.ImagePullSecrets, "registry")
			}
		}, "image_pull_secrets names 257"},
		{"a bad runtime class", func(k *driverconf.Kubernetes) { k.DefaultRuntimeClassName = "A" }, "default_runtime_class_name "},
		{"a bad storage class", func(k *driverconf.Kubernetes) { k.WorkspaceStorageClass = "A" }, "workspace_storage_class "},
		{"no size", func(k *driverconf.Kubernetes) { k.WorkspaceDefaultStorageSize = "" }, "workspace_default_storage_size "},
		{"no mode", func(k *driverconf.Kubernetes) { k.WorkspaceMode = "" }, "workspace_mode "},
	} {
		w := base(t)
		c.change(&w.settings)
		if _, err := template.New(&w.settings, w.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := template.New(nil, template.Options{}); err == nil {
		t.Error("no settings are taken")
	}
}

func TestSandboxRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*template.Run)
		pod    bool // the Pod alone is refused as well
		want   string
	}{
		{"no identity", func(r *template.Run) { r.Identity = identity.Identity{} }, true, "identity: "},
		{"an identity that no Pod can have", func(r *template.Run) { r.Identity.Group = 1 << 31 }, true, "identity: "},
		{"no generation", func(r *template.Run) { r.Generation = "" }, true, "generation: "},
		{"a generation in capitals", func(r *template.Run) { r.Generation = "A" }, true, "generation: "},
		{"a long generation", func(r *template.Run) { r.Generation = strings.Repeat("a", 65) }, true, "generation: "},
		{"a generation of dashes", func(r *template.Run) { r.Generation = "---" }, true, "generation: "},
		{"no version", func(r *template.Run) { r.Version = "" }, false, "version: "},
		{"no time", func(r *template.Run) { r.StartedAt = time.Time{} }, false, "started at: "},
	} {
		w := base(t)
		c.change(&w.run)
		r, sandbox := w.renderer(t), w.request(t)
		if object, err := r.Sandbox(sandbox, w.run); err == nil || object != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if pod, err := r.Pod(sandbox, w.run); (err != nil) != c.pod || (pod != nil) == c.pod {
			t.Errorf("%s: the Pod alone: %v", c.name, err)
		}
	}
	w := base(t)
	if _, err := w.renderer(t).Sandbox(request.Sandbox{}, w.run); err == nil {
		t.Error("the zero request is rendered")
	}
	sandbox := w.request(t)
	w.settings.Namespace = "elsewhere"
	if _, err := w.renderer(t).Sandbox(sandbox, w.run); err == nil || !strings.Contains(err.Error(), "namespace: ") {
		t.Errorf("a request that was read by other settings: %v", err)
	}
}

// TestOthersReadIt: the record and the object are those that supervisorctl and the watch read.
func TestOthersReadIt(t *testing.T) {
	for _, version := range sandboxapi.Versions() {
		w := base(t)
		w.run.Version = version
		object, err := w.renderer(t).Sandbox(w.request(t), w.run)
		if err != nil {
			t.Fatal(err)
		}
		object.SetUID("uid-sandbox")
		got, err := sandboxapi.ObjectFrom(object)
		if err != nil || got.Mode != sandboxapi.Suspended || got.Version != version || got.PodName() != "team-a--demo" {
			t.Errorf("%s: %+v, %v", version, got, err)
		}
		record, err := runstate.Of(got.Annotations)
		want := runstate.Record{
			Bootstrapping: true, StartedAt: 1700000000123, Operation: runstate.Create, Phase: runstate.Preparing, Generation: w.run.Generation,
			MainProcess: `{"version":1,"command":["/bin/run","--all"],"tty":false}`, LogLevel: "info",
		}
		if err != nil || record != want {
			t.Errorf("%s: %+v, %v", version, record, err)
		}
		pod, err := w.renderer(t).Pod(w.request(t), w.run)
		if err != nil {
			t.Fatal(err)
		}
		rendered, _ := json.Marshal(pod)
		read, _ := json.Marshal(got.Template)
		if string(rendered) != string(read) {
			t.Errorf("the Pod is\n%s\nand was read as\n%s", rendered, read)
		}
	}
}

// TestWhatIsMalformedIsLeftOut: a trace or a range never stops a sandbox.
func TestWhatIsMalformedIsLeftOut(t *testing.T) {
	w := base(t)
	plain := rendered(t, w)
	w.run.TraceParent = "00-x"
	w.run.NamespaceAnnotations = map[string]string{
		"openshift.io/sa.scc.uid-range": "1/2\n", "openshift.io/sa.scc.supplemental-groups": strings.Repeat("1", 257),
	}
	if got := rendered(t, w); string(got) != string(plain) {
		t.Errorf("the Sandbox is\n%s", got)
	}
}
