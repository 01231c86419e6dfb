package driverconf

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxWorkspaceName is the longest workspace name the gateway accepts (contract 3.2).
	maxWorkspaceName = 19
	maxNamespace     = 63
	minBoundaryPort  = 1024
	maxSandboxID     = 1<<32 - 2
)

const (
	labelRule     = "must be a DNS-1123 label: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends"
	subdomainRule = "must be a DNS-1123 subdomain: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends of each part"
)

// Validate reports every rule of contract 2.4, 3.1 and 3.2 that k breaks, under
// keys relative to the table. It does no I/O. Load calls it; call it again only
// for settings made by hand.
func (k *Kubernetes) Validate(report func(key, problem string)) {
	k.ResourceAdmission.validate(report)
	k.validateNames(report)
	k.validateMode(report)
	k.validateOperatorSources(report)
	k.validateSSHIngress(report)
	k.validateProxy(report)
	k.validateSandbox(report)
	for key, endpoint := range map[string]string{
		"grpc_endpoint": k.GRPCEndpoint, "supervisor_otlp_endpoint": k.SupervisorOTLPEndpoint,
	} {
		if carriesCredentials(endpoint) {
			report(key, "must not carry credentials; remove what stands before the @")
		}
	}
	if k.SupervisorOTLPEndpoint != "" && !isHTTPURL(k.SupervisorOTLPEndpoint) {
		report("supervisor_otlp_endpoint", "must be an http or https URL with a host")
	}
}

func (k *Kubernetes) validateNames(report func(key, problem string)) {
	if len(validation.IsDNS1123Label(k.Namespace)) > 0 {
		report("namespace", labelRule)
	}
	if len(validation.IsDNS1123Subdomain(k.ServiceAccountName)) > 0 {
		report("service_account_name", subdomainRule)
	}
	for _, n := range []struct{ key, name string }{
		{"client_tls_secret_name", k.ClientTLSSecretName},
		{"workspace_storage_class", k.WorkspaceStorageClass},
		{"default_runtime_class_name", k.DefaultRuntimeClassName},
	} {
		if n.name != "" && len(validation.IsDNS1123Subdomain(n.name)) > 0 {
			report(n.key, subdomainRule)
		}
	}
	for i, name := range k.ImagePullSecrets {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			report(fmt.Sprintf("image_pull_secrets[%d]", i), subdomainRule)
		}
	}
	for _, name := range k.AllowedExtendedResources {
		if !strings.Contains(name, "/") || len(validation.IsQualifiedName(name)) > 0 {
			report("allowed_extended_resources", fmt.Sprintf("%s is not an extended resource; use domain/name, such as example.com/device", quote(name)))
		}
	}
}

func (k *Kubernetes) validateMode(report func(key, problem string)) {
	switch k.WorkspaceMode {
	case ModeShared, ModeManaged, ModeOperator:
	default:
		report("workspace_mode", "must be shared, managed or operator")
	}
	if k.WorkspaceMode != ModeManaged {
		if len(validation.IsValidLabelValue(k.GatewayID)) > 0 {
			report("gateway_id", "is used as a label value: at most 63 of A-Z, a-z, 0-9, '-', '_' and '.', with a letter or digit at both ends")
		}
		return
	}
	longest := maxNamespace - maxWorkspaceName - len("openshell--")
	switch {
	case len(validation.IsDNS1123Label(k.GatewayID)) > 0:
		report("gateway_id", "managed mode: "+labelRule)
	case len(k.GatewayID) > longest:
		report("gateway_id", fmt.Sprintf("managed mode: is %d characters, but at most %d leave room for a workspace name in a namespace name of %d",
			len(k.GatewayID), longest, maxNamespace))
	}
}

// validateOperatorSources demands exactly one source in operator mode. A
// selector must parse in any mode, as no cluster would ever accept it.
func (k *Kubernetes) validateOperatorSources(report func(key, problem string)) {
	const label, file = "operator_namespace_label", "operator_namespace_file"
	operator := k.WorkspaceMode == ModeOperator
	if operator {
		switch hasLabel, hasFile := k.OperatorNamespaceLabel != nil, k.OperatorNamespaceFile != nil; {
		case !hasLabel && !hasFile:
			report(label, "operator mode needs exactly one of "+label+" and "+file+", but neither is set")
		case hasLabel && hasFile:
			report(label, "operator mode needs exactly one of "+label+" and "+file+", but both are set; remove one")
		}
		if k.OperatorNamespaceFile != nil && *k.OperatorNamespaceFile == "" {
			report(file, "is set to the empty string; name a file or remove the key")
		}
	}
	if k.OperatorNamespaceLabel == nil {
		return
	}
	selector, err := labels.Parse(*k.OperatorNamespaceLabel)
	switch {
	case err != nil:
		why, _, _ := strings.Cut(err.Error(), " (e.g.") // the rest is a regular expression
		report(label, "is not a label selector: "+why)
	case !operator:
	case *k.OperatorNamespaceLabel == "":
		report(label, "is set to the empty string; name a selector or remove the key")
	case selector.Empty():
		report(label, "selects every namespace of the cluster; name at least one requirement")
	}
}

func (k *Kubernetes) validateSSHIngress(report func(key, problem string)) {
	const namespace, selector = "managed_ssh_ingress.gateway_namespace", "managed_ssh_ingress.gateway_pod_selector"
	in := k.ManagedSSHIngress
	if in.GatewayNamespace != "" && len(validation.IsDNS1123Label(in.GatewayNamespace)) > 0 {
		report(namespace, labelRule)
	}
	for _, name := range slices.Sorted(maps.Keys(in.GatewayPodSelector)) {
		if len(validation.IsQualifiedName(name)) > 0 {
			report(selector, fmt.Sprintf("%s is not a label key", quote(name)))
		}
		if value := in.GatewayPodSelector[name]; len(validation.IsValidLabelValue(value)) > 0 {
			report(selector, fmt.Sprintf("label %s: %s is not a label value", quote(name), quote(value)))
		}
	}
	if k.WorkspaceMode != ModeManaged || !in.Enabled {
		return
	}
	const why = "must be set while managed_ssh_ingress.enabled is true in managed mode"
	if in.GatewayNamespace == "" {
		report(namespace, why)
	}
	if len(in.GatewayPodSelector) == 0 {
		report(selector, why+", or every Pod of the gateway's namespace could connect")
	}
}

func (k *Kubernetes) validateSandbox(report func(key, problem string)) {
	if k.SandboxRuntime.BoundaryPort < minBoundaryPort {
		report("sandbox_runtime.boundary_port", fmt.Sprintf("must be from %d to 65535, but is %d", minBoundaryPort, k.SandboxRuntime.BoundaryPort))
	}
	for _, id := range []struct {
		key   string
		value *uint32
	}{{"sandbox_uid", k.SandboxUID}, {"sandbox_gid", k.SandboxGID}} {
		if id.value != nil && (*id.value < 1 || *id.value > maxSandboxID) {
			report(id.key, fmt.Sprintf("must be from 1 to %d, but is %d", uint32(maxSandboxID), *id.value))
		}
	}
	if why := quantityProblem(k.WorkspaceDefaultStorageSize); why != "" {
		report("workspace_default_storage_size", why)
	}
	if k.HostGatewayIP != "" {
		if ip, err := netip.ParseAddr(k.HostGatewayIP); err != nil || ip.Zone() != "" {
			report("host_gateway_ip", "must be an IP address without a zone")
		}
	}
	if p := k.ProviderSpiffeWorkloadAPISocketPath; p != "" {
		const key = "provider_spiffe_workload_api_socket_path"
		switch {
		case strings.TrimSpace(p) != p:
			report(key, "must not begin or end with a space")
		case !path.IsAbs(p):
			report(key, "must be an absolute path")
		case path.Dir(path.Clean(p)) == "/":
			report(key, "must be in a directory other than /, since the directory is mounted")
		}
	}
}

// hugeExponent finds decimal exponents of three digits and more. The quantity
// parser would expand them digit by digit and not come back.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

func quantityProblem(text string) string {
	const want = "must be a Kubernetes quantity such as 2Gi"
	if len(text) > 64 || hugeExponent.MatchString(text) {
		return want
	}
	switch q, err := resource.ParseQuantity(text); {
	case err != nil:
		return want
	case q.Sign() <= 0:
		return "must be more than zero"
	default:
		return ""
	}
}

// Validate reports what is wrong with the flags, under their names.
func (s *Standalone) Validate(report func(key, problem string)) {
	if _, err := netip.ParseAddrPort(s.BindAddress); err != nil {
		report("bind-address", "must be an IP address and a port, such as 127.0.0.1:50061 or [::1]:50061")
	}
	switch {
	case s.OTLPEndpoint == "":
	case carriesCredentials(s.OTLPEndpoint):
		report("otlp-endpoint", "must not carry credentials; remove what stands before the @")
	case !isHTTPURL(s.OTLPEndpoint):
		report("otlp-endpoint", "must be an http or https URL with a host")
	}
}

// isHTTPURL never shows the URL, nor does any message made from its answer: a
// person may have put a credential into it.
func isHTTPURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// carriesCredentials errs on the safe side for text that is no URL.
func carriesCredentials(text string) bool {
	authority := text
	if _, rest, ok := strings.Cut(text, "://"); ok {
		authority = rest
	}
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		authority = authority[:end]
	}
	return strings.Contains(authority, "@")
}
