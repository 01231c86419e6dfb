package driverconf_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// tagsOf lists the dotted keys of a struct by its tags, without the package's help.
func tagsOf(prefix, tag string, t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, tagsOf(prefix+f.Tag.Get(tag)+".", tag, f.Type)...)
			continue
		}
		keys = append(keys, prefix+f.Tag.Get(tag))
	}
	return keys
}

// TestKeysAreComplete: every field is documented, and nothing else.
func TestKeysAreComplete(t *testing.T) {
	want := tagsOf(stock, "toml", reflect.TypeFor[driverconf.Kubernetes]())
	want = append(want, tagsOf("portcullis.", "toml", reflect.TypeFor[driverconf.Portcullis]())...)
	want = append(want, tagsOf("--", "flag", reflect.TypeFor[driverconf.Standalone]())...)
	want = append(want, "--admission-config-json", "--bind-address", "portcullis.telemetry.otlp_endpoint")
	var got []string
	for _, k := range driverconf.Keys() {
		got = append(got, k.Name)
		if k.Type == "" || k.Rule == "" || k.Default == "" || k.DefaultWithoutFile == "" || strings.ContainsAny(k.Rule, "|\n") {
			t.Errorf("%s is not fully documented: %+v", k.Name, k)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDefaults is contract 3.1 (and 3.3 for flags), transcribed. The images have
// no default here; see Kubernetes.
func TestDefaults(t *testing.T) {
	const labels = `{ 'openshell.ai/sandbox-attachable' = 'true', 'openshell.ai/sandbox-attachable-workspace' = '${workspace}' }`
	type row struct{ kind, value string }
	other := map[string]row{
		"allow_driver_config":                      {"boolean", "false"},
		"resource_admission.enabled":               {"boolean", "true"},
		"resource_admission.required_labels":       {"table of string", labels},
		"allowed_extended_resources":               {"array of string", "[]"},
		"workspace_mode":                           {"string", "'shared'"},
		"gateway_id":                               {"string", "'openshell'"},
		"namespace":                                {"string", "'openshell'"},
		"operator_namespace_label":                 {"string, optional", "none"},
		"operator_namespace_file":                  {"string, optional", "none"},
		"service_account_name":                     {"string", "'default'"},
		"image_pull_secrets":                       {"array of string", "[]"},
		"managed_ssh_ingress.enabled":              {"boolean", "false"},
		"managed_ssh_ingress.gateway_pod_selector": {"table of string", "{}"},
		"sandbox_runtime.boundary_port":            {"integer", "5500"},
		"sandbox_runtime.network_policy_enforced":  {"boolean", "false"},
		"proxy_auth_allow_insecure":                {"boolean", "false"},
		"proxy_connect_by_hostname":                {"boolean", "false"},
		"ssh_socket_path":                          {"string", "'/run/openshell/ssh.sock'"},
		"enable_user_namespaces":                   {"boolean", "false"},
		"workspace_default_storage_size":           {"string", "'2Gi'"},
		"sa_token_ttl_secs":                        {"integer", "3600"},
		"sandbox_uid":                              {"integer, optional", "none"},
		"sandbox_gid":                              {"integer, optional", "none"},
	}
	seen := 0
	for _, k := range driverconf.Keys() {
		name, isStock := strings.CutPrefix(k.Name, stock)
		want, special := other[name]
		switch {
		case !isStock:
			want = map[string]row{
				"portcullis.log_level": {"string", "'info'"}, "--bind-address": {"string", "none"},
				"portcullis.telemetry.otlp_endpoint": {"string", "none"}, "--gateway-name": {"string", "''"}, "--admission-config-json": {"JSON object", "{}"},
			}[k.Name]
		case special:
			seen++
		default:
			want = row{"string", "''"}
		}
		if got := (row{k.Type, k.Default}); got != want {
			t.Errorf("%s is %v, want %v", k.Name, got, want)
		}
		withoutFile := want.value
		if name == "namespace" {
			withoutFile = "'default'"
		}
		if k.DefaultWithoutFile != withoutFile {
			t.Errorf("%s is %s without a file, want %s", k.Name, k.DefaultWithoutFile, withoutFile)
		}
	}
	if seen != len(other) {
		t.Errorf("%d of %d keys of the table exist", seen, len(other))
	}
}

// TestKeysBelongToTheCaller: changing the list changes nothing.
func TestKeysBelongToTheCaller(t *testing.T) {
	driverconf.Keys()[0].Name = "changed"
	if driverconf.Keys()[0].Name == "changed" {
		t.Error("the list is shared")
	}
}
