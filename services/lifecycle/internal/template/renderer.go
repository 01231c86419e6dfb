package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	maxImage = 1024
	// maxPullSecrets keeps them a small part of the object.
	maxPullSecrets = 256
)

// Options are what the stock settings do not say.
type Options struct {
	// Telemetry is OPENSHELL_TELEMETRY_ENABLED of the workload (contract 7.5).
	Telemetry bool
}

// Renderer renders by one set of settings. It holds no state and may be shared.
type Renderer struct {
	settings driverconf.Kubernetes
	options  Options
	scheme   workspace.Scheme
	storage  resource.Quantity
}

// New keeps a copy of the settings; the error joins everything that nothing can be rendered with.
func New(settings *driverconf.Kubernetes, options Options) (*Renderer, error) {
	if settings == nil {
		return nil, errors.New("rendering sandboxes: there are no settings")
	}
	var problems []error
	report := func(key, problem string) { problems = append(problems, fmt.Errorf("%s %s", key, problem)) }
	settings.Validate(report)
	Validate(settings, report)
	if len(problems) > 0 {
		return nil, fmt.Errorf("rendering sandboxes: %w", errors.Join(problems...))
	}
	r := &Renderer{settings: *settings, options: options, scheme: workspace.SchemeOf(settings)}
	r.settings.ImagePullSecrets = slices.Clone(settings.ImagePullSecrets)
	r.storage = resource.MustParse(settings.WorkspaceDefaultStorageSize) // Validate has read it
	return r, nil
}

// Validate reports what no Sandbox can be rendered with, under the keys of the stock table, beside what the settings themselves
// find.
func Validate(settings *driverconf.Kubernetes, report func(key, problem string)) {
	if settings.SandboxRuntimeImage == "" {
		report("sandbox_runtime_image", "must be set: it is the image that carries /openshell-sandbox, and there is no default")
	}
	for _, image := range []struct{ key, value string }{
		{"sandbox_runtime_image", settings.SandboxRuntimeImage}, {"default_image", settings.DefaultImage},
	} {
		if len(image.value) > maxImage || strings.ContainsFunc(image.value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			report(image.key, fmt.Sprintf("must be an image reference of at most %d printable characters without a space", maxImage))
		}
	}
	for _, policy := range []struct {
		key   string
		value driverconf.PullPolicy
	}{{"image_pull_policy", settings.ImagePullPolicy}, {"sandbox_runtime_image_pull_policy", settings.SandboxRuntimeImagePullPolicy}} {
		switch policy.value {
		case driverconf.PullUnset, driverconf.PullAlways, driverconf.PullIfNotPresent, driverconf.PullNever:
		default:
			report(policy.key, "must be Always, IfNotPresent or Never, or not set")
		}
	}
	if len(settings.ImagePullSecrets) > maxPullSecrets {
		report("image_pull_secrets", fmt.Sprintf("names %d Secrets, and at most %d have room in a Sandbox", len(settings.ImagePullSecrets), maxPullSecrets))
	}
	for _, class := range []struct{ key, value string }{
		{"default_runtime_class_name", settings.DefaultRuntimeClassName}, {"workspace_storage_class", settings.WorkspaceStorageClass},
	} {
		if class.value != "" && len(validation.IsDNS1123Subdomain(class.value)) > 0 {
			report(class.key, "must be the name of an object, or empty")
		}
	}
	if q, err := resource.ParseQuantity(settings.WorkspaceDefaultStorageSize); err != nil || q.Sign() <= 0 {
		report("workspace_default_storage_size", "must be a positive Kubernetes quantity")
	}
}
