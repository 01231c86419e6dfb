package driverconf_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func TestEveryKeyIsRead(t *testing.T) {
	c, err := load(file(everyKey()))
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range driverconf.Keys() {
		name, isStock := strings.CutPrefix(k.Name, stock)
		if !isStock {
			continue
		}
		if _, ok := everyKey()[name]; !ok {
			t.Errorf("the test's file lacks %s", name)
		}
		if o := c.Origin(k.Name); o.Kind != driverconf.OriginFile || o.Line < 3 {
			t.Errorf("%s comes from %v, want a line of the file", name, o)
		}
		if o := defaults.Origin(k.Name); o.Kind != driverconf.OriginDefault {
			t.Errorf("%s comes from %v, want the default", name, o)
		}
	}
	k := c.Kubernetes
	if k.ImagePullPolicy != driverconf.PullIfNotPresent || k.SandboxRuntimeImagePullPolicy != driverconf.PullAlways ||
		k.SupervisorImagePullPolicy != driverconf.PullNever {
		t.Errorf("pull policies are not in the Kubernetes spelling: %q %q %q",
			k.ImagePullPolicy, k.SandboxRuntimeImagePullPolicy, k.SupervisorImagePullPolicy)
	}
	if len(k.ResourceAdmission.RequiredLabels) != 2 || k.ResourceAdmission.RequiredLabels["example.com/approved"] != "yes" {
		t.Errorf("labels %v: a default label survived beside those of the file", k.ResourceAdmission.RequiredLabels)
	}
}

// TestRules breaks each rule once, from one valid base. Each case must give
// exactly one problem.
func TestRules(t *testing.T) {
	managed := everyKey()
	shared := with(managed, "workspace_mode", `"shared"`)
	operator := with(managed, "workspace_mode", `"operator"`, "operator_namespace_file", "")
	for name, base := range map[string]map[string]string{"managed": managed, "shared": shared, "operator": operator} {
		if _, err := load(file(base)); err != nil {
			t.Fatalf("the %s base is not valid: %v", name, err)
		}
	}
	admits := with(managed, "resource_admission.enabled", "true")
	long := func(n int) string { return `"` + strings.Repeat("a", n) + `"` }
	plain := func(changes ...string) map[string]string {
		return with(with(managed, "proxy_auth_secret_name", "", "proxy_auth_secret_key", "", "proxy_auth_allow_insecure", ""), changes...)
	}
	tests := []struct {
		name string
		keys map[string]string
		key  string // relative
		text string
	}{
		{"no labels while enabled", with(admits, "resource_admission.required_labels", `{}`), "resource_admission.required_labels", "must not be empty while"},
		{"placeholder only", with(admits, "resource_admission.required_labels", `{ a = "${workspace}" }`), "resource_admission.required_labels", "at least one label whose value is not"},
		{"placeholder as a part", with(admits, "resource_admission.required_labels", `{ a = "x-${workspace}" }`), "resource_admission.required_labels", "entire value"},
		{"label key", with(admits, "resource_admission.required_labels", `{ "a b" = "x" }`), "resource_admission.required_labels", "not a label key"},
		{"label value", with(admits, "resource_admission.required_labels", `{ a = "x y" }`), "resource_admission.required_labels", "not a label value"},
		{"label value while disabled", with(managed, "resource_admission.required_labels", `{ a = "x y" }`), "resource_admission.required_labels", "not a label value"},
		{"own label managed-by", with(admits, "resource_admission.required_labels", `{ "openshell.ai/managed-by" = "x" }`), "resource_admission.required_labels", "written by the driver itself"},
		{"own label gateway-id", with(admits, "resource_admission.required_labels", `{ "openshell.ai/gateway-id" = "x" }`), "resource_admission.required_labels", "written by the driver itself"},
		{"own label sandbox-workspace", with(admits, "resource_admission.required_labels", `{ "openshell.ai/sandbox-workspace" = "x" }`), "resource_admission.required_labels", "written by the driver itself"},
		{"resource without domain", with(managed, "allowed_extended_resources", `["memory"]`), "allowed_extended_resources", "not an extended resource"},
		{"resource not a name", with(managed, "allowed_extended_resources", `["example.com/a b"]`), "allowed_extended_resources", "not an extended resource"},

		{"mode", with(shared, "workspace_mode", `"Shared"`), "workspace_mode", "use shared, managed or operator"},
		{"mode empty", with(shared, "workspace_mode", `""`), "workspace_mode", "use shared, managed or operator"},
		{"managed: no gateway id", with(managed, "gateway_id", `""`), "gateway_id", "must not be empty"},
		{"shared: no gateway id", with(shared, "gateway_id", `""`), "gateway_id", "must not be empty"},
		{"operator: no gateway id", with(operator, "gateway_id", `""`), "gateway_id", "must not be empty"},
		{"operator: gateway id with an empty part", with(operator, "gateway_id", `"a..b"`), "gateway_id", "two dots together"},
		{"operator: gateway id begins with a dot", with(operator, "gateway_id", `".a"`), "gateway_id", "label value"},
		{"operator: gateway id ends with a dot", with(operator, "gateway_id", `"a."`), "gateway_id", "label value"},
		{"operator: gateway id with a wildcard", with(operator, "gateway_id", `"a.*"`), "gateway_id", "label value"},
		{"operator: gateway id with a space", with(operator, "gateway_id", `"a b"`), "gateway_id", "label value"},
		{"managed: gateway id no label", with(managed, "gateway_id", `"Blue"`), "gateway_id", "DNS-1123 label"},
		{"managed: gateway id too long", with(managed, "gateway_id", long(34)), "gateway_id", "at most 33"},
		{"shared: gateway id no label value", with(shared, "gateway_id", `"-"`), "gateway_id", "label value"},
		{"namespace", with(shared, "namespace", `"a.b"`), "namespace", "DNS-1123 label"},
		{"namespace too long", with(shared, "namespace", long(64)), "namespace", "DNS-1123 label"},
		{"namespace empty", with(shared, "namespace", `""`), "namespace", "DNS-1123 label"},
		{"operator: no source", with(operator, "operator_namespace_label", ""), "operator_namespace_label", "neither is set"},
		{"operator: both sources", with(operator, "operator_namespace_file", `"/f"`), "operator_namespace_label", "both are set"},
		{"operator: empty label", with(operator, "operator_namespace_label", `""`), "operator_namespace_label", "empty string"},
		{"operator: empty file", with(operator, "operator_namespace_label", "", "operator_namespace_file", `""`), "operator_namespace_file", "empty string"},
		{"operator: label selects everything", with(operator, "operator_namespace_label", `" "`), "operator_namespace_label", "selects every namespace"},
		{"operator: label only excludes a key", with(operator, "operator_namespace_label", `"!zzz"`), "operator_namespace_label", "nearly every namespace"},
		{"operator: label only excludes values", with(operator, "operator_namespace_label", `"a notin (zz)"`), "operator_namespace_label", "nearly every namespace"},
		{"operator: label only excludes", with(operator, "operator_namespace_label", `"a!=b,!c,d notin (e)"`), "operator_namespace_label", "nearly every namespace"},
		{"operator: label of every namespace", with(operator, "operator_namespace_label", `"kubernetes.io/metadata.name"`), "operator_namespace_label", "nearly every namespace"},
		{"operator: label no selector", with(operator, "operator_namespace_label", `"a in (b"`), "operator_namespace_label", "not a label selector"},
		{"shared: label no selector", with(shared, "operator_namespace_label", `"a=${x}"`), "operator_namespace_label", "not a label selector"},
		{"service account", with(managed, "service_account_name", `""`), "service_account_name", "DNS-1123 subdomain"},
		{"image pull policy", with(managed, "image_pull_policy", `"ALWAYS"`), "image_pull_policy", "use always, if_not_present or never"},
		{"sandbox runtime image pull policy", with(managed, "sandbox_runtime_image_pull_policy", `"sometimes"`), "sandbox_runtime_image_pull_policy", "use always, if_not_present or never"},
		{"supervisor image pull policy", with(managed, "supervisor_image_pull_policy", `"sometimes"`), "supervisor_image_pull_policy", "use always, if_not_present or never"},
		{"pull secret", with(managed, "image_pull_secrets", `["ok", "Not"]`), "image_pull_secrets[1]", "DNS-1123 subdomain"},
		{"ssh without namespace", with(managed, "managed_ssh_ingress.gateway_namespace", ""), "managed_ssh_ingress.gateway_namespace", "must be set while"},
		{"ssh without selector", with(managed, "managed_ssh_ingress.gateway_pod_selector", ""), "managed_ssh_ingress.gateway_pod_selector", "must be set while"},
		{"ssh namespace", with(shared, "managed_ssh_ingress.gateway_namespace", `"A"`), "managed_ssh_ingress.gateway_namespace", "DNS-1123 label"},
		{"ssh selector key", with(shared, "managed_ssh_ingress.gateway_pod_selector", `{ "a b" = "x" }`), "managed_ssh_ingress.gateway_pod_selector", "not a label key"},
		{"ssh selector value", with(shared, "managed_ssh_ingress.gateway_pod_selector", `{ a = "x y" }`), "managed_ssh_ingress.gateway_pod_selector", "not a label value"},
		{"boundary port", with(managed, "sandbox_runtime.boundary_port", "1023"), "sandbox_runtime.boundary_port", "must be from 1024"},
		{"boundary port too large", with(managed, "sandbox_runtime.boundary_port", "65536"), "sandbox_runtime.boundary_port", "0 to 65535"},

		{"proxy scheme", plain("https_proxy", `"socks5://proxy:1"`), "https_proxy", "begins with http:// or https://"},
		{"proxy without scheme", plain("https_proxy", `"proxy:3128"`), "https_proxy", "begins with http:// or https://"},
		{"proxy without host", plain("https_proxy", `"http://:3128"`), "https_proxy", "URL with a host"},
		{"proxy port", plain("https_proxy", `"http://proxy:65536"`), "https_proxy", "URL with a host"},
		{"proxy with an @ in its path", plain("https_proxy", `"http://user:12/hunter2@proxy"`), "https_proxy", "must not carry credentials"},
		{"proxy with a query", plain("https_proxy", `"http://h/?password=hunter2"`), "https_proxy", "query or a fragment"},
		{"proxy with a fragment", plain("https_proxy", `"http://h#hunter2"`), "https_proxy", "query or a fragment"},
		{"no proxy with credentials", with(managed, "no_proxy", `"http://u:hunter2@h"`), "no_proxy", "must not hold an @"},
		{"no proxy with credentials in its list", with(managed, "no_proxy", `"10.0.0.0/8,hunter2@h"`), "no_proxy", "must not hold an @"},
		{"proxy with credentials and no scheme", plain("https_proxy", `"user:hunter2@proxy:3128"`), "https_proxy", "must not carry credentials"},
		{"proxy with a broken escape", plain("https_proxy", `"http://proxy%zz"`), "https_proxy", "begins with http:// or https://"},
		{"proxy with credentials", plain("https_proxy", `"http://user:hunter2@proxy:3128"`), "https_proxy", "must not carry credentials"},
		{"credential without proxy", with(managed, "https_proxy", "", "proxy_auth_allow_insecure", ""), "https_proxy", "no proxy to send it to"},
		{"secret name without key", with(managed, "proxy_auth_secret_key", ""), "proxy_auth_secret_key", "together"},
		{"secret key without name", with(managed, "proxy_auth_secret_name", ""), "proxy_auth_secret_name", "together"},
		{"secret name", with(managed, "proxy_auth_secret_name", `"Proxy"`), "proxy_auth_secret_name", "DNS-1123 subdomain"},
		{"secret key characters", with(managed, "proxy_auth_secret_key", `"a/b"`), "proxy_auth_secret_key", "must be 1 to 253"},
		{"secret key too long", with(managed, "proxy_auth_secret_key", long(254)), "proxy_auth_secret_key", "must be 1 to 253"},
		{"secret key dot", with(managed, "proxy_auth_secret_key", `"."`), "proxy_auth_secret_key", "not . or .."},
		{"secret key dots", with(managed, "proxy_auth_secret_key", `".."`), "proxy_auth_secret_key", "not . or .."},
		{"insecure without consent", with(managed, "proxy_auth_allow_insecure", "false"), "proxy_auth_allow_insecure", "must be true"},
		{"consent without credential", plain("proxy_auth_allow_insecure", "true"), "proxy_auth_allow_insecure", "there is no credential"},

		{"grpc endpoint with credentials", with(managed, "grpc_endpoint", `"https://u:p@h"`), "grpc_endpoint", "must not carry credentials"},
		{"grpc endpoint with credentials and no scheme", with(managed, "grpc_endpoint", `"//user:hunter2@h"`), "grpc_endpoint", "must not carry credentials"},
		{"grpc endpoint with credentials and no host", with(managed, "grpc_endpoint", `"http:///user:hunter2@h"`), "grpc_endpoint", "must not carry credentials"},
		{"grpc endpoint with credentials in an opaque URL", with(managed, "grpc_endpoint", `"http:user:hunter2@h"`), "grpc_endpoint", "must not carry credentials"},
		{"grpc endpoint with a slash in the password", with(managed, "grpc_endpoint", `"http://user:12/hunter2@h"`), "grpc_endpoint", "must not carry credentials"},
		{"grpc endpoint host:port with credentials", with(managed, "grpc_endpoint", `"user:hunter2@h:8080"`), "grpc_endpoint", "must not carry credentials"},
		{"grpc endpoint with a query", with(managed, "grpc_endpoint", `"http://h/?token=hunter2"`), "grpc_endpoint", "query or a fragment"},
		{"grpc endpoint with an empty query", with(managed, "grpc_endpoint", `"http://h/?"`), "grpc_endpoint", "query or a fragment"},
		{"grpc endpoint with a fragment", with(managed, "grpc_endpoint", `"http://h/#hunter2"`), "grpc_endpoint", "query or a fragment"},
		{"grpc endpoint of spaces", with(managed, "grpc_endpoint", `"  "`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint without port", with(managed, "grpc_endpoint", `"gateway"`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint without host", with(managed, "grpc_endpoint", `":8080"`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint URL without host", with(managed, "grpc_endpoint", `"https://:8080"`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint port", with(managed, "grpc_endpoint", `"gateway:0"`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint port name", with(managed, "grpc_endpoint", `"gateway:hunter2"`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint URL port", with(managed, "grpc_endpoint", `"https://gateway:65536"`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint scheme", with(managed, "grpc_endpoint", `"dns:///gateway:8080"`), "grpc_endpoint", "must be host:port or"},
		{"grpc endpoint relative", with(managed, "grpc_endpoint", `"//gateway:8080"`), "grpc_endpoint", "must be host:port or"},
		{"otlp endpoint with a query", with(managed, "supervisor_otlp_endpoint", `"http://h/?token=hunter2"`), "supervisor_otlp_endpoint", "query or a fragment"},
		{"otlp endpoint port", with(managed, "supervisor_otlp_endpoint", `"http://h:0"`), "supervisor_otlp_endpoint", "http or https URL"},
		{"otlp endpoint with credentials", with(managed, "supervisor_otlp_endpoint", `"https://u:p@h"`), "supervisor_otlp_endpoint", "must not carry credentials"},
		{"otlp endpoint no URL", with(managed, "supervisor_otlp_endpoint", `"otel:4317"`), "supervisor_otlp_endpoint", "http or https URL"},
		{"client tls secret", with(managed, "client_tls_secret_name", `"A"`), "client_tls_secret_name", "DNS-1123 subdomain"},
		{"host gateway", with(managed, "host_gateway_ip", `"gateway"`), "host_gateway_ip", "IP address"},
		{"storage size", with(managed, "workspace_default_storage_size", `"2 GB"`), "workspace_default_storage_size", "Kubernetes quantity"},
		{"storage size empty", with(managed, "workspace_default_storage_size", `""`), "workspace_default_storage_size", "Kubernetes quantity"},
		{"storage size zero", with(managed, "workspace_default_storage_size", `"0"`), "workspace_default_storage_size", "more than zero"},
		{"storage size that the parser would expand for ever", with(managed, "workspace_default_storage_size", `"1e999999999999"`), "workspace_default_storage_size", "Kubernetes quantity"},
		{"storage class", with(managed, "workspace_storage_class", `"a b"`), "workspace_storage_class", "DNS-1123 subdomain"},
		{"runtime class", with(managed, "default_runtime_class_name", `"a_b"`), "default_runtime_class_name", "DNS-1123 subdomain"},
		{"spiffe path relative", with(managed, "provider_spiffe_workload_api_socket_path", `"run/agent.sock"`), "provider_spiffe_workload_api_socket_path", "absolute"},
		{"spiffe path with a space", with(managed, "provider_spiffe_workload_api_socket_path", `"/run/agent.sock "`), "provider_spiffe_workload_api_socket_path", "space"},
		{"spiffe path below the root", with(managed, "provider_spiffe_workload_api_socket_path", `"/run/../agent.sock"`), "provider_spiffe_workload_api_socket_path", "other than /"},
		{"uid zero", with(managed, "sandbox_uid", "0"), "sandbox_uid", "1 to 4294967294"},
		{"uid maximum", with(managed, "sandbox_uid", "4294967295"), "sandbox_uid", "1 to 4294967294"},
		{"gid zero", with(managed, "sandbox_gid", "0"), "sandbox_gid", "1 to 4294967294"},
		{"gid beyond 32 bits", with(managed, "sandbox_gid", "4294967296"), "sandbox_gid", "out of range"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(file(tc.keys))
			ps := problems(t, err)
			if len(ps) != 1 || ps[0].Key != stock+tc.key || !strings.Contains(ps[0].Text, tc.text) {
				t.Errorf("got:\n%v\nwant one problem of %s with %q", err, tc.key, tc.text)
			}
			if _, isSet := tc.keys[tc.key]; isSet && ps[0].Origin.Line < 3 {
				t.Errorf("the problem does not name the line: %v", ps[0])
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the message shows the credential: %v", err)
			}
		})
	}
}

// TestAccepted holds what the rules must let pass.
func TestAccepted(t *testing.T) {
	managed := everyKey()
	operator := func(changes ...string) map[string]string {
		return with(with(managed, "workspace_mode", `"operator"`, "operator_namespace_file", ""), changes...)
	}
	tests := map[string]map[string]string{
		"gateway id of 33 characters":       with(managed, "gateway_id", `"`+strings.Repeat("a", 33)+`"`),
		"shared: gateway id of 34":          with(managed, "workspace_mode", `"shared"`, "gateway_id", `"`+strings.Repeat("A", 34)+`"`),
		"shared: no source":                 with(managed, "workspace_mode", `"shared"`, "operator_namespace_label", "", "operator_namespace_file", ""),
		"shared: empty source":              with(managed, "workspace_mode", `"shared"`, "operator_namespace_label", `""`),
		"operator: file":                    with(managed, "workspace_mode", `"operator"`, "operator_namespace_label", ""),
		"shared: ssh ingress without peers": with(managed, "workspace_mode", `"shared"`, "managed_ssh_ingress.gateway_namespace", ""),
		"no labels while disabled":          with(managed, "resource_admission.required_labels", `{}`),
		"https proxy without consent":       with(managed, "https_proxy", `"https://proxy"`, "proxy_auth_allow_insecure", "false"),
		"https proxy in capitals":           with(managed, "https_proxy", `"HTTPS://proxy"`, "proxy_auth_allow_insecure", "false"),
		"proxy at an IPv6 address":          with(managed, "https_proxy", `"http://[2001:db8::1]:3128"`),
		"lowest port":                       with(managed, "sandbox_runtime.boundary_port", "1024"),
		"lowest uid and highest gid":        with(managed, "sandbox_uid", "1", "sandbox_gid", "4294967294"),
		"empty pull policies":               with(managed, "image_pull_policy", `""`, "supervisor_image_pull_policy", `""`),
		"nvidia in the list":                with(managed, "allowed_extended_resources", `["nvidia.com/gpu"]`),
		"decimal exponent":                  with(managed, "workspace_default_storage_size", `"2e9"`),
		"grpc endpoint at an IPv6 address":  with(managed, "grpc_endpoint", `"[2001:db8::1]:8080"`),
		"grpc endpoint URL without port":    with(managed, "grpc_endpoint", `"http://gateway/"`),
		"grpc endpoint not set":             with(managed, "grpc_endpoint", `""`),
		"shared: gateway id with dots":      with(managed, "workspace_mode", `"shared"`, "gateway_id", `"a..b"`),
		"operator: gateway id with parts":   operator("gateway_id", `"a.b"`),
		"operator: value":                   operator("operator_namespace_label", `"a=b"`),
		"operator: values beside exclusion": operator("operator_namespace_label", `"!c,a in (b,d)"`),
		"operator: key":                     operator("operator_namespace_label", `"a"`),
		"operator: number":                  operator("operator_namespace_label", `"a>1"`),
		"operator: lower number":            operator("operator_namespace_label", `"a<1"`),
		"operator: named namespaces":        operator("operator_namespace_label", `"kubernetes.io/metadata.name in (a,b)"`),
		"shared: label only excludes":       with(managed, "workspace_mode", `"shared"`, "operator_namespace_label", `"!a"`),
		"grpc endpoint without scheme":      with(managed, "grpc_endpoint", `"gateway.example:8080"`),
	}
	for name, keys := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := load(file(keys)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTokenLifeIsClamped(t *testing.T) {
	for text, want := range map[string]int64{
		"-5": 3600, "0": 3600, "1": 600, "599": 600, "600": 600, "86400": 86400, "86401": 86400, "9223372036854775807": 86400,
	} {
		c := mustLoad(t, driverconf.Source{Bytes: []byte(file(map[string]string{"sa_token_ttl_secs": text}))})
		if got := c.Kubernetes.SATokenTTLSecs; got != want {
			t.Errorf("sa_token_ttl_secs = %s gives %d, want %d", text, got, want)
		}
	}
}

func TestExtendedResourcesAreASet(t *testing.T) {
	c := mustLoad(t, driverconf.Source{Bytes: []byte(file(map[string]string{"allowed_extended_resources": `["b.c/z", "a.b/y", "b.c/z"]`}))})
	if got := strings.Join(c.Kubernetes.AllowedExtendedResources, " "); got != "a.b/y b.c/z" {
		t.Errorf("got %s, want a sorted set", got)
	}
}

// TestAllProblemsAtOnce holds the whole message, since people read it.
func TestAllProblemsAtOnce(t *testing.T) {
	_, err := driverconf.Load(driverconf.Source{
		Path: "gateway.toml",
		Bytes: []byte(`[openshell]
version = 2
[openshell.drivers.kubernetes]
workspace_mode = "operator"
gateway_idd = "x"
topology = "sidecar"
boundary_port = 1
enable_user_namespaces = "yes"
sandbox_runtime.boundary_port = 80
`),
		LookupEnv: env(map[string]string{"OPENSHELL_K8S_SANDBOX_UID": "root"}),
		Flags:     flags(t, "--sandbox-gid=0"),
	})
	want := `openshell.drivers.kubernetes.boundary_port (gateway.toml:7): unknown key in this table; did you mean openshell.drivers.kubernetes.sandbox_runtime.boundary_port?
openshell.drivers.kubernetes.enable_user_namespaces (gateway.toml:8): must be a boolean (true or false), but is a string
openshell.drivers.kubernetes.gateway_idd (gateway.toml:5): unknown key; did you mean gateway_id?
openshell.drivers.kubernetes.operator_namespace_label: operator mode needs exactly one of operator_namespace_label and operator_namespace_file, but neither is set
openshell.drivers.kubernetes.sandbox_gid (flag --sandbox-gid): must be from 1 to 4294967294, but is 0
openshell.drivers.kubernetes.sandbox_runtime.boundary_port (gateway.toml:9): must be from 1024 to 65535, but is 80
openshell.drivers.kubernetes.sandbox_uid (environment variable OPENSHELL_K8S_SANDBOX_UID): "root" does not fit; use an integer from 0 to 4294967295
openshell.drivers.kubernetes.topology (gateway.toml:6): removed, use supervisor_image and sandbox_runtime_image instead: there is one topology left, with the supervisor in a Pod of its own`
	if got := problems(t, err).Error(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestZeroKubernetesIsRefused: settings that Load did not make place nothing.
func TestZeroKubernetesIsRefused(t *testing.T) {
	var keys []string
	new(driverconf.Kubernetes).Validate(func(key, _ string) { keys = append(keys, key) })
	if !slices.Contains(keys, "workspace_mode") {
		t.Errorf("the zero mode passes; problems only of %v", keys)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, err := load("[openshell.drivers.kubernetes]\nimage_pull_secrets = [" + strings.Repeat("1, ", 700) + "]\n")
	ps := problems(t, err)
	if len(ps) != 501 || !strings.HasSuffix(err.Error(), "\nand 200 more problems") {
		t.Errorf("%d problems, the last is %v", len(ps), ps[len(ps)-1])
	}
}

// TestLongNamesAreShortened: a name that fills the file does not fill the log.
func TestLongNamesAreShortened(t *testing.T) {
	_, err := load("[openshell.drivers.kubernetes]\n" + strings.Repeat("k", 100_000) + " = 1\nworkspace_mode = \"a" + strings.Repeat("é", 100_000) + "\"\n")
	if ps := problems(t, err); len(ps) != 2 || len(err.Error()) > 700 || !utf8.ValidString(err.Error()) {
		t.Errorf("%d problems, %d bytes", len(ps), len(err.Error()))
	}
}
