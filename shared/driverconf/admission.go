package driverconf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// workspacePlaceholder stands for the caller's workspace as an entire label value.
const workspacePlaceholder = "${workspace}"

// ResourceAdmission is the table resource_admission (contract 2.4). The zero
// value admits without checking; Load starts from the stock default, which
// checks.
type ResourceAdmission struct {
	// Enabled requires RequiredLabels on objects that a caller attaches.
	Enabled bool `toml:"enabled" json:"enabled"`
	// RequiredLabels is not empty while Enabled, and at least one of its values is
	// then not the placeholder ${workspace}.
	RequiredLabels map[string]string `toml:"required_labels" json:"required_labels"`
}

func defaultResourceAdmission() ResourceAdmission {
	return ResourceAdmission{
		Enabled: true,
		RequiredLabels: map[string]string{
			"openshell.ai/sandbox-attachable":           "true",
			"openshell.ai/sandbox-attachable-workspace": workspacePlaceholder,
		},
	}
}

// AdmissionPolicy is what the driver acknowledges to the gateway (contract 2.4).
// The order of its fields is the order on the wire.
type AdmissionPolicy struct {
	AllowDriverConfig bool              `json:"allow_driver_config"`
	ResourceAdmission ResourceAdmission `json:"resource_admission"`
}

// AdmissionPolicy returns a copy of the policy that k holds.
func (k *Kubernetes) AdmissionPolicy() AdmissionPolicy {
	p := AdmissionPolicy{AllowDriverConfig: k.AllowDriverConfig, ResourceAdmission: k.ResourceAdmission}
	p.ResourceAdmission.RequiredLabels = maps.Clone(p.ResourceAdmission.RequiredLabels)
	return p
}

// Acknowledgement renders the string of contract 2.4. The gateway compares it
// byte for byte before every launch, so equal policies give equal bytes: fixed
// key order, sorted labels, no spaces, no HTML escapes. It does no I/O.
func (p AdmissionPolicy) Acknowledgement() string {
	if p.ResourceAdmission.RequiredLabels == nil {
		p.ResourceAdmission.RequiredLabels = map[string]string{}
	}
	var out bytes.Buffer
	out.WriteString("v1:")
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		// Booleans and strings always encode; an empty answer is refused by the gateway.
		return ""
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// reservedLabels are set by the driver itself, so requiring them would let an
// object approve itself (contract 2.4).
var reservedLabels = []string{
	"openshell.ai/managed-by",
	"openshell.ai/gateway-id",
	"openshell.ai/sandbox-workspace",
}

// validate reports problems under keys relative to the kubernetes table.
func (r ResourceAdmission) validate(report Report) {
	const key, enabled = "resource_admission.required_labels", "resource_admission.enabled"
	literal := false
	for _, name := range slices.Sorted(maps.Keys(r.RequiredLabels)) {
		value := r.RequiredLabels[name]
		if slices.Contains(reservedLabels, name) {
			report(key, fmt.Sprintf("label %s is written by the driver itself and cannot be required", quote(name)))
		} else if len(validation.IsQualifiedName(name)) > 0 {
			report(key, fmt.Sprintf("%s is not a label key", quote(name)))
		}
		switch {
		case value == workspacePlaceholder:
		case strings.Contains(value, workspacePlaceholder):
			literal = true
			report(key, fmt.Sprintf("label %s: %s must be the entire value, not a part of it", quote(name), workspacePlaceholder))
		default:
			literal = true
			if len(validation.IsValidLabelValue(value)) > 0 {
				report(key, fmt.Sprintf("label %s: %s is not a label value", quote(name), quote(value)))
			}
		}
	}
	switch {
	case !r.Enabled:
	case len(r.RequiredLabels) == 0:
		report(key, "must not be empty while resource_admission.enabled is true; name a label or set enabled to false", enabled)
	case !literal:
		report(key, "needs at least one label whose value is not "+workspacePlaceholder+
			", or every object of a workspace would count as approved", enabled)
	}
}
