package sandboxapi

import (
	"encoding/json"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// box is a suspended Sandbox of v1beta1, as JSON decodes it.
func box() map[string]any {
	return map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"metadata": map[string]any{
			"namespace": "team", "name": "box", "uid": "u", "generation": int64(4), "resourceVersion": "77",
			"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"},
		},
		"spec": map[string]any{
			"operatingMode": "Suspended",
			"podTemplate": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"l": "m"}},
				"spec": map[string]any{
					"aFieldOfTomorrow": true,
					"containers":       []any{map[string]any{"name": "agent", "image": "i"}},
				},
			},
		},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Suspended", "status": "True", "reason": "PodTerminated", "observedGeneration": int64(4), "lastTransitionTime": "2026-11-29T20:00:00Z"},
			map[string]any{"type": "Ready", "status": "False", "reason": "SandboxSuspended", "observedGeneration": int64(3)},
		}},
	}
}

// both reads an object in both ways, which must say the same.
func both(t testing.TB, u map[string]any) (Object, error) {
	t.Helper()
	o, err := ObjectFrom(&unstructured.Unstructured{Object: u})
	text, failed := json.Marshal(u)
	if failed != nil {
		t.Fatal(failed)
	}
	again, wrong := ObjectFromJSON(text)
	if (err == nil) != (wrong == nil) || err == nil && !equality.Semantic.DeepEqual(o, again) {
		t.Fatalf("%s\nis %+v, %v\nand as JSON %+v, %v", text, o, err, again, wrong)
	}
	return o, err
}

func read(t *testing.T, u map[string]any) Object {
	t.Helper()
	o, err := both(t, u)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func spec(u map[string]any) map[string]any { return u["spec"].(map[string]any) }

func condition(u map[string]any, i int) map[string]any {
	return u["status"].(map[string]any)["conditions"].([]any)[i].(map[string]any)
}

func TestObjectFrom(t *testing.T) {
	o := read(t, box())
	if o.Namespace != "team" || o.Name != "box" || o.UID != "u" || o.Generation != 4 || o.ResourceVersion != "77" || o.Version != V1beta1 ||
		o.Mode != Suspended || o.Labels["a"] != "b" || o.Annotations["c"] != "d" || o.Deleting {
		t.Errorf("%+v", o)
	}
	if o.Template.Labels["l"] != "m" || len(o.Template.Spec.Containers) != 1 || o.Template.Spec.Containers[0].Image != "i" {
		t.Errorf("template %+v", o.Template)
	}
	if len(o.Conditions) != 2 || o.Conditions[0].Reason != "PodTerminated" || o.Conditions[0].Transition.IsZero() {
		t.Errorf("conditions %+v", o.Conditions)
	}
}

func TestObjectFromRefuses(t *testing.T) {
	for name, spoil := range map[string]func(u map[string]any){
		"another kind":        func(u map[string]any) { u["kind"] = "SandboxClaim" },
		"another group":       func(u map[string]any) { u["apiVersion"] = "agents.example/v1beta1" },
		"an unknown version":  func(u map[string]any) { u["apiVersion"] = "agents.x-k8s.io/v2" },
		"no uid":              func(u map[string]any) { delete(u["metadata"].(map[string]any), "uid") },
		"replicas in words":   func(u map[string]any) { spec(u)["replicas"] = "none" },
		"a template in words": func(u map[string]any) { spec(u)["podTemplate"] = "none" },
	} {
		u := box()
		spoil(u)
		if o, err := both(t, u); err == nil {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for _, text := range []string{"", "null", "[]", `{"kind":"Sandbox"`, `{"apiVersion":"agents.x-k8s.io/v1beta1","Kind":"Sandbox"}`} {
		if o, err := ObjectFromJSON([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, o)
		}
	}
	if _, err := ObjectFrom(nil); err == nil {
		t.Error("nothing is read")
	}
}

func TestMode(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		spec    map[string]any
		want    Mode
	}{
		"beta, suspended":           {"v1beta1", map[string]any{"operatingMode": "Suspended"}, Suspended},
		"beta, running":             {"v1beta1", map[string]any{"operatingMode": "Running"}, Running},
		"beta, nothing":             {"v1beta1", map[string]any{}, Running},
		"beta, other spelling":      {"v1beta1", map[string]any{"operatingMode": "suspended"}, Running},
		"beta, the other's field":   {"v1beta1", map[string]any{"replicas": int64(0)}, Running},
		"alpha, none":               {"v1alpha1", map[string]any{"replicas": int64(0)}, Suspended},
		"alpha, one":                {"v1alpha1", map[string]any{"replicas": int64(1)}, Running},
		"alpha, nothing":            {"v1alpha1", map[string]any{}, Running},
		"alpha, the other's field":  {"v1alpha1", map[string]any{"operatingMode": "Suspended"}, Running},
		"beta, both, beta suspends": {"v1beta1", map[string]any{"operatingMode": "Suspended", "replicas": int64(1)}, Suspended},
	} {
		u := box()
		u["apiVersion"], u["spec"] = Group+"/"+c.version, c.spec
		o := read(t, u)
		if o.Mode != c.want {
			t.Errorf("%s: %s", name, o.Mode)
		}
		// What we would write to have this mode reads as it.
		written, err := c.want.Spec(o.Version)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(c.spec, written)
		if again := read(t, u); again.Mode != c.want {
			t.Errorf("%s: written as %v, read as %s", name, written, again.Mode)
		}
	}
	for name, c := range map[string]struct {
		mode    Mode
		version Version
	}{"no mode": {0, V1beta1}, "no version": {Running, ""}, "another version": {Suspended, "v2"}} {
		if got, err := c.mode.Spec(c.version); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := Mode(0).String(); got != "unknown" {
		t.Error(got)
	}
}

func TestPodName(t *testing.T) {
	o := read(t, box())
	if got := o.PodName(); got != "box" {
		t.Error(got)
	}
	o.Annotations = map[string]string{AnnotationPodName: "warm-7"}
	if got := o.PodName(); got != "warm-7" {
		t.Error(got)
	}
}

func TestConditionsOfOtherGenerationsDoNotCount(t *testing.T) {
	o := read(t, box())
	if c, ok := o.Condition(ConditionReady); ok {
		t.Errorf("a condition of generation 3 counts at 4: %+v", c)
	}
	o.Conditions = append(o.Conditions, Condition{Type: ConditionReady, Status: "True"})
	if c, ok := o.Condition(ConditionReady); !ok || c.Status != "True" {
		t.Errorf("%+v %t", c, ok)
	}
	if c, ok := o.Condition(ConditionFinished); ok {
		t.Errorf("%+v", c)
	}
}

func TestReportsSuspended(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(u map[string]any)
		want  bool
	}{
		"it does":               {func(map[string]any) {}, true},
		"False":                 {func(u map[string]any) { condition(u, 0)["status"] = "False" }, false},
		"Unknown":               {func(u map[string]any) { condition(u, 0)["status"] = "Unknown" }, false},
		"of another generation": {func(u map[string]any) { condition(u, 0)["observedGeneration"] = int64(3) }, false},
		"of no generation":      {func(u map[string]any) { delete(condition(u, 0), "observedGeneration") }, false},
		"it is to run":          {func(u map[string]any) { spec(u)["operatingMode"] = "Running" }, false},
		"no condition":          {func(u map[string]any) { delete(u, "status") }, false},
		"v1alpha1": {func(u map[string]any) {
			u["apiVersion"], spec(u)["replicas"] = V1alpha1.APIVersion(), int64(0)
		}, false},
	} {
		u := box()
		c.spoil(u)
		o := read(t, u)
		if got := o.ReportsSuspended(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestObjectThatIsBeingDeleted(t *testing.T) {
	u := box()
	u["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-29T20:00:00Z"
	o := read(t, u)
	if !o.Deleting {
		t.Error("a Sandbox that is being deleted reads as one that is not")
	}
}

// BenchmarkObjectFrom reads an answer as the dynamic client does and then with a type, and at once.
func BenchmarkObjectFrom(b *testing.B) {
	u := box()
	var containers []any
	for range 3 {
		var env []any
		for range 8 {
			env = append(env, map[string]any{"name": "NAME", "value": "value"})
		}
		containers = append(containers, map[string]any{"name": "agent", "image": "i", "env": env})
	}
	spec(u)["podTemplate"] = map[string]any{"spec": map[string]any{"containers": containers}}
	written := map[string]any{}
	for _, f := range []string{"f:labels", "f:annotations", "f:spec", "f:podTemplate", "f:status"} {
		written[f] = map[string]any{".": map[string]any{}, "f:a": map[string]any{}, "f:b": map[string]any{}, "f:c": map[string]any{}}
	}
	u["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": written}}
	answer, err := json.Marshal(u)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("dynamic", func(b *testing.B) {
		for b.Loop() {
			var found unstructured.Unstructured
			if err := found.UnmarshalJSON(answer); err != nil {
				b.Fatal(err)
			}
			if _, err := ObjectFrom(&found); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("as it comes", func(b *testing.B) {
		for b.Loop() {
			if _, err := ObjectFromJSON(answer); err != nil {
				b.Fatal(err)
			}
		}
	})
}
