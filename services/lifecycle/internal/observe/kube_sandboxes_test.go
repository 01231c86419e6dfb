package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// TestWhatIsTakenOutBeforeReadingIsNotKept: an object says the same without it, however it is made.
func TestWhatIsTakenOutBeforeReadingIsNotKept(t *testing.T) {
	whole := func() map[string]any {
		o := rawBox(sandboxapi.V1beta1, "u1", "a", "5")
		o["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
			"manager": "lifecycle", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}},
		}}
		o["spec"] = map[string]any{"operatingMode": "Suspended", "podTemplate": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"l": "v"}},
			"spec": map[string]any{
				"containers":      []any{map[string]any{"name": "agent", "image": "i", "resources": map[string]any{"limits": map[string]any{"cpu": "1"}}}},
				"securityContext": map[string]any{"runAsUser": int64(1001), "runAsGroup": int64(1002)},
			},
		}}
		o["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}}
		return o
	}
	kube, _ := serve(t, driverconf.ModeShared)
	source := &kubeSandboxes{kube: kube, at: sandboxapi.V1beta1}
	full, err := sandboxapi.ObjectFrom(&unstructured.Unstructured{Object: whole()})
	must(t, err)
	want, err := snapshot.Read(&full, kube.scheme)
	must(t, err)
	u := &unstructured.Unstructured{Object: whole()}
	got, err := source.read(u)
	must(t, err)
	if diff := cmp.Diff(want, got.Value); diff != "" || got.Problem != nil || want.User != 1001 || want.Group != 1002 {
		t.Errorf("%v, %d, %d (-whole +lightened):\n%s", got.Problem, want.User, want.Group, diff)
	}
	if containers, found, _ := unstructured.NestedSlice(u.Object, "spec", "podTemplate", "spec", "containers"); found || u.GetManagedFields() != nil {
		t.Errorf("%v and %v were read", containers, u.GetManagedFields())
	}
	for name, broken := range map[string]any{"no spec": nil, "a spec that is none": "none", "a template that is none": map[string]any{"podTemplate": "none"}} {
		o := whole()
		if o["spec"] = broken; broken == nil {
			delete(o, "spec")
		}
		if _, err := source.read(&unstructured.Unstructured{Object: o}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkReadSandbox(b *testing.B) {
	kube := &Kube{scheme: scheme}
	source := &kubeSandboxes{kube: kube, at: sandboxapi.V1beta1}
	o := unstructured.Unstructured{Object: rawBox(sandboxapi.V1beta1, "u1", "a", "5")}
	o.Object["metadata"].(map[string]any)["generation"] = int64(1)
	var containers []any
	for range 3 {
		var env []any
		for range 8 {
			env = append(env, map[string]any{"name": "NAME", "value": "value"})
		}
		containers = append(containers, map[string]any{
			"name": "agent", "image": "i", "env": env, "resources": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "1Gi"}},
		})
	}
	o.Object["spec"] = map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": containers}}}
	fields := map[string]any{}
	for _, f := range []string{"f:labels", "f:annotations", "f:spec"} {
		fields[f] = map[string]any{".": map[string]any{}, "f:a": map[string]any{}, "f:b": map[string]any{}, "f:c": map[string]any{}}
	}
	o.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}}
	for b.Loop() {
		b.StopTimer()
		u := o.DeepCopy()
		b.StartTimer()
		if _, err := source.read(u); err != nil {
			b.Fatal(err)
		}
	}
}
