package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// sandbox is the valid base of the conversion cases: everything both versions share.
func sandbox(version api.Version, change func(spec, status map[string]any)) *unstructured.Unstructured {
	spec := map[string]any{
		"podTemplate":    map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "agent"}}}},
		"shutdownPolicy": "Retain",
	}
	status := map[string]any{"selector": "a=b", "podIPs": []any{"10.0.0.1"}}
	change(spec, status)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version.APIVersion(),
		"kind":       api.Kind,
		"metadata":   map[string]any{"name": "box", "namespace": "ns", "annotations": map[string]any{"mine": "1"}},
		"spec":       spec,
		"status":     status,
	}}
}

func TestConvertToV1beta1(t *testing.T) {
	tests := map[string]struct {
		replicas any // nil leaves the field out
		want     string
	}{
		"unset": {nil, api.ModeRunning},
		"one":   {int64(1), api.ModeRunning},
		"zero":  {int64(0), api.ModeSuspended},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := sandbox(api.V1alpha1, func(spec, status map[string]any) {
				if tc.replicas != nil {
					spec["replicas"] = tc.replicas
				}
				status["replicas"] = int64(1)
			})
			before := in.DeepCopy()
			out, err := convert(in, api.V1beta1)
			if err != nil {
				t.Fatal(err)
			}
			state, err := json.Marshal(before.Object)
			if err != nil {
				t.Fatal(err)
			}
			want := sandbox(api.V1beta1, func(spec, _ map[string]any) { spec["operatingMode"] = tc.want })
			want.SetAnnotations(map[string]string{"mine": "1", api.AnnotationV1alpha1State: string(state)})
			if diff := cmp.Diff(want.Object, out.Object); diff != "" {
				t.Errorf("v1beta1 (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, in.Object); diff != "" {
				t.Errorf("convert changed its input:\n%s", diff)
			}
		})
	}
}

func TestConvertToV1alpha1(t *testing.T) {
	tests := map[string]struct {
		mode          any
		state         string // the kept v1alpha1 object, "" for none
		spec, replica any    // spec.replicas and status.replicas, nil for absent
	}{
		"running":                           {api.ModeRunning, "", int64(1), int64(1)},
		"mode unset":                        {nil, "", int64(1), int64(1)},
		"suspended":                         {api.ModeSuspended, "", int64(0), int64(0)},
		"running, was unset":                {api.ModeRunning, `{"spec":{},"status":{"replicas":1}}`, nil, int64(1)},
		"running, was one":                  {api.ModeRunning, `{"spec":{"replicas":1},"status":{"replicas":1}}`, int64(1), int64(1)},
		"running, was suspended":            {api.ModeRunning, `{"spec":{"replicas":0}}`, int64(1), int64(0)},
		"suspended, was unset":              {api.ModeSuspended, `{"spec":{}}`, int64(0), int64(0)},
		"suspended, was one with its count": {api.ModeSuspended, `{"spec":{"replicas":1},"status":{"replicas":1}}`, int64(0), int64(1)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := sandbox(api.V1beta1, func(spec, status map[string]any) {
				if tc.mode != nil {
					spec["operatingMode"] = tc.mode
				}
				status["nodeName"] = "node-1"
			})
			if tc.state != "" {
				in.SetAnnotations(map[string]string{"mine": "1", api.AnnotationV1alpha1State: tc.state})
			}
			out, err := convert(in, api.V1alpha1)
			if err != nil {
				t.Fatal(err)
			}
			want := sandbox(api.V1alpha1, func(spec, status map[string]any) {
				if tc.spec != nil {
					spec["replicas"] = tc.spec
				}
				status["replicas"] = tc.replica
			})
			if diff := cmp.Diff(want.Object, out.Object); diff != "" {
				t.Errorf("v1alpha1 (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvertRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		to     api.Version
		want   string
	}{
		"another version": {func(u *unstructured.Unstructured) { u.SetAPIVersion("agents.x-k8s.io/v1") }, api.V1beta1, "only the two versions"},
		"unknown target":  {func(*unstructured.Unstructured) {}, "v2", "only the two versions"},
		"replicas is text": {
			func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["replicas"] = "0" }, api.V1beta1, "spec.replicas",
		},
		"kept state is not JSON": {
			func(u *unstructured.Unstructured) {
				u.SetAPIVersion(api.V1beta1.APIVersion())
				u.SetAnnotations(map[string]string{api.AnnotationV1alpha1State: "{"})
			}, api.V1alpha1, api.AnnotationV1alpha1State,
		},
		"kept state is null": {
			func(u *unstructured.Unstructured) {
				u.SetAPIVersion(api.V1beta1.APIVersion())
				u.SetAnnotations(map[string]string{api.AnnotationV1alpha1State: "null"})
			}, api.V1alpha1, "null",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := sandbox(api.V1alpha1, func(map[string]any, map[string]any) {})
			tc.change(in)
			if _, err := convert(in, tc.to); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("convert = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// FuzzConvert: whatever bytes arrive, nothing panics, and whether a Sandbox runs changes neither by one conversion nor by
// a round trip.
func FuzzConvert(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"agents.x-k8s.io/v1alpha1","kind":"Sandbox","spec":{"replicas":0}}`))
	f.Add([]byte(`{"apiVersion":"agents.x-k8s.io/v1alpha1","kind":"Sandbox","spec":{},"status":{"replicas":1}}`))
	f.Add([]byte(`{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","spec":{"operatingMode":"Suspended"}}`))
	f.Add([]byte(`{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","metadata":{"annotations":{"api.agents.x-k8s.io/v1alpha1-sandbox-state":"{}"}}}`))
	f.Add([]byte(`{"apiVersion":"agents.x-k8s.io/v1alpha1","kind":"Sandbox","metadata":7,"spec":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, to := range Both.Versions() {
			converted, err := convertRaw(raw, to.APIVersion())
			if err != nil {
				continue
			}
			before, after := parse(t, raw), parse(t, converted)
			if after.GetAPIVersion() != to.APIVersion() {
				t.Fatalf("asked for %s, got %s", to.APIVersion(), after.GetAPIVersion())
			}
			if suspended(before) != suspended(after) {
				t.Fatalf("suspended changed from %v to %v:\n%s\n%s", suspended(before), suspended(after), raw, converted)
			}
			if to != api.V1beta1 || before.GetAPIVersion() != api.V1alpha1.APIVersion() {
				continue
			}
			back, err := convertRaw(converted, api.V1alpha1.APIVersion())
			if err != nil {
				t.Fatalf("no way back from %s: %v", converted, err)
			}
			if again := parse(t, back); suspended(again) != suspended(before) {
				t.Fatalf("suspended changed in a round trip:\n%s\n%s", raw, back)
			}
		}
	})
}

func parse(t *testing.T, raw []byte) *unstructured.Unstructured {
	t.Helper()
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return &u
}

func suspended(u *unstructured.Unstructured) bool {
	if u.GetAPIVersion() == api.V1alpha1.APIVersion() {
		replicas, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
		return err == nil && found && replicas == 0
	}
	mode, _, _ := unstructured.NestedString(u.Object, "spec", "operatingMode")
	return mode == api.ModeSuspended
}

// TestRoundTrip: a v1alpha1 object comes back from v1beta1 as it was.
func TestRoundTrip(t *testing.T) {
	for name, replicas := range map[string]any{"unset": nil, "one": int64(1), "zero": int64(0)} {
		t.Run(name, func(t *testing.T) {
			in := sandbox(api.V1alpha1, func(spec, status map[string]any) {
				if replicas != nil {
					spec["replicas"] = replicas
				}
				status["replicas"] = int64(1)
			})
			stored, err := convert(in, api.V1beta1)
			if err != nil {
				t.Fatal(err)
			}
			out, err := convert(stored, api.V1alpha1)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(in.Object, out.Object); diff != "" {
				t.Errorf("round trip (-before +after):\n%s", diff)
			}
		})
	}
}
