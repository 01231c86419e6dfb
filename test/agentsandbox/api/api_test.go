package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestNameHash(t *testing.T) {
	// Published FNV-1a 32-bit vectors.
	for name, want := range map[string]string{"": "811c9dc5", "a": "e40c292c", "foobar": "bf9cf968"} {
		if got := NameHash(name); got != want {
			t.Errorf("NameHash(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestReservedKey(t *testing.T) {
	for key, want := range map[string]bool{
		"agents.x-k8s.io/sandbox-name-hash": true,
		"extensions.agents.x-k8s.io/claim":  true,
		"opentelemetry.io/trace-context":    true,
		"opentelemetry.io/other":            false,
		"openshell.ai/boundary-pair":        false,
		"agents.x-k8s.io.example/thing":     false,
		"app":                               false,
	} {
		if got := ReservedKey(key); got != want {
			t.Errorf("ReservedKey(%q) = %v, want %v", key, got, want)
		}
	}
}

func TestSuspended(t *testing.T) {
	zero, one := int64(0), int64(1)
	tests := map[string]struct {
		spec Spec
		want bool
	}{
		"nothing set":         {Spec{}, false},
		"v1beta1 running":     {Spec{OperatingMode: ModeRunning}, false},
		"v1beta1 suspended":   {Spec{OperatingMode: ModeSuspended}, true},
		"v1alpha1 one":        {Spec{Replicas: &one}, false},
		"v1alpha1 zero":       {Spec{Replicas: &zero}, true},
		"v1beta1 other value": {Spec{OperatingMode: "suspended"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (&Sandbox{Spec: tc.spec}).Suspended(); got != tc.want {
				t.Errorf("Suspended() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	s := &Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "box"}}
	if got := s.PodName(); got != "box" {
		t.Errorf("PodName() = %q, want the Sandbox's name", got)
	}
	s.Annotations = map[string]string{AnnotationPodName: "warm-7"}
	if got := s.PodName(); got != "warm-7" {
		t.Errorf("PodName() = %q, want the annotation's value", got)
	}
	claim := ClaimTemplate{Metadata: TemplateMetadata{Name: "workspace"}}
	if got := s.ClaimName(claim); got != "workspace-box" {
		t.Errorf("ClaimName() = %q, want workspace-box", got)
	}
	if got := V1beta1.APIVersion(); got != "agents.x-k8s.io/v1beta1" {
		t.Errorf("APIVersion() = %q", got)
	}
}

// TestDecodeEncode holds the invariant that nothing is lost on the way, including Pod fields these types do not know.
func TestDecodeEncode(t *testing.T) {
	object := map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1",
		"kind":       "Sandbox",
		"metadata":   map[string]any{"name": "box", "namespace": "ns", "generation": int64(3)},
		"spec": map[string]any{
			"podTemplate": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "x"}},
				"spec": map[string]any{
					"aFieldOfTomorrow": map[string]any{"deep": []any{int64(1), "two", 3.5, true}},
					"containers":       []any{map[string]any{"name": "agent", "ports": []any{map[string]any{"containerPort": int64(80)}}}},
				},
			},
			"volumeClaimTemplates": []any{map[string]any{
				"metadata": map[string]any{"name": "workspace"},
				"spec":     map[string]any{"accessModes": []any{"ReadWriteOnce"}},
			}},
			"operatingMode":  "Suspended",
			"service":        true,
			"shutdownTime":   "2026-11-29T20:00:00Z",
			"shutdownPolicy": "Delete",
		},
		"status": map[string]any{
			"selector": "a=b",
			"podIPs":   []any{"10.0.0.1"},
			"nodeName": "n1",
			"conditions": []any{map[string]any{
				"type": "Ready", "status": "False", "reason": "SandboxSuspended", "message": "m",
				"lastTransitionTime": "2026-11-29T20:00:00Z", "observedGeneration": int64(3),
			}},
		},
	}
	s, err := Decode(&unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object, got); diff != "" {
		t.Errorf("a Sandbox changed by decoding and encoding it (-before +after):\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "box", "namespace": "ns"},
		"spec":     map[string]any{"replicas": "zero"},
	}}
	if _, err := Decode(u); err == nil {
		t.Error("Decode accepted a replicas field that is a string")
	}
}
