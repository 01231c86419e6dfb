package driverconf_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

const stock = "openshell.drivers.kubernetes."

// everyKey holds every stock key with a valid value other than its default.
// Mode is managed, which has the most rules.
func everyKey() map[string]string {
	return map[string]string{
		"socket_path":                              `"/run/openshell/driver.sock"`,
		"allow_driver_config":                      `true`,
		"resource_admission.enabled":               `false`,
		"resource_admission.required_labels":       `{ "example.com/approved" = "yes", "example.com/workspace" = "${workspace}" }`,
		"allowed_extended_resources":               `["example.com/disk", "example.com/fpga"]`,
		"workspace_mode":                           `"managed"`,
		"gateway_id":                               `"blue"`,
		"namespace":                                `"sandboxes"`,
		"operator_namespace_label":                 `"team in (a, b), openshell.ai/workspace=true"`,
		"operator_namespace_file":                  `"/etc/portcullis/namespaces.json"`,
		"service_account_name":                     `"sandbox"`,
		"default_image":                            `"registry.example/base:1"`,
		"image_pull_policy":                        `"if_not_present"`,
		"image_pull_secrets":                       `["pull-a", "pull-b"]`,
		"managed_ssh_ingress.enabled":              `true`,
		"managed_ssh_ingress.gateway_namespace":    `"gateway"`,
		"managed_ssh_ingress.gateway_pod_selector": `{ app = "openshell", "example.com/tier" = "front" }`,
		"sandbox_runtime_image":                    `"registry.example/sandbox:1"`,
		"sandbox_runtime_image_pull_policy":        `"Always"`,
		"supervisor_image":                         `"registry.example/supervisor:1"`,
		"supervisor_image_pull_policy":             `"never"`,
		"sandbox_runtime.boundary_port":            `5501`,
		"sandbox_runtime.network_policy_enforced":  `true`,
		"https_proxy":                              `"http://proxy.example:3128"`,
		"no_proxy":                                 `"10.0.0.0/8,.example"`,
		"proxy_auth_secret_name":                   `"proxy-login"`,
		"proxy_auth_secret_key":                    `"user_pass"`,
		"proxy_auth_allow_insecure":                `true`,
		"proxy_connect_by_hostname":                `true`,
		"proxy_ca_bundle":                          `"/etc/portcullis/proxy-ca.pem"`,
		"grpc_endpoint":                            `"https://gateway.example:8080"`,
		"ssh_socket_path":                          `"/run/openshell/other.sock"`,
		"client_tls_secret_name":                   `"client-tls"`,
		"host_gateway_ip":                          `"192.0.2.7"`,
		"enable_user_namespaces":                   `true`,
		"workspace_default_storage_size":           `"10Gi"`,
		"workspace_storage_class":                  `"fast"`,
		"default_runtime_class_name":               `"kata"`,
		"sa_token_ttl_secs":                        `1200`,
		"provider_spiffe_workload_api_socket_path": `"/run/spire/agent.sock"`,
		"sandbox_uid":                              `2000`,
		"sandbox_gid":                              `3000`,
		"supervisor_otlp_endpoint":                 `"http://otel.example:4317"`,
	}
}

// with returns the base with keys replaced; an empty value removes the key.
func with(base map[string]string, changes ...string) map[string]string {
	out := maps.Clone(base)
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "" {
			delete(out, changes[i])
			continue
		}
		out[changes[i]] = changes[i+1]
	}
	return out
}

// file renders keys as a settings file, one key a line from line 3 on.
func file(keys map[string]string) string {
	var b strings.Builder
	b.WriteString("[openshell]\n[openshell.drivers.kubernetes]\n")
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&b, "%s = %s\n", key, keys[key])
	}
	return b.String()
}

func load(text string) (*driverconf.Config, error) {
	return driverconf.Load(driverconf.Source{Bytes: []byte(text)})
}

// tracing is the section that a stock flag sets a key of.
func tracing() map[string]driverconf.Section {
	cfg := telemetry.DefaultConfig()
	return map[string]driverconf.Section{telemetry.Section: &cfg}
}

func mustLoad(t *testing.T, src driverconf.Source) *driverconf.Config {
	t.Helper()
	c, err := driverconf.Load(src)
	if err != nil {
		t.Fatalf("load: %v\n%s", err, src.Bytes)
	}
	return c
}

// problems returns the problems of an error that must be nothing else.
func problems(t *testing.T, err error) driverconf.Problems {
	t.Helper()
	var ps driverconf.Problems
	if !errors.As(err, &ps) || len(ps) == 0 {
		t.Fatalf("error is %v (%T), want problems", err, err)
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != len(ps) {
		t.Errorf("%d problems on %d lines:\n%v", len(ps), lines, err)
	}
	return ps
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	driverconf.RegisterFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("parse %q: %v", args, err)
	}
	return fs
}

var equateEmpty = cmpopts.EquateEmpty()

func diffSettings(a, b *driverconf.Config) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(driverconf.Config{}), equateEmpty)
}
