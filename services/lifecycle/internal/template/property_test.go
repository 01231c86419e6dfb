package template_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// holds is the property: what request accepts, template renders below the limit, and inventory accepts or names; and the Pod has
// everything that the driver sets, as a plain reading of contract 7.5 finds it.
func holds(t *testing.T, w *world) (accepted bool) {
	t.Helper()
	reader, err := request.New(&w.settings)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, d := reader.Create(w.sandbox)
	if !d.Granted() {
		if !sandbox.IsZero() || d.Message() == "" || len(d.Message()) > 7000 {
			t.Fatalf("a refusal of %d bytes", len(d.Message()))
		}
		return false
	}
	r := w.renderer(t)
	object, err := r.Sandbox(sandbox, w.run)
	if err != nil {
		t.Fatalf("accepted and not rendered: %v", err)
	}
	if text, err := json.Marshal(object.Object); err != nil || len(text) > template.MaxBytes {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	bytes := 0
	for key, value := range object.GetAnnotations() {
		bytes += len(key) + len(value)
	}
	if bytes > 200<<10 { // the API server takes 256 KiB, and a run needs some
		t.Fatalf("%d bytes of annotations", bytes)
	}
	pod, err := r.Pod(sandbox, w.run)
	if err != nil {
		t.Fatal(err)
	}
	named(t, w, sandbox.Spec(), pod, r.PullSecretNames(w.sandbox.Id, w.run.Generation))
	intact(t, w, pod)
	return true
}

// named compares the inventory's answer with what the request attached.
func named(t *testing.T, w *world, spec request.Spec, pod *corev1.PodTemplateSpec, pull []string) {
	t.Helper()
	policy, err := inventory.New(&w.settings)
	if err != nil {
		t.Fatal(err)
	}
	got, d := policy.Attachments(pod, inventory.Own{
		Namespace: spec.Namespace, ObjectName: spec.ObjectName, SandboxID: spec.ID, Generation: w.run.Generation,
		PullSecrets: pull,
	})
	if !d.Granted() {
		t.Fatalf("accepted, rendered and refused by the inventory: %s", d.Explain())
	}
	want := map[string]bool{}
	for _, v := range spec.Volumes {
		if v.Claim != "workspace-"+spec.ObjectName || v.Name != "workspace" {
			want["PersistentVolumeClaim/"+spec.Namespace+"/"+v.Claim] = true
		}
	}
	if spec.RuntimeClass != "" {
		want["RuntimeClass//"+spec.RuntimeClass] = true
	}
	if spec.PriorityClass != "" {
		want["PriorityClass//"+spec.PriorityClass] = true
	}
	for _, a := range got {
		if !want[a.String()] {
			t.Fatalf("%s is named and not attached", a)
		}
		delete(want, a.String())
	}
	if len(want) > 0 {
		t.Fatalf("attached and not named: %v", want)
	}
}

// intact finds what a caller could have overridden.
func intact(t *testing.T, w *world, pod *corev1.PodTemplateSpec) {
	t.Helper()
	s, id := &pod.Spec, strings.ToLower(w.sandbox.Id)
	fail := func(what string) {
		t.Helper()
		text, _ := json.Marshal(pod)
		t.Fatalf("%s:\n%.3000s", what, text)
	}
	if pod.Labels["openshell.ai/boundary-pair"] != id || pod.Labels["openshell.ai/boundary-role"] != "workload" ||
		pod.Annotations["openshell.ai/sandbox-id"] != w.sandbox.Id || pod.Annotations["openshell.io/sandbox-id"] != w.sandbox.Id {
		fail("the Pod's metadata")
	}
	for key := range pod.Labels {
		if strings.Contains(strings.ToLower(key), "openshell.ai/") && key != "openshell.ai/boundary-pair" && key != "openshell.ai/boundary-role" {
			fail("label " + key)
		}
	}
	if s.HostNetwork || s.HostPID || s.HostIPC || s.ShareProcessNamespace != nil || s.RestartPolicy != "Never" || s.DNSPolicy != "None" ||
		!slices.Equal(s.DNSConfig.Nameservers, []string{"127.0.0.53"}) || *s.AutomountServiceAccountToken || s.NodeName != "" ||
		s.ServiceAccountName != w.settings.ServiceAccountName || len(s.SchedulingGates) != 1 || s.Priority != nil {
		fail("the Pod's isolation")
	}
	c := s.SecurityContext
	if *c.RunAsUser != int64(w.run.Identity.User) || *c.RunAsGroup != int64(w.run.Identity.Group) || *c.FSGroup != *c.RunAsGroup || !*c.RunAsNonRoot ||
		c.SeccompProfile.Type != "RuntimeDefault" || len(c.SupplementalGroups) > 0 || len(c.Sysctls) != 1 {
		fail("the Pod's security")
	}
	all := slices.Concat(s.InitContainers, s.Containers)
	if len(s.Containers) != 1 || s.Containers[0].Name != "agent" || s.InitContainers[0].Name != "openshell-sandbox-bootstrap" || len(all) > 3 {
		fail("the containers")
	}
	for i := range all {
		own, secrets := &all[i], 0
		if r := own.SecurityContext; !*r.RunAsNonRoot || *r.AllowPrivilegeEscalation || r.Privileged != nil || len(r.Capabilities.Add) > 0 || *r.RunAsUser != *c.RunAsUser {
			fail("the rights of " + own.Name)
		}
		seen := map[string]string{}
		for _, m := range own.VolumeMounts {
			if _, twice := seen[m.MountPath]; twice {
				fail("two mounts at " + m.MountPath)
			}
			seen[m.MountPath] = m.Name
			if m.Name == "openshell-sandbox-bootstrap" {
				secrets++
			}
		}
		if (secrets == 1) != (own.Name == "openshell-sandbox-bootstrap") {
			fail("who has the bootstrap Secret")
		}
		if own.Name == "agent" && (seen["/sandbox"] != "workspace" || seen["/.openshell/runtime"] != "openshell-runtime" || seen["/run"] != "openshell-run") {
			fail("the mounts of the agent")
		}
	}
	env := map[string]string{}
	for _, v := range s.Containers[0].Env {
		if _, twice := env[v.Name]; twice || v.ValueFrom != nil {
			fail("variable " + v.Name)
		}
		env[v.Name] = v.Value
		if strings.HasPrefix(strings.ToUpper(v.Name), "OPENSHELL_") && !slices.Contains([]string{
			"OPENSHELL_LOG_LEVEL", "OPENSHELL_TELEMETRY_ENABLED", "OPENSHELL_SANDBOX_UID", "OPENSHELL_SANDBOX_GID", "OPENSHELL_OCI_IMAGE_USER",
		}, v.Name) {
			fail("variable " + v.Name)
		}
	}
	if env["OPENSHELL_SANDBOX_UID"] != fmt.Sprint(w.run.Identity.User) || env["OPENSHELL_OCI_IMAGE_USER"] != "" {
		fail("the agent's own variables")
	}
}

// TestProperty draws requests from good and hostile parts.
func TestProperty(t *testing.T) {
	accepted := 0
	for seed := range uint64(1000) { // some hundred are accepted
		w := drawn(t, rand.New(rand.NewPCG(seed, 1)))
		if holds(t, w) {
			accepted++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if accepted < 100 || accepted > 950 {
		t.Errorf("%d of 1000 requests are accepted: the draw tells nothing", accepted)
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func drawn(t *testing.T, r *rand.Rand) *world {
	w := base(t)
	mode := pick(r, driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator)
	if w.settings.WorkspaceMode = mode; mode == driverconf.ModeOperator {
		w.settings.OperatorNamespaceLabel = new("a=b")
	}
	w.settings.AllowedExtendedResources = []string{"example.com/fpga"}
	w.settings.ImagePullSecrets = pick(r, nil, []string{"registry"})
	w.settings.DefaultRuntimeClassName = pick(r, "", "runc")
	w.settings.HostGatewayIP = pick(r, "", "192.0.2.1")
	w.sandbox.Name = pick(r, "demo", "demo", "demo", "a--b", "os-supervisor-x", "UPPER")
	w.sandbox.Id = pick(r, id, id, strings.ToUpper(id), "x")
	w.template().Labels = map[string]string{pick(r, "app", "a/b", "team", "x.openshell.ai/y"): "v"}
	w.template().UserNamespaces = pick(r, nil, new(true), new(false))
	w.spec().Environment = map[string]string{pick(r, "A", "PATH", "LD_PRELOAD", "OPENSHELL_LOG_LEVEL", "openshell_x"): pick(r, "", "debug", "$(OPENSHELL_SANDBOX_UID)")}
	w.template().Resources = &computev1.DriverResourceRequirements{CpuLimit: pick(r, "", "1", "1.5"), MemoryRequest: pick(r, "", "1Gi", "1G")}
	w.platform(map[string]any{
		"runtime_class_name": pick(r, "", "gvisor"), "annotations": map[string]any{pick(r, "a", "b.example/c", "cdi.k8s.io/x"): "v"},
		"node_selector": map[string]any{"a": "b"},
	})
	var volumes, mounted []any
	for i := range r.IntN(4) {
		name := pick(r, fmt.Sprintf("v%d", i), fmt.Sprintf("v%d", i), fmt.Sprintf("v%d", i), "data", "workspace", "openshell-run")
		writable := pick(r, true, false)
		volumes = append(volumes, volume(name, pick(r, "claim", "workspace-demo", "workspace-team-a--demo", "other"), !writable))
		mounted = append(mounted, map[string]any{
			"name": name, "mount_path": pick(r, "/data", "/sandbox/x", "/sandbox/y", "/run/x", "/opt/x", "/a/b", "/a", "/proc/x", "/sandbox"), "read_only": pick(r, true, !writable),
		})
	}
	agent := mounts(mounted...)
	agent["agent"].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{pick(r, "memory", "cpu", "example.com/fpga", "nvidia.com/gpu", "ephemeral-storage"): pick[any](r, "1", 2.0, "4")}}
	w.caller(map[string]any{
		"pod":     map[string]any{"priority_class_name": pick[any](r, nil, "high", "low"), "tolerations": []any{map[string]any{"operator": "Exists"}}},
		"volumes": volumes, "containers": agent,
	})
	return w
}

// TestTheGreatest: every part at its own limit is refused together or fits.
func TestTheGreatest(t *testing.T) {
	for _, env := range []int{100, 180, 200} {
		w := base(t)
		w.settings.ImagePullSecrets = make([]string, 256)
		for i := range w.settings.ImagePullSecrets {
			w.settings.ImagePullSecrets[i] = fmt.Sprintf("%s-%d", strings.Repeat("s", 240), i)
		}
		w.spec().Environment = map[string]string{}
		for i := range 1000 {
			w.spec().Environment[fmt.Sprintf("%s%d", strings.Repeat("N", 60), i)] = strings.Repeat("v", env)
		}
		w.spec().Command = []string{"x", strings.Repeat(`"`, 50<<10)}
		w.platform(map[string]any{"annotations": map[string]any{"a": strings.Repeat("v", 60<<10)}})
		if got, want := holds(t, w), env < 200; got != want {
			t.Errorf("values of %d bytes: accepted %v, want %v", env, got, want)
		}
	}
}

// FuzzSandbox: the property holds for any configuration of caller and platform.
func FuzzSandbox(f *testing.F) {
	w := base(f)
	everything(w)
	caller, _ := protojson.Marshal(w.template().DriverConfig)
	platform, _ := protojson.Marshal(w.template().PlatformConfig)
	f.Add(caller, platform, "demo", "app", "A")
	f.Add([]byte(`{"volumes":[{"name":"data","persistent_volume_claim":{"claim_name":"workspace-team-a--demo"}}]}`), []byte(`{}`), "x", "y", "z")
	f.Fuzz(func(t *testing.T, caller, platform []byte, name, label, variable string) {
		w := base(t)
		w.settings.AllowedExtendedResources = []string{"example.com/fpga"}
		w.template().DriverConfig, w.template().PlatformConfig = &structpb.Struct{}, &structpb.Struct{}
		if protojson.Unmarshal(caller, w.template().DriverConfig) != nil || protojson.Unmarshal(platform, w.template().PlatformConfig) != nil {
			return
		}
		w.sandbox.Name = name
		w.template().Labels = map[string]string{label: "v"}
		w.spec().Environment = map[string]string{variable: "v"}
		holds(t, w)
	})
}
