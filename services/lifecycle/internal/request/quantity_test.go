package request_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const atAgent = conf + ".containers.agent.resources."

func limited(kind string, quantity any) func(*world) {
	return func(w *world) { w.in(map[string]any{kind: quantity}, "containers", "agent", "resources", "limits") }
}

func requested(kind string, quantity any) func(*world) {
	return func(w *world) { w.in(map[string]any{kind: quantity}, "containers", "agent", "resources", "requests") }
}

func TestQuantities(t *testing.T) {
	list := []breach{
		{"another extended resource", limited("vendor.example/nic", "1"), forbidden, atAgent + `limits["vendor.example/nic"]: `},
		{"another extended resource by the platform", func(w *world) {
			w.on(map[string]any{"requests": map[string]any{"vendor.example/nic": "1"}}, "resources_raw")
		}, forbidden, plat + ".resources_raw.requests["},
		{"a kind of nobody's", limited("pods", "1"), invalid, atAgent + `limits["pods"]: `},
		{"a kind of Kubernetes'", limited("kubernetes.io/batch-cpu", "1"), invalid, atAgent + "limits["},
		{"a kind below Kubernetes'", limited("attachable.kubernetes.io/x", "1"), invalid, atAgent + "limits["},
		{"a quota's kind", limited("requests.example.com/x", "1"), invalid, atAgent + "limits["},
		{"huge pages of no size", limited("hugepages-", "1"), invalid, atAgent + "limits["},
		{"huge pages of a bad size", limited("hugepages-x", "1"), invalid, atAgent + "limits["},
		{"a quantity that is an object", limited("memory", map[string]any{}), invalid, atAgent + `limits["memory"]: must be a quantity and is an object`},
		{"a limit of zero", limited("ephemeral-storage", "0"), invalid, atAgent + "limits["},
		{"part of a device", limited("example.com/fpga", "500m"), invalid, atAgent + "limits["},
		{"a device without a limit", func(w *world) {
			requested("example.com/fpga", "1")(w)
			w.in(map[string]any{}, "containers", "agent", "resources", "limits")
		}, invalid, atAgent + `requests["example.com/fpga"]: is a request without a limit`},
		{"a device whose request is not its limit", func(w *world) {
			requested("example.com/fpga", "1")(w)
			limited("example.com/fpga", "2")(w)
		}, invalid, atAgent + `requests["example.com/fpga"]: is a request that is not its limit, ` + atAgent + `limits["example.com/fpga"]`},
		{"a request that is greater than its limit", func(w *world) {
			requested("ephemeral-storage", "3Gi")(w)
		}, invalid, atAgent + `requests["ephemeral-storage"]: is a request that is greater than its limit, ` + atAgent + "limits["},
		{"a request of the platform's that is greater than the caller's limit", func(w *world) {
			w.on(map[string]any{"requests": map[string]any{"ephemeral-storage": "3Gi"}}, "resources_raw")
		}, invalid, plat + `.resources_raw.requests["ephemeral-storage"]: is a request that is greater than its limit, ` + atAgent + "limits["},
		{"a request of the caller's that is greater than the platform's limit", func(w *world) {
			w.template().Resources.CpuRequest, w.template().Resources.CpuLimit = "", ""
			w.on(map[string]any{"limits": map[string]any{"cpu": "500m"}}, "resources_raw")
		}, invalid, atAgent + `requests["cpu"]: is a request that is greater than its limit, ` + plat + `.resources_raw.limits["cpu"]`},
		{"a request for processors that is not their count", func(w *world) {
			w.spec().ResourceRequirements = gpu(new(uint32(2)))
			requested("nvidia.com/gpu", "1")(w)
		}, invalid, atAgent + `requests["nvidia.com/gpu"]: is a request that is not its limit, sandbox.spec.resource_requirements.gpu`},
		{"huge pages alone", func(w *world) {
			w.template().Resources = nil
			w.in(map[string]any{}, "containers", "agent", "resources", "requests")
			limited("hugepages-2Mi", "4Mi")(w)
		}, invalid, atAgent + `limits["hugepages-2Mi"]: are huge pages`},
		{"huge pages of the platform's alone", func(w *world) {
			w.template().Resources = nil
			w.in(map[string]any{}, "containers", "agent", "resources", "requests")
			w.on(map[string]any{"limits": map[string]any{"hugepages-1Gi": "1Gi"}}, "resources_raw")
		}, invalid, plat + `.resources_raw.limits["hugepages-1Gi"]: are huge pages`},
		{"too many processors", limited("cpu", "1000001"), invalid, atAgent + "limits["},
		{"limits that are text", func(w *world) { w.in("x", "containers", "agent", "resources", "limits") }, invalid, atAgent + "limits: "},
	}
	for _, text := range []string{
		"", " ", "x", "-1", "1 Gi", "1GiB", "0x10", "1e999999999", "1e-999999999", "1e1000", "1E+99", "1e99", "9999999999999999999Ei", "2Ei", "1.0000000000001Gi",
		"1e", "1.", ".5", "1_000", "NaN", "Inf", "１", "1\n", strings.Repeat("9", 40), strings.Repeat("9", 1<<15),
	} {
		list = append(list, breach{"quantity " + text, limited("memory", text), invalid, atAgent + `limits["memory"]: must be`})
		if text != "" {
			list = append(list, breach{"typed quantity " + text, func(w *world) { w.template().Resources.MemoryLimit = text }, invalid, tmpl + "resources.memory_limit: must be"})
		}
	}
	for _, c := range list {
		w := base(t)
		c.change(w)
		sandbox, d := w.create(t)
		check(t, c, sandbox, d)
	}
	for kind, quantity := range map[string]any{
		"cpu": "500m", "memory": "1Ei", "ephemeral-storage": 1024.0, "hugepages-2Mi": "4Mi", "example.com/fpga": "1k", "nvidia.com/gpu": 0.0,
	} {
		w := base(t)
		w.in(map[string]any{}, "containers", "agent", "resources", "requests")
		limited(kind, quantity)(w)
		if _, d := w.create(t); !d.Granted() {
			t.Errorf("%s of %v: %s", kind, quantity, d.Explain())
		}
	}
}

// TestWhatIsSetStays: the typed fields come before the platform's list, and that before the caller's (contract 11.1, 11.4).
func TestWhatIsSetStays(t *testing.T) {
	w := base(t)
	w.spec().ResourceRequirements = gpu(new(uint32(2)))
	w.on(map[string]any{"limits": map[string]any{"cpu": "9", "nvidia.com/gpu": "9", "ephemeral-storage": "3Gi"}}, "resources_raw")
	w.in(map[string]any{"memory": "9Gi", "ephemeral-storage": "9Gi"}, "containers", "agent", "resources", "limits")
	sandbox, d := w.create(t)
	if !d.Granted() {
		t.Fatal(d.Explain())
	}
	for kind, want := range map[corev1.ResourceName]string{"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "3Gi"} {
		if q := sandbox.Spec().Resources.Limits[kind]; q.String() != want {
			t.Errorf("%s is %s, want %s", kind, q.String(), want)
		}
	}
}

// FuzzQuantities: what is accepted is what Kubernetes reads, within bounds, and reading it costs nothing.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{"1", "500m", "1e3", "1E", "0.5Gi", "1e-9", "99e99", "+1", "1e99999999"} {
		f.Add(text)
	}
	most := resource.MustParse("1Ei")
	f.Fuzz(func(t *testing.T, text string) {
		w := base(t)
		w.template().Resources.MemoryLimit = text
		sandbox, d := w.create(t)
		if !d.Granted() || text == "" {
			return
		}
		q := sandbox.Spec().Resources.Limits[corev1.ResourceMemory]
		want, err := resource.ParseQuantity(text)
		if err != nil || q.Cmp(want) != 0 || q.Sign() <= 0 || q.Cmp(most) > 0 {
			t.Fatalf("%q became %s, and is %s, %v", text, q.String(), want.String(), err)
		}
	})
}
