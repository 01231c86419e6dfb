package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestDefinition(t *testing.T) {
	tests := map[string]struct {
		variant Variant
		want    string // versions, the stored one with a star
		webhook bool
	}{
		"v1alpha1": {V1alpha1, "v1alpha1*", false},
		"v1beta1":  {V1beta1, "v1beta1*", false},
		"both":     {Both, "v1beta1* v1alpha1", true},
	}
	digests := map[string]bool{}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d, err := definition(tc.variant)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range d.Spec.Versions {
				star := ""
				if v.Storage {
					star = "*"
				}
				got = append(got, v.Name+star)
				if !v.Served {
					t.Errorf("%s is not served", v.Name)
				}
				if v.Subresources == nil || v.Subresources.Status == nil {
					t.Errorf("%s has no status subresource", v.Name)
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("versions = %q, want %q", s, tc.want)
			}
			if (d.Spec.Conversion != nil) != tc.webhook {
				t.Errorf("conversion = %+v, want a webhook: %v", d.Spec.Conversion, tc.webhook)
			}
			if variantOf(d) != tc.variant {
				t.Errorf("variantOf = %q, want %q", variantOf(d), tc.variant)
			}
			digests[d.Annotations[annotationDigest]] = true
		})
	}
	if len(digests) != len(tests) {
		t.Errorf("%d digests for %d variants; they must differ", len(digests), len(tests))
	}
	for _, v := range []Variant{"", "v1"} {
		if _, err := definition(v); err == nil {
			t.Errorf("definition(%q) gave no error", v)
		}
	}
}

// TestVersionFields holds the fields of contract 8.2 and 8.3 that tell the versions apart.
func TestVersionFields(t *testing.T) {
	d, err := definition(Both)
	if err != nil {
		t.Fatal(err)
	}
	fields := func(s apiextensions.JSONSchemaProps) (names []string) {
		for name := range s.Properties {
			names = append(names, name)
		}
		return names
	}
	sorted := cmp.Transformer("set", func(in []string) map[string]bool {
		out := map[string]bool{}
		for _, s := range in {
			out[s] = true
		}
		return out
	})
	want := map[string][2][]string{
		"v1beta1": {
			{"podTemplate", "volumeClaimTemplates", "operatingMode", "service", "shutdownTime", "shutdownPolicy"},
			{"serviceFQDN", "service", "conditions", "selector", "podIPs", "nodeName"},
		},
		"v1alpha1": {
			{"podTemplate", "volumeClaimTemplates", "replicas", "service", "shutdownTime", "shutdownPolicy"},
			{"serviceFQDN", "service", "conditions", "selector", "podIPs", "replicas"},
		},
	}
	for _, v := range d.Spec.Versions {
		schema := v.Schema.OpenAPIV3Schema
		got := [2][]string{fields(schema.Properties["spec"]), fields(schema.Properties["status"])}
		if diff := cmp.Diff(want[v.Name], got, sorted); diff != "" {
			t.Errorf("%s fields (-want +got):\n%s", v.Name, diff)
		}
	}
}

func TestPlanInstall(t *testing.T) {
	foreign := variantOf(&apiextensions.CustomResourceDefinition{})
	tests := map[string]struct {
		have, want Variant
		step       step // 0 is a refusal
	}{
		"nothing there":       {"", V1beta1, stepCreate},
		"nothing there, old":  {"", V1alpha1, stepCreate},
		"same old":            {V1alpha1, V1alpha1, stepUpdate},
		"same new":            {V1beta1, V1beta1, stepUpdate},
		"same both":           {Both, Both, stepUpdate},
		"both serves v1beta1": {Both, V1beta1, stepKeep},
		"widen":               {V1beta1, Both, stepUpdate},
		"old to new":          {V1alpha1, V1beta1, 0},
		"old to both":         {V1alpha1, Both, 0},
		"new to old":          {V1beta1, V1alpha1, 0},
		"both to old":         {Both, V1alpha1, 0},
		"someone else's":      {foreign, V1beta1, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := planInstall(tc.have, tc.want)
			if got != tc.step || (err != nil) != (tc.step == 0) {
				t.Errorf("planInstall(%q, %q) = %d, %v; want %d", tc.have, tc.want, got, err, tc.step)
			}
		})
	}
}
