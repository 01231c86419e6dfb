package driverconf

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
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
// keys relative to the table. It does no I/O. Load has checked all of it; call it
// only for settings made by hand.
func (k *Kubernetes) Validate(report func(key, problem string)) {
	k.check(func(key, problem string, _ ...string) { report(key, problem) })
}

func (k *Kubernetes) check(report Report) {
	k.ResourceAdmission.validate(report)
	k.validateNames(report)
	k.validateGatewayID(report)
	k.validateOperatorSources(report)
	k.validateSSHIngress(report)
	k.validateProxy(report)
	k.validateSandbox(report)
	if why := grpcEndpointProblem(k.GRPCEndpoint); why != "" {
		report("grpc_endpoint", why)
	}
	if why := urlProblem(k.SupervisorOTLPEndpoint); why != "" {
		report("supervisor_otlp_endpoint", why)
	}
}

func (k *Kubernetes) validateNames(report Report) {
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

// validateGatewayID holds the gateway's id to all that is made of it in the mode.
func (k *Kubernetes) validateGatewayID(report Report) {
	const key, mode = "gateway_id", "workspace_mode"
	longest := maxNamespace - maxWorkspaceName - len("openshell--")
	switch k.WorkspaceMode {
	case ModeShared, ModeManaged, ModeOperator:
	default:
		report(mode, "must be shared, managed or operator")
	}
	switch managed := k.WorkspaceMode == ModeManaged; {
	case k.GatewayID == "":
		report(key, "must not be empty: it tells the objects of this gateway from those of another")
	case managed && len(validation.IsDNS1123Label(k.GatewayID)) > 0:
		report(key, "managed mode: "+labelRule, mode)
	case managed && len(k.GatewayID) > longest:
		report(key, fmt.Sprintf("managed mode: is %d characters, but at most %d leave room for a workspace name in a namespace name of %d",
			len(k.GatewayID), longest, maxNamespace), mode)
	case len(validation.IsValidLabelValue(k.GatewayID)) > 0:
		report(key, "is used as a label value: at most 63 of A-Z, a-z, 0-9, '-', '_' and '.', with a letter or digit at both ends")
	case k.WorkspaceMode == ModeOperator && strings.Contains(k.GatewayID, ".."):
		report(key, "operator mode: must not hold two dots together, since it begins the names of the allowlist's keys in NATS", mode)
	}
}

// validateOperatorSources demands exactly one source in operator mode. A
// selector must parse in any mode, as no cluster would ever accept it.
func (k *Kubernetes) validateOperatorSources(report Report) {
	const label, file, mode = "operator_namespace_label", "operator_namespace_file", "workspace_mode"
	operator := k.WorkspaceMode == ModeOperator
	if operator {
		switch hasLabel, hasFile := k.OperatorNamespaceLabel != nil, k.OperatorNamespaceFile != nil; {
		case !hasLabel && !hasFile:
			report(label, "operator mode needs exactly one of "+label+" and "+file+", but neither is set", file, mode)
		case hasLabel && hasFile:
			report(label, "operator mode needs exactly one of "+label+" and "+file+", but both are set; remove one", file, mode)
		}
		if k.OperatorNamespaceFile != nil && *k.OperatorNamespaceFile == "" {
			report(file, "is set to the empty string; name a file or remove the key", mode)
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
		report(label, "is set to the empty string; name a selector or remove the key", mode)
	case selector.Empty():
		report(label, "selects every namespace of the cluster; name at least one requirement", mode)
	case !demandsLabel(selector):
		report(label, "selects nearly every namespace of the cluster, since all its requirements only exclude (!=, notin, !) or name a label"+
			" that every namespace has; add one that only trusted namespaces meet, such as openshell.ai/workspace=true", mode)
	}
}

// everyNamespace is the label that the API server puts on each namespace.
const everyNamespace = "kubernetes.io/metadata.name"

// demandsLabel tells whether a namespace must have some label to be selected, and
// not just one that all have.
func demandsLabel(s labels.Selector) bool {
	requirements, _ := s.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals, selection.GreaterThan, selection.LessThan:
			return true
		case selection.Exists:
			return r.Key() != everyNamespace
		default:
			return false
		}
	})
}

func (k *Kubernetes) validateSSHIngress(report Report) {
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
		report(namespace, why, "managed_ssh_ingress.enabled", "workspace_mode")
	}
	if len(in.GatewayPodSelector) == 0 {
		report(selector, why+", or every Pod of the gateway's namespace could connect", "managed_ssh_ingress.enabled", "workspace_mode")
	}
}

func (k *Kubernetes) validateSandbox(report Report) {
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
