package driverconf

const (
	kubernetesPrefix = "openshell.drivers.kubernetes"
	portcullisPrefix = "portcullis"
)

// spec ties a setting to its flag, its environment variable and its rule. The
// table below is the only place that names them: flags, environment and
// documentation are all made from it.
type spec struct {
	key string // as Config.Origin takes it
	// flag without dashes and env are empty when the setting has none (contract 3.3).
	flag, env string
	// emptyEnv: an environment variable set to "" sets the empty value. Otherwise
	// it counts as not set, since templates often render variables without a value.
	emptyEnv bool
	rule     string
	// refused is not empty for a setting that the stock driver has and this one
	// must not have: the problem of whoever sets it.
	refused string
}

// admissionSpec replaces several keys at once, so it stands outside the list.
var admissionSpec = spec{
	flag: "admission-config-json", env: "OPENSHELL_DRIVER_ADMISSION_CONFIG_JSON",
	rule: "JSON of allow_driver_config and resource_admission; replaces both, absent parts take the stock default",
}

func kubernetesSpec(name, flag, env string, emptyEnv bool, rule string) spec {
	return spec{key: kubernetesPrefix + "." + name, flag: flag, env: env, emptyEnv: emptyEnv, rule: rule}
}

// specs lists every setting of contract 3.1 and 3.3 in documentation order.
func specs() []spec {
	const mayBeEmpty, notEmpty = true, false
	k := kubernetesSpec
	return []spec{
		{key: portcullisPrefix + ".log_level", flag: "log-level", env: "OPENSHELL_LOG_LEVEL", rule: "trace, debug, info, warn or error"},
		{key: portcullisPrefix + ".telemetry.otlp_endpoint", flag: "otlp-endpoint", env: "OPENSHELL_OTLP_ENDPOINT", emptyEnv: true, rule: "http or https URL of the trace collector's host and port; empty for no traces"},
		{key: flagPrefix + "bind-address", flag: "bind-address", env: "OPENSHELL_COMPUTE_DRIVER_BIND", rule: "refused: use --bind-socket", refused: "is not supported: the driver is served on a private Unix socket only," +
			" since whoever reaches it is believed; use --bind-socket (or OPENSHELL_COMPUTE_DRIVER_SOCKET) and leave this out"},
		{key: flagPrefix + "gateway-name", flag: "gateway-name", env: "OPENSHELL_GATEWAY_NAME", emptyEnv: true, rule: "name of the gateway instance, for logs"},

		k("socket_path", "bind-socket", "OPENSHELL_COMPUTE_DRIVER_SOCKET", mayBeEmpty, "Unix socket that the gateway dials"),
		k("allow_driver_config", "", "", notEmpty, "let callers pass driver_config; part of the acknowledged policy"),
		k("resource_admission.enabled", "", "", notEmpty, "require labels on attached objects"),
		k("resource_admission.required_labels", "", "", notEmpty, "not empty while enabled; one value at least is not ${workspace}; no label of the driver itself"),
		k("allowed_extended_resources", "", "", notEmpty, "qualified names with a domain"),
		k("workspace_mode", "workspace-mode", "OPENSHELL_WORKSPACE_MODE", notEmpty, "shared, managed or operator"),
		k("gateway_id", "gateway-id", "OPENSHELL_GATEWAY_ID", notEmpty, "not empty, a label value; operator mode: no two dots together; managed mode: DNS-1123 label of at most 33 characters"),
		k("namespace", "sandbox-namespace", "OPENSHELL_SANDBOX_NAMESPACE", notEmpty, "DNS-1123 label"),
		k("operator_namespace_label", "operator-namespace-label", "OPENSHELL_OPERATOR_NAMESPACE_LABEL", notEmpty, "label selector; operator mode: with a requirement other than !=, notin and !, and exactly one of label and file"),
		k("operator_namespace_file", "operator-namespace-file", "OPENSHELL_OPERATOR_NAMESPACE_FILE", notEmpty, "path of a JSON list; operator mode: exactly one of label and file"),
		k("service_account_name", "sandbox-service-account", "OPENSHELL_K8S_SANDBOX_SERVICE_ACCOUNT", notEmpty, "DNS-1123 subdomain"),
		k("default_image", "sandbox-image", "OPENSHELL_SANDBOX_IMAGE", mayBeEmpty, "image of a sandbox whose template names none; a create needs one of the two"),
		k("image_pull_policy", "sandbox-image-pull-policy", "OPENSHELL_SANDBOX_IMAGE_PULL_POLICY", mayBeEmpty, "always, if_not_present or never"),
		k("image_pull_secrets", "sandbox-image-pull-secrets", "OPENSHELL_SANDBOX_IMAGE_PULL_SECRETS", mayBeEmpty, "DNS-1123 subdomains; as text a comma list"),
		k("managed_ssh_ingress.enabled", "managed-ssh-ingress-enabled", "OPENSHELL_MANAGED_SSH_INGRESS_ENABLED", notEmpty, "managed mode only"),
		k("managed_ssh_ingress.gateway_namespace", "managed-ssh-gateway-namespace", "OPENSHELL_MANAGED_SSH_GATEWAY_NAMESPACE", mayBeEmpty, "DNS-1123 label; required when enabled in managed mode"),
		k("managed_ssh_ingress.gateway_pod_selector", "managed-ssh-gateway-pod-selector", "OPENSHELL_MANAGED_SSH_GATEWAY_POD_SELECTOR", mayBeEmpty, "labels; required when enabled in managed mode; as text a comma list of key=value"),
		k("sandbox_runtime_image", "sandbox-runtime-image", "OPENSHELL_SANDBOX_RUNTIME_IMAGE", mayBeEmpty, "image with /openshell-sandbox; needed to start sandboxes"),
		k("sandbox_runtime_image_pull_policy", "sandbox-runtime-image-pull-policy", "OPENSHELL_SANDBOX_RUNTIME_IMAGE_PULL_POLICY", mayBeEmpty, "always, if_not_present or never"),
		k("supervisor_image", "supervisor-image", "OPENSHELL_SUPERVISOR_IMAGE", mayBeEmpty, "image with /openshell-supervisor; needed to start sandboxes"),
		k("supervisor_image_pull_policy", "supervisor-image-pull-policy", "OPENSHELL_SUPERVISOR_IMAGE_PULL_POLICY", mayBeEmpty, "always, if_not_present or never"),
		k("sandbox_runtime.boundary_port", "sandbox-runtime-boundary-port", "OPENSHELL_K8S_SANDBOX_RUNTIME_BOUNDARY_PORT", notEmpty, "1024 to 65535"),
		k("sandbox_runtime.network_policy_enforced", "", "", notEmpty, "the operator states that the cluster enforces NetworkPolicy"),
		k("https_proxy", "https-proxy", "OPENSHELL_UPSTREAM_PROXY", mayBeEmpty, "http or https URL without credentials, query or fragment"),
		k("no_proxy", "no-proxy", "OPENSHELL_UPSTREAM_NO_PROXY", mayBeEmpty, "comma list of destinations that go around the proxy, without @"),
		k("proxy_auth_secret_name", "proxy-auth-secret-name", "OPENSHELL_UPSTREAM_PROXY_AUTH_SECRET_NAME", mayBeEmpty, "DNS-1123 subdomain; needs proxy_auth_secret_key and https_proxy"),
		k("proxy_auth_secret_key", "proxy-auth-secret-key", "OPENSHELL_UPSTREAM_PROXY_AUTH_SECRET_KEY", mayBeEmpty, "at most 253 of A-Z a-z 0-9 . _ -, not . or ..; needs proxy_auth_secret_name"),
		k("proxy_auth_allow_insecure", "proxy-auth-allow-insecure", "OPENSHELL_UPSTREAM_PROXY_AUTH_ALLOW_INSECURE", notEmpty, "required to send a credential to an http proxy; an error without a credential"),
		k("proxy_connect_by_hostname", "proxy-connect-by-hostname", "OPENSHELL_UPSTREAM_PROXY_CONNECT_BY_HOSTNAME", notEmpty, "send names instead of addresses to the proxy"),
		k("proxy_ca_bundle", "proxy-ca-bundle", "OPENSHELL_UPSTREAM_PROXY_CA_BUNDLE", mayBeEmpty, "path of a PEM file of at most 256 KiB with at least one certificate"),
		k("grpc_endpoint", "grpc-endpoint", "OPENSHELL_GRPC_ENDPOINT", mayBeEmpty, "where supervisors reach the gateway: host:port or an http or https URL, without credentials, query or fragment"),
		k("ssh_socket_path", "sandbox-ssh-socket-path", "OPENSHELL_SANDBOX_SSH_SOCKET_PATH", notEmpty, "path inside the sandbox"),
		k("client_tls_secret_name", "client-tls-secret-name", "OPENSHELL_CLIENT_TLS_SECRET_NAME", mayBeEmpty, "DNS-1123 subdomain; a Secret with ca.crt, and in shared mode or with stage_client_key tls.crt and tls.key"),
		k("host_gateway_ip", "host-gateway-ip", "OPENSHELL_HOST_GATEWAY_IP", mayBeEmpty, "IP address"),
		k("enable_user_namespaces", "enable-user-namespaces", "OPENSHELL_ENABLE_USER_NAMESPACES", notEmpty, "hostUsers: false on workload Pods"),
		k("workspace_default_storage_size", "", "OPENSHELL_K8S_WORKSPACE_DEFAULT_STORAGE_SIZE", notEmpty, "positive Kubernetes quantity"),
		k("workspace_storage_class", "", "OPENSHELL_K8S_WORKSPACE_STORAGE_CLASS", mayBeEmpty, "DNS-1123 subdomain; empty for the cluster's default"),
		k("default_runtime_class_name", "", "OPENSHELL_K8S_DEFAULT_RUNTIME_CLASS_NAME", mayBeEmpty, "DNS-1123 subdomain; empty for the cluster's default"),
		k("sa_token_ttl_secs", "sa-token-ttl-secs", "OPENSHELL_K8S_SA_TOKEN_TTL_SECS", notEmpty, "seconds; zero or less means 3600, anything else is brought into 600 to 86400"),
		k("provider_spiffe_workload_api_socket_path", "provider-spiffe-workload-api-socket-path", "OPENSHELL_PROVIDER_SPIFFE_WORKLOAD_API_SOCKET", mayBeEmpty, "absolute path in a directory other than /"),
		k("sandbox_uid", "sandbox-uid", "OPENSHELL_K8S_SANDBOX_UID", notEmpty, "1 to 4294967294"),
		k("sandbox_gid", "sandbox-gid", "OPENSHELL_K8S_SANDBOX_GID", notEmpty, "1 to 4294967294"),
		k("supervisor_otlp_endpoint", "", "", notEmpty, "http or https URL without credentials, query or fragment"),
	}
}
