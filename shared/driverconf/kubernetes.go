package driverconf

import "slices"

// Kubernetes is the stock table [openshell.drivers.kubernetes]: every key of
// contract 3.1 with the same name and meaning, plus the gateway's own endpoint
// key of contract 2.1. Load fills the defaults; the zero value is not usable,
// since its WorkspaceMode is invalid.
//
// Text keys are empty when they are not set, unless the comment says otherwise.
// A nil pointer means not set.
type Kubernetes struct {
	// SocketPath is the Unix socket the gateway dials when it runs this driver
	// out of process (contract 2.1). The stock flag --bind-socket and its variable
	// override it, so this is the path to listen on. It may be empty for a daemon
	// that serves nothing; lifecycle, which listens nowhere else, refuses that and
	// judges the path by the rules of contract 2.2.
	SocketPath string `toml:"socket_path"`

	// AllowDriverConfig lets callers pass driver_config. Part of the acknowledged policy.
	AllowDriverConfig bool `toml:"allow_driver_config"`
	// ResourceAdmission is the rest of the acknowledged policy (contract 2.4).
	ResourceAdmission ResourceAdmission `toml:"resource_admission"`
	// AllowedExtendedResources are the extended resources, other than
	// nvidia.com/gpu, that a caller may ask for. Sorted, without duplicates.
	AllowedExtendedResources []string `toml:"allowed_extended_resources"`

	// WorkspaceMode is one of the three modes. Default shared.
	WorkspaceMode Mode `toml:"workspace_mode"`
	// GatewayID is never empty. It is a label value in every mode; in operator mode
	// also the first part of the allowlist's keys in NATS, so without two dots
	// together; in managed mode a part of namespace names, so a DNS-1123 label of at
	// most 33 characters. Default openshell.
	GatewayID string `toml:"gateway_id"`
	// Namespace holds all sandboxes in shared mode and is the namespace that source
	// Secrets are read from. A DNS-1123 label. Default openshell with a settings
	// file, default without one.
	Namespace string `toml:"namespace"`
	// OperatorNamespaceLabel is the label selector of trusted namespaces. In
	// operator mode exactly one of it and OperatorNamespaceFile is set and not
	// empty, and the selector has at least one requirement that a namespace meets by
	// having a label (=, ==, in, gt, lt or the bare key, other than the bare key of a
	// label that every namespace has). Beside it the full syntax of contract 5.1 may
	// stand. A selector that only excludes would trust nearly every namespace.
	OperatorNamespaceLabel *string `toml:"operator_namespace_label"`
	// OperatorNamespaceFile is the path of the JSON list of trusted namespaces.
	OperatorNamespaceFile *string `toml:"operator_namespace_file"`
	// ServiceAccountName is the ServiceAccount of both Pods and the only accepted
	// token subject. Default "default".
	ServiceAccountName string `toml:"service_account_name"`

	// DefaultImage is used when a template names no image. The built-in image of
	// the stock driver has changed between releases, so there is none here: when
	// it is empty, a create without an image must be refused.
	DefaultImage string `toml:"default_image"`
	// ImagePullPolicy is the workload image's policy.
	ImagePullPolicy PullPolicy `toml:"image_pull_policy"`
	// ImagePullSecrets are names of pull Secrets, in order.
	ImagePullSecrets []string `toml:"image_pull_secrets"`
	// ManagedSSHIngress opens SSH from the gateway in managed namespaces.
	ManagedSSHIngress ManagedSSHIngress `toml:"managed_ssh_ingress"`

	// SandboxRuntimeImage carries /openshell-sandbox. The stock default is the
	// image of the gateway's own release, which this process cannot know: whoever
	// renders a Pod must refuse an empty value and name this key.
	SandboxRuntimeImage string `toml:"sandbox_runtime_image"`
	// SandboxRuntimeImagePullPolicy is that image's policy.
	SandboxRuntimeImagePullPolicy PullPolicy `toml:"sandbox_runtime_image_pull_policy"`
	// SupervisorImage carries /openshell-supervisor. As with SandboxRuntimeImage,
	// empty must be refused by whoever renders a Pod.
	SupervisorImage string `toml:"supervisor_image"`
	// SupervisorImagePullPolicy is that image's policy.
	SupervisorImagePullPolicy PullPolicy `toml:"supervisor_image_pull_policy"`
	// SandboxRuntime holds the settings of the boundary.
	SandboxRuntime SandboxRuntime `toml:"sandbox_runtime"`

	// HTTPSProxy is the upstream forward proxy: an http or https URL without
	// credentials, query or fragment.
	HTTPSProxy string `toml:"https_proxy"`
	// NoProxy lists what goes around the proxy, in the proxy's own syntax. It holds
	// no @, so no credentials.
	NoProxy string `toml:"no_proxy"`
	// ProxyAuthSecretName and ProxyAuthSecretKey name the proxy credential; both
	// or neither are set, and only with HTTPSProxy.
	ProxyAuthSecretName string `toml:"proxy_auth_secret_name"`
	ProxyAuthSecretKey  string `toml:"proxy_auth_secret_key"`
	// ProxyAuthAllowInsecure is the operator's consent to send the credential to
	// an http proxy. Never true without a credential.
	ProxyAuthAllowInsecure bool `toml:"proxy_auth_allow_insecure"`
	// ProxyConnectByHostname sends names instead of checked addresses to the proxy.
	ProxyConnectByHostname bool `toml:"proxy_connect_by_hostname"`
	// ProxyCABundle is the path of a PEM file; see ReadProxyCABundle.
	ProxyCABundle string `toml:"proxy_ca_bundle"`

	// GRPCEndpoint becomes OPENSHELL_ENDPOINT of the supervisor: host:port, or an
	// http or https URL with a host; without credentials, query or fragment.
	GRPCEndpoint string `toml:"grpc_endpoint"`
	// SSHSocketPath defaults to /run/openshell/ssh.sock.
	SSHSocketPath string `toml:"ssh_socket_path"`
	// ClientTLSSecretName names a Secret with ca.crt; in shared mode, where Pods mount it whole, and with stage_client_key also with tls.crt and
	// tls.key.
	ClientTLSSecretName string `toml:"client_tls_secret_name"`
	// HostGatewayIP is the address behind the host gateway's name.
	HostGatewayIP string `toml:"host_gateway_ip"`
	// EnableUserNamespaces renders hostUsers: false on the workload Pod.
	EnableUserNamespaces bool `toml:"enable_user_namespaces"`
	// WorkspaceDefaultStorageSize is a positive Kubernetes quantity. Default 2Gi.
	WorkspaceDefaultStorageSize string `toml:"workspace_default_storage_size"`
	// WorkspaceStorageClass is empty for the cluster's default class.
	WorkspaceStorageClass string `toml:"workspace_storage_class"`
	// DefaultRuntimeClassName is empty for the cluster's default runtime.
	DefaultRuntimeClassName string `toml:"default_runtime_class_name"`
	// SATokenTTLSecs is the life of the projected token in seconds, already
	// brought into 600..86400 by Load (contract 3.1). Default 3600.
	SATokenTTLSecs int64 `toml:"sa_token_ttl_secs"`
	// ProviderSpiffeWorkloadAPISocketPath is absolute, and its directory is not /.
	ProviderSpiffeWorkloadAPISocketPath string `toml:"provider_spiffe_workload_api_socket_path"`
	// SandboxUID and SandboxGID are 1..4294967294 when set; contract 9.4 says what
	// applies when they are not.
	SandboxUID *uint32 `toml:"sandbox_uid"`
	SandboxGID *uint32 `toml:"sandbox_gid"`
	// SupervisorOTLPEndpoint is passed to the supervisor: an http or https URL
	// without credentials, query or fragment.
	SupervisorOTLPEndpoint string `toml:"supervisor_otlp_endpoint"`
}

// ManagedSSHIngress is the table managed_ssh_ingress. It has effect in managed
// mode only, where the namespace and the selector are set when Enabled is true.
type ManagedSSHIngress struct {
	Enabled            bool              `toml:"enabled"`
	GatewayNamespace   string            `toml:"gateway_namespace"`
	GatewayPodSelector map[string]string `toml:"gateway_pod_selector"`
}

// SandboxRuntime is the table sandbox_runtime.
type SandboxRuntime struct {
	// BoundaryPort is at least 1024. Default 5500.
	BoundaryPort uint16 `toml:"boundary_port"`
	// NetworkPolicyEnforced is the operator's statement that the cluster's network
	// enforces NetworkPolicy. Not every version of the stock driver knows the key.
	NetworkPolicyEnforced bool `toml:"network_policy_enforced"`
}

const (
	defaultTokenTTLSecs = 3600
	minTokenTTLSecs     = 600
	maxTokenTTLSecs     = 86400
)

// defaultKubernetes returns the defaults of contract 3.1. The stock driver falls
// back to another namespace when it runs without a settings file (3.3).
func defaultKubernetes(withFile bool) Kubernetes {
	k := Kubernetes{
		ResourceAdmission:           defaultResourceAdmission(),
		WorkspaceMode:               ModeShared,
		GatewayID:                   "openshell",
		Namespace:                   "openshell",
		ServiceAccountName:          "default",
		SandboxRuntime:              SandboxRuntime{BoundaryPort: 5500},
		SSHSocketPath:               "/run/openshell/ssh.sock",
		WorkspaceDefaultStorageSize: "2Gi",
		SATokenTTLSecs:              defaultTokenTTLSecs,
	}
	if !withFile {
		k.Namespace = "default"
	}
	return k
}

// normalise applies the rules of contract 3.1 that correct a value instead of
// refusing it.
func (k *Kubernetes) normalise() {
	switch ttl := k.SATokenTTLSecs; {
	case ttl <= 0:
		k.SATokenTTLSecs = defaultTokenTTLSecs
	default:
		k.SATokenTTLSecs = min(max(ttl, minTokenTTLSecs), maxTokenTTLSecs)
	}
	slices.Sort(k.AllowedExtendedResources)
	k.AllowedExtendedResources = slices.Compact(k.AllowedExtendedResources)
}
