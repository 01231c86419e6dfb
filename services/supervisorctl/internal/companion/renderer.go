package companion

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Options are what the stock settings do not say.
type Options struct {
	// Telemetry is OPENSHELL_TELEMETRY_ENABLED of the supervisor (contract 7.6).
	Telemetry bool
	// ClientKey stages the client's certificate and key in the supervisor's bootstrap Secret outside of shared mode, for
	// gateways that still ask supervisors for a certificate. The newest contract stages the CA alone (contract 7.7).
	ClientKey bool
}

// Renderer renders companions by one set of settings. It holds no state and may be shared.
type Renderer struct {
	settings driverconf.Kubernetes
	options  Options
	scheme   workspace.Scheme
}

// New checks the settings; the error names every one that no companion can be rendered with, and joins them. The settings
// are copied, so that changing them later changes nothing here.
func New(settings *driverconf.Kubernetes, options Options) (*Renderer, error) {
	if settings == nil {
		return nil, errors.New("no settings to render companions with")
	}
	var problems []error
	report := func(key, problem string) { problems = append(problems, fmt.Errorf("%s %s", key, problem)) }
	settings.Validate(report)
	Validate(settings, options, report)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	r := &Renderer{settings: *settings, options: options, scheme: workspace.SchemeOf(settings)}
	r.settings.ImagePullSecrets = slices.Clone(settings.ImagePullSecrets)
	return r, nil
}

// Validate reports what no companion can be rendered with, under the keys of the stock table, beside what the settings themselves
// find.
func Validate(settings *driverconf.Kubernetes, options Options, report func(key, problem string)) {
	checkImages(settings, report)
	checkProxy(settings, report)
	checkMounts(settings, options, report)
}

func checkImages(k *driverconf.Kubernetes, report func(key, problem string)) {
	const longest = 1024
	switch image := k.SupervisorImage; {
	case image == "":
		report("supervisor_image", "must be set: it is the image that carries /openshell-supervisor, and there is no default")
	case len(image) > longest || !printable(image) || strings.Contains(image, " "):
		report("supervisor_image", fmt.Sprintf("must be an image reference of at most %d characters without a space", longest))
	}
	switch k.SupervisorImagePullPolicy {
	case driverconf.PullUnset, driverconf.PullAlways, driverconf.PullIfNotPresent, driverconf.PullNever:
	default:
		report("supervisor_image_pull_policy", "must be Always, IfNotPresent or Never, or not set")
	}
	if k.GRPCEndpoint == "" {
		report("grpc_endpoint", "must be set: without it a supervisor does not find its gateway")
	}
	if len(k.ImagePullSecrets) > workspace.MaxPullSecrets {
		report("image_pull_secrets", fmt.Sprintf("names %d Secrets, and at most %d can be copied", len(k.ImagePullSecrets), workspace.MaxPullSecrets))
	}
}

// checkProxy refuses what the supervisor refuses at its start: anything about a proxy without a proxy. It takes such a
// setting for a sign that the operator believes in a proxy that is not there.
func checkProxy(k *driverconf.Kubernetes, report func(key, problem string)) {
	for _, text := range []struct{ key, value string }{{"https_proxy", k.HTTPSProxy}, {"no_proxy", k.NoProxy}} {
		if !printable(text.value) {
			report(text.key, "must be printable text")
		}
	}
	if strings.TrimSpace(k.NoProxy) == "" && k.NoProxy != "" {
		report("no_proxy", "is blank; remove it")
	}
	if k.HTTPSProxy != "" {
		return
	}
	for _, s := range []struct {
		key string
		set bool
	}{
		{"no_proxy", k.NoProxy != ""},
		{"proxy_ca_bundle", k.ProxyCABundle != ""},
		{"proxy_connect_by_hostname", k.ProxyConnectByHostname},
	} {
		if s.set {
			report(s.key, "is set, but https_proxy is not, and the supervisor does not start with the one without the other")
		}
	}
}

// checkMounts keeps the directory of the SPIFFE socket out of the way of the supervisor's own mounts. /var/run is /run in
// most images.
func checkMounts(k *driverconf.Kubernetes, options Options, report func(key, problem string)) {
	if options.ClientKey && k.ClientTLSSecretName == "" {
		report("client_tls_secret_name", "must be set when the client's certificate and key are to be staged")
	}
	socket := k.ProviderSpiffeWorkloadAPISocketPath
	if socket == "" {
		return
	}
	const key = "provider_spiffe_workload_api_socket_path"
	if path.Clean(socket) != socket || !printable(socket) {
		report(key, "must be printable and without \"..\", \".\" and double slashes")
		return
	}
	resolved := func(p string) string {
		if rest, found := strings.CutPrefix(p, "/var/run/"); found {
			return "/run/" + rest
		}
		return p
	}
	below := func(a, b string) bool { return a == b || strings.HasPrefix(a, b+"/") }
	directory := resolved(path.Dir(socket))
	for _, own := range []string{bootstrapDirectory, tokenDirectory, clientTLSDirectory, runDirectory, logDirectory} {
		if own := resolved(own); below(directory, own) || below(own, directory) {
			report(key, fmt.Sprintf("is in a directory that overlaps with %s of the supervisor; use another one", own))
		}
	}
	if directory == "/var/run" {
		report(key, "is in /var/run itself; use a directory of its own")
	}
}

// managed says that pull Secrets are copied for each run (contract 9.5).
func (r *Renderer) managed() bool { return r.settings.WorkspaceMode == driverconf.ModeManaged }

// stagesClient says that the client's TLS files are in the supervisor's bootstrap Secret, because the Secret that the
// settings name is in another namespace (contract 7.6).
func (r *Renderer) stagesClient() bool {
	return r.settings.ClientTLSSecretName != "" && r.settings.WorkspaceMode != driverconf.ModeShared
}
