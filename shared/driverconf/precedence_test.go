package driverconf_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// surface is contract 3.3, transcribed: flag, variable, the key they set, and
// three texts: two valid values other than the default and, where every text
// is not acceptable, a bad one.
var surface = []struct{ flag, env, key, first, second, bad string }{
	{"bind-socket", "OPENSHELL_COMPUTE_DRIVER_SOCKET", stock + "socket_path", "/run/a.sock", "/run/b.sock", ""},
	{"bind-address", "OPENSHELL_COMPUTE_DRIVER_BIND", "--bind-address", "", "", "127.0.0.1:50061"}, // no text is valid
	{"log-level", "OPENSHELL_LOG_LEVEL", "portcullis.log_level", "debug", "warn", "loud"},
	{"otlp-endpoint", "OPENSHELL_OTLP_ENDPOINT", "portcullis.telemetry.otlp_endpoint", "http://a:4317", "https://b:4317", "http://c/v1/traces"},
	{"gateway-name", "OPENSHELL_GATEWAY_NAME", "--gateway-name", "a", "b", ""},
	{"workspace-mode", "OPENSHELL_WORKSPACE_MODE", stock + "workspace_mode", "managed", "operator", "both"},
	{"gateway-id", "OPENSHELL_GATEWAY_ID", stock + "gateway_id", "a", "b", "a b"},
	{"sandbox-namespace", "OPENSHELL_SANDBOX_NAMESPACE", stock + "namespace", "a", "b", "A"},
	{"operator-namespace-label", "OPENSHELL_OPERATOR_NAMESPACE_LABEL", stock + "operator_namespace_label", "a=b", "c", "a=b=c"},
	{"operator-namespace-file", "OPENSHELL_OPERATOR_NAMESPACE_FILE", stock + "operator_namespace_file", "/a", "/b", ""},
	{"sandbox-service-account", "OPENSHELL_K8S_SANDBOX_SERVICE_ACCOUNT", stock + "service_account_name", "a", "b", "A"},
	{"sandbox-image", "OPENSHELL_SANDBOX_IMAGE", stock + "default_image", "a", "b", ""},
	{"sandbox-image-pull-policy", "OPENSHELL_SANDBOX_IMAGE_PULL_POLICY", stock + "image_pull_policy", "Always", "Never", "x"},
	{"sandbox-image-pull-secrets", "OPENSHELL_SANDBOX_IMAGE_PULL_SECRETS", stock + "image_pull_secrets", "a", "b,c", "a,,b"},
	{"managed-ssh-ingress-enabled", "OPENSHELL_MANAGED_SSH_INGRESS_ENABLED", stock + "managed_ssh_ingress.enabled", "true", "1", "maybe"},
	{"managed-ssh-gateway-namespace", "OPENSHELL_MANAGED_SSH_GATEWAY_NAMESPACE", stock + "managed_ssh_ingress.gateway_namespace", "a", "b", "A"},
	{"managed-ssh-gateway-pod-selector", "OPENSHELL_MANAGED_SSH_GATEWAY_POD_SELECTOR", stock + "managed_ssh_ingress.gateway_pod_selector", "a=b", "c=d,e=f", "a"},
	{"grpc-endpoint", "OPENSHELL_GRPC_ENDPOINT", stock + "grpc_endpoint", "https://a", "https://b", "https://u:p@c"},
	{"sandbox-ssh-socket-path", "OPENSHELL_SANDBOX_SSH_SOCKET_PATH", stock + "ssh_socket_path", "/a", "/b", ""},
	{"client-tls-secret-name", "OPENSHELL_CLIENT_TLS_SECRET_NAME", stock + "client_tls_secret_name", "a", "b", "A"},
	{"host-gateway-ip", "OPENSHELL_HOST_GATEWAY_IP", stock + "host_gateway_ip", "192.0.2.1", "2001:db8::1", "host"},
	{"sandbox-runtime-image", "OPENSHELL_SANDBOX_RUNTIME_IMAGE", stock + "sandbox_runtime_image", "a", "b", ""},
	{"sandbox-runtime-image-pull-policy", "OPENSHELL_SANDBOX_RUNTIME_IMAGE_PULL_POLICY", stock + "sandbox_runtime_image_pull_policy", "Always", "Never", "x"},
	{"supervisor-image", "OPENSHELL_SUPERVISOR_IMAGE", stock + "supervisor_image", "a", "b", ""},
	{"supervisor-image-pull-policy", "OPENSHELL_SUPERVISOR_IMAGE_PULL_POLICY", stock + "supervisor_image_pull_policy", "Always", "Never", "x"},
	{"sandbox-runtime-boundary-port", "OPENSHELL_K8S_SANDBOX_RUNTIME_BOUNDARY_PORT", stock + "sandbox_runtime.boundary_port", "2000", "65535", "65536"},
	{"https-proxy", "OPENSHELL_UPSTREAM_PROXY", stock + "https_proxy", "http://a", "https://b", "socks5://c"},
	{"no-proxy", "OPENSHELL_UPSTREAM_NO_PROXY", stock + "no_proxy", "a", "b,c", ""},
	{"proxy-auth-secret-name", "OPENSHELL_UPSTREAM_PROXY_AUTH_SECRET_NAME", stock + "proxy_auth_secret_name", "a", "b", "A"},
	{"proxy-auth-secret-key", "OPENSHELL_UPSTREAM_PROXY_AUTH_SECRET_KEY", stock + "proxy_auth_secret_key", "a", "b", "a/b"},
	{"proxy-auth-allow-insecure", "OPENSHELL_UPSTREAM_PROXY_AUTH_ALLOW_INSECURE", stock + "proxy_auth_allow_insecure", "true", "1", "maybe"},
	{"proxy-connect-by-hostname", "OPENSHELL_UPSTREAM_PROXY_CONNECT_BY_HOSTNAME", stock + "proxy_connect_by_hostname", "true", "1", "maybe"},
	{"proxy-ca-bundle", "OPENSHELL_UPSTREAM_PROXY_CA_BUNDLE", stock + "proxy_ca_bundle", "/a", "/b", ""},
	{"enable-user-namespaces", "OPENSHELL_ENABLE_USER_NAMESPACES", stock + "enable_user_namespaces", "true", "1", "maybe"},
	{"sa-token-ttl-secs", "OPENSHELL_K8S_SA_TOKEN_TTL_SECS", stock + "sa_token_ttl_secs", "700", "800", "1h"},
	{"provider-spiffe-workload-api-socket-path", "OPENSHELL_PROVIDER_SPIFFE_WORKLOAD_API_SOCKET", stock + "provider_spiffe_workload_api_socket_path", "/a/b", "/c/d", "/e"},
	{"sandbox-uid", "OPENSHELL_K8S_SANDBOX_UID", stock + "sandbox_uid", "1", "4294967294", "root"},
	{"sandbox-gid", "OPENSHELL_K8S_SANDBOX_GID", stock + "sandbox_gid", "1", "4294967294", "0"},
	{"", "OPENSHELL_K8S_WORKSPACE_DEFAULT_STORAGE_SIZE", stock + "workspace_default_storage_size", "3Gi", "4Gi", "big"},
	{"", "OPENSHELL_K8S_WORKSPACE_STORAGE_CLASS", stock + "workspace_storage_class", "a", "b", "A"},
	{"", "OPENSHELL_K8S_DEFAULT_RUNTIME_CLASS_NAME", stock + "default_runtime_class_name", "a", "b", "A"},
	{"admission-config-json", "OPENSHELL_DRIVER_ADMISSION_CONFIG_JSON", "--admission-config-json", `{}`, `{"allow_driver_config":true}`, `[]`},
}

func TestSurfaceIsExactlyTheContracts(t *testing.T) {
	var wantFlags, gotFlags, wantKeys, gotKeys []string
	for _, s := range surface {
		if s.flag != "" {
			wantFlags = append(wantFlags, s.flag)
		}
		wantKeys = append(wantKeys, strings.TrimPrefix(s.flag+" "+s.env+" "+s.key, " "))
	}
	flags(t).VisitAll(func(f *pflag.Flag) { gotFlags = append(gotFlags, f.Name) })
	for _, k := range driverconf.Keys() {
		if k.Env != "" || k.Flag != "" {
			gotKeys = append(gotKeys, strings.TrimPrefix(strings.TrimPrefix(k.Flag, "--")+" "+k.Env+" "+k.Name, " "))
		}
	}
	for _, l := range [][]string{wantFlags, gotFlags, wantKeys, gotKeys} {
		slices.Sort(l)
	}
	if !slices.Equal(wantFlags, gotFlags) {
		t.Errorf("flags %v\nwant  %v", gotFlags, wantFlags)
	}
	if !slices.Equal(wantKeys, gotKeys) {
		t.Errorf("documented %v\nwant %v", gotKeys, wantKeys)
	}
}

// context sets what other rules demand of a case, in the file.
func context(key string) map[string]string {
	keys := map[string]string{
		"operator_namespace_label": `"x=y"`, "https_proxy": `"https://p"`,
		"proxy_auth_secret_name": `"n"`, "proxy_auth_secret_key": `"k"`, "proxy_auth_allow_insecure": "true",
		"managed_ssh_ingress.gateway_namespace": `"g"`, "managed_ssh_ingress.gateway_pod_selector": `{ a = "g" }`,
		"sandbox_uid": "77", "sandbox_gid": "77", "sandbox_runtime.boundary_port": "7777", "sa_token_ttl_secs": "777",
	}
	if key == stock+"operator_namespace_file" {
		keys["operator_namespace_file"] = `"/f"`
	}
	return keys
}

// effective returns the printed value of a key; the printer is the one view
// that has every setting as text.
func effective(t *testing.T, c *driverconf.Config, key string) string {
	t.Helper()
	var out bytes.Buffer
	if err := c.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	table, found := "", ""
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "[") {
			table = strings.Trim(line, "[]") + "."
			continue
		}
		if strings.HasPrefix(line, "# Set by flags") {
			table = "--"
			continue
		}
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "# "), " = ")
		if ok && table+name == key {
			found = rest[:strings.LastIndex(rest, " # ")]
		}
	}
	return found
}

// TestPrecedence tries every combination of layers for every setting.
func TestPrecedence(t *testing.T) {
	for _, s := range surface {
		if s.key == "--admission-config-json" || s.key == "--bind-address" {
			continue // TestAdmissionJSON, TestBindAddressIsRefused
		}
		t.Run(s.key, func(t *testing.T) {
			keys := context(s.key)
			onlyFile := mustLoad(t, driverconf.Source{Bytes: []byte(file(keys)), Sections: tracing()})
			viaEnv := env(map[string]string{s.env: s.first})
			c := mustLoad(t, driverconf.Source{Bytes: []byte(file(keys)), LookupEnv: viaEnv, Flags: flags(t), Sections: tracing()})
			envValue := effective(t, c, s.key)
			if got, want := c.Origin(s.key), (driverconf.Origin{Kind: driverconf.OriginEnv, Name: s.env}); got != want {
				t.Errorf("origin %v, want %v", got, want)
			}
			if o := onlyFile.Origin(s.key); o.Kind != driverconf.OriginFile && o.Kind != driverconf.OriginDefault {
				t.Errorf("without overrides the origin is %v", o)
			}
			isTrue := onlyFile.Origin(s.key).Kind == driverconf.OriginFile && s.first == "true"
			if envValue == effective(t, onlyFile, s.key) && !isTrue {
				t.Errorf("the variable changes nothing: %s", envValue)
			}
			if s.flag == "" {
				return
			}
			viaFlag := flags(t, "--"+s.flag+"="+s.second)
			for _, lookup := range []func(string) (string, bool){nil, viaEnv} {
				c := mustLoad(t, driverconf.Source{Bytes: []byte(file(keys)), LookupEnv: lookup, Flags: viaFlag, Sections: tracing()})
				if got, want := c.Origin(s.key), (driverconf.Origin{Kind: driverconf.OriginFlag, Name: "--" + s.flag}); got != want {
					t.Errorf("origin %v, want %v", got, want)
				}
				if got := effective(t, c, s.key); got == envValue && s.first != "true" {
					t.Errorf("the flag changes nothing: %s", got)
				}
			}
		})
	}
}

// TestBadOverrides: each bad text is told under the name of what set it.
func TestBadOverrides(t *testing.T) {
	for _, s := range surface {
		if s.bad == "" {
			continue
		}
		lines := map[string]driverconf.Source{
			s.key + " (environment variable " + s.env + "): ": {LookupEnv: env(map[string]string{s.env: s.bad})},
		}
		if s.flag != "" {
			lines[s.key+" (flag --"+s.flag+"): "] = driverconf.Source{Flags: flags(t, "--"+s.flag+"="+s.bad)}
		}
		for want, src := range lines {
			t.Run(want, func(t *testing.T) {
				src.Bytes, src.Sections = []byte(file(context(s.key))), tracing()
				_, err := driverconf.Load(src)
				if ps := problems(t, err); len(ps) != 1 || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got:\n%v\nwant one line with %s", err, want)
				}
			})
		}
	}
}

// TestCredentialsInFlags: none of them reaches a message.
func TestCredentialsInFlags(t *testing.T) {
	for _, arg := range []string{
		"--https-proxy=https://user:hunter2@h", "--https-proxy=http://h/?password=hunter2", "--no-proxy=http://u:hunter2@h",
		"--grpc-endpoint=https://user:hunter2@h", "--grpc-endpoint=//user:hunter2@h", "--grpc-endpoint=http:///user:hunter2@h",
		"--grpc-endpoint=http://h/?token=hunter2", "--grpc-endpoint=hunter2", "--otlp-endpoint=https://user:hunter2@h",
	} {
		flag, _, _ := strings.Cut(arg, "=")
		_, err := driverconf.Load(driverconf.Source{Flags: flags(t, arg), Sections: tracing()})
		if ps := problems(t, err); len(ps) != 1 || !strings.Contains(err.Error(), "(flag "+flag+"): ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// TestBindAddressIsRefused: unless nobody gave it.
func TestBindAddressIsRefused(t *testing.T) {
	const text = "is not supported: the driver is served on a private Unix socket only, since whoever reaches it is believed; " +
		"use --bind-socket (or OPENSHELL_COMPUTE_DRIVER_SOCKET) and leave this out"
	for want, src := range map[string]driverconf.Source{
		"flag --bind-address":                                {Flags: flags(t, "--bind-address=")},
		"environment variable OPENSHELL_COMPUTE_DRIVER_BIND": {LookupEnv: env(map[string]string{"OPENSHELL_COMPUTE_DRIVER_BIND": "[::1]:2"})},
	} {
		if _, err := driverconf.Load(src); err == nil || err.Error() != "--bind-address ("+want+"): "+text {
			t.Errorf("%s: got %v", want, err)
		}
	}
	mustLoad(t, driverconf.Source{Flags: flags(t), LookupEnv: env(map[string]string{"OPENSHELL_COMPUTE_DRIVER_BIND": ""})})
}

// TestTraceEndpointHasOneValue: flag, variable and file set the same key.
func TestTraceEndpointHasOneValue(t *testing.T) {
	const key = "portcullis.telemetry.otlp_endpoint"
	src := driverconf.Source{Bytes: []byte("[portcullis.telemetry]\notlp_endpoint = \"https://of-file\"\n")}
	src.LookupEnv = env(map[string]string{"OPENSHELL_OTLP_ENDPOINT": ""})
	src.Sections = tracing()
	c := mustLoad(t, src)
	if got := effective(t, c, key); got != "''" || c.Origin(key).Kind != driverconf.OriginEnv {
		t.Errorf("an empty variable leaves %s from %v", got, c.Origin(key))
	}
	src.Flags, src.Sections = flags(t, "--otlp-endpoint=https://of-flag"), tracing()
	c = mustLoad(t, src)
	if got := effective(t, c, key); got != "'https://of-flag'" || c.Origin(key).Kind != driverconf.OriginFlag {
		t.Errorf("the flag leaves %s from %v", got, c.Origin(key))
	}
	src.Sections = nil // of a daemon that traces nothing
	if got := mustLoad(t, src).Origin(key); got != (driverconf.Origin{}) {
		t.Errorf("a section that is not used has a key from %v", got)
	}
}

func TestOverridesThatAreNoText(t *testing.T) {
	for name, text := range map[string]string{
		"UTF-8": "a\xff", "zero byte": "a\x00b", "longer than": strings.Repeat("a", 64<<10+1),
	} {
		_, err := driverconf.Load(driverconf.Source{LookupEnv: env(map[string]string{"OPENSHELL_UPSTREAM_NO_PROXY": text})})
		if ps := problems(t, err); len(ps) != 1 || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want a problem about %s", err, name)
		}
	}
}

// TestEmptyVariables: which ones override and which count as not set.
func TestEmptyVariables(t *testing.T) {
	for _, k := range driverconf.Keys() {
		if k.Env == "" || !strings.HasPrefix(k.Name, stock) {
			continue
		}
		t.Run(k.Env, func(t *testing.T) {
			// Shared mode, and no proxy credential, so that no other key depends on this one.
			keys := with(everyKey(), "workspace_mode", `"shared"`, "proxy_auth_secret_name", "", "proxy_auth_secret_key", "", "proxy_auth_allow_insecure", "")
			base := mustLoad(t, driverconf.Source{Bytes: []byte(file(keys))})
			if k.EmptyEnv && strings.HasPrefix(k.Name, stock+"proxy_auth_secret") {
				return // either alone may not be empty beside the other
			}
			c := mustLoad(t, driverconf.Source{Bytes: []byte(file(keys)), LookupEnv: env(map[string]string{k.Env: ""})})
			switch {
			case k.EmptyEnv && c.Origin(k.Name).Kind != driverconf.OriginEnv:
				t.Errorf("origin %v, want the variable", c.Origin(k.Name))
			case k.EmptyEnv && !slices.Contains([]string{"''", "[]", "{}"}, effective(t, c, k.Name)):
				t.Errorf("value %s, want empty", effective(t, c, k.Name))
			case !k.EmptyEnv && diffSettings(base, c) != "":
				t.Errorf("an empty variable changes the settings:\n%s", diffSettings(base, c))
			case !k.EmptyEnv && c.Origin(k.Name).Kind == driverconf.OriginEnv:
				t.Error("an empty variable is told as the origin")
			}
		})
	}
	t.Run("an empty flag is not ignored", func(t *testing.T) {
		_, err := driverconf.Load(driverconf.Source{Flags: flags(t, "--workspace-mode=operator", "--operator-namespace-label=")})
		if ps := problems(t, err); len(ps) != 1 || !strings.Contains(err.Error(), "(flag --operator-namespace-label): is set to the empty string") {
			t.Errorf("got %v", err)
		}
	})
}

func TestDefaultsDependOnTheFile(t *testing.T) {
	for name, tc := range map[string]struct {
		src  driverconf.Source
		want string
	}{
		"no file":         {driverconf.Source{}, "default"},
		"empty file":      {driverconf.Source{Bytes: []byte{}}, "openshell"},
		"no file, a flag": {driverconf.Source{Flags: flags(t, "--sandbox-namespace=x")}, "x"},
	} {
		c := mustLoad(t, tc.src)
		if c.Kubernetes.Namespace != tc.want {
			t.Errorf("%s: namespace %s, want %s", name, c.Kubernetes.Namespace, tc.want)
		}
		if c.Standalone.GatewayName != "" || c.Kubernetes.WorkspaceMode != driverconf.ModeShared {
			t.Errorf("%s: defaults %+v", name, c)
		}
	}
}

func TestFlagForms(t *testing.T) {
	c := mustLoad(t, driverconf.Source{Flags: flags(t,
		"--enable-user-namespaces", // a bare boolean is true
		"--sandbox-image-pull-secrets=a, b", "--sandbox-image-pull-secrets", "c",
		"--managed-ssh-gateway-pod-selector=app=x", "--managed-ssh-gateway-pod-selector=tier = ",
		"--gateway-id=first", "--gateway-id=last",
	)})
	k := c.Kubernetes
	if !k.EnableUserNamespaces || k.GatewayID != "last" || !slices.Equal(k.ImagePullSecrets, []string{"a", "b", "c"}) ||
		!maps.Equal(k.ManagedSSHIngress.GatewayPodSelector, map[string]string{"app": "x", "tier": ""}) {
		t.Errorf("got %+v", k)
	}
	for _, text := range []string{"a=b,a=c", "=b", "a=b,c"} {
		_, err := driverconf.Load(driverconf.Source{Flags: flags(t, "--managed-ssh-gateway-pod-selector="+text)})
		problems(t, err)
	}
	for text, want := range map[string]bool{"TRUE": true, "yes": true, "On": true, "1": true, "false": false, "no": false, "off": false, "0": false} {
		c := mustLoad(t, driverconf.Source{LookupEnv: env(map[string]string{"OPENSHELL_ENABLE_USER_NAMESPACES": text})})
		if c.Kubernetes.EnableUserNamespaces != want {
			t.Errorf("%s is read as %t", text, !want)
		}
	}
}

// TestFlagHelp: the usage text names type, default and variable.
func TestFlagHelp(t *testing.T) {
	help := flags(t).FlagUsages()
	for _, want := range []string{
		"--workspace-mode string", `(default "shared")`, "--enable-user-namespaces ", "--sandbox-uid integer",
		"(env OPENSHELL_K8S_SANDBOX_GID)", "(default 5500)",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q:\n%s", want, help)
		}
	}
}

func TestForeignFlagSetsAreRefused(t *testing.T) {
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	if _, err := driverconf.Load(driverconf.Source{Flags: fs}); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("got %v", err)
	}
	for _, s := range surface {
		if s.flag != "" {
			fs.String(s.flag, "", "")
		}
	}
	if _, err := driverconf.Load(driverconf.Source{Flags: fs}); err == nil || !strings.Contains(err.Error(), "registered by someone else") {
		t.Errorf("got %v", err)
	}
}

func ExampleLoad() {
	config, err := driverconf.Load(driverconf.Source{
		Path: "gateway.toml",
		Bytes: []byte(`
[openshell.drivers.kubernetes]
workspace_mode = "operator"
operator_namespace_label = "openshell.ai/workspace=true"
`),
		LookupEnv: func(name string) (string, bool) { return "10001", name == "OPENSHELL_K8S_SANDBOX_UID" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Kubernetes.WorkspaceMode, config.Origin("openshell.drivers.kubernetes.workspace_mode"))
	fmt.Println(*config.Kubernetes.SandboxUID, config.Origin("openshell.drivers.kubernetes.sandbox_uid"))
	fmt.Println(config.Kubernetes.GatewayID, config.Origin("openshell.drivers.kubernetes.gateway_id"))
	// Output:
	// operator gateway.toml:3
	// 10001 environment variable OPENSHELL_K8S_SANDBOX_UID
	// openshell default
}
