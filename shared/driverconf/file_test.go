package driverconf_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// TestFileProblems gives one misfit each and holds the whole line.
func TestFileProblems(t *testing.T) {
	const table = "[openshell.drivers.kubernetes]\n"
	tests := []struct{ name, text, want string }{
		{"syntax", "a = \n", "gw.toml:1: is not valid TOML: "},
		{"key twice", table + "gateway_id = \"a\"\nnamespace = \"b\"\ngateway_id = \"c\"\n", "gw.toml:4: is not valid TOML: key gateway_id is already defined"},
		{"key twice in an inline table", table + "sandbox_runtime = { boundary_port = 2000, boundary_port = 3000 }\n", "gw.toml:2: is not valid TOML: key boundary_port is already defined"},
		{"table twice", table + table, "gw.toml:2: is not valid TOML: table kubernetes already exists"},
		{"not UTF-8", "[openshell]\n# \xff\n", "gw.toml:2: is not UTF-8 text; save the file as UTF-8"},
		{"byte order mark", "\xef\xbb\xbf[openshell]\n", "gw.toml:1: starts with a byte order mark; save the file as UTF-8 without it"},
		{"too many keys", strings.Repeat("x.", 10_001) + "x = 1\n", "gw.toml: has more than 10000 keys; a gateway's settings have a few hundred"},
		{"unknown top-level table", "[portculis]\nlog_level = \"info\"\n", "portculis (gw.toml:1): unknown table; did you mean portcullis?"},
		{"unknown top-level key", "x = 1\n", "x (gw.toml:1): unknown table"},
		{"top-level table in capitals", "[Portcullis]\n", "Portcullis (gw.toml:1): unknown table; names are case-sensitive: use portcullis"},
		{"top-level name with a line break", "[\"a\\nb\"]\n", `"a\nb" (gw.toml:1): unknown table`},
		{"openshell is no table", "openshell = 2\n", "openshell (gw.toml:1): must be a table, but is an integer"},
		{"version 1", "[openshell]\nversion = 1\n", "openshell.version (gw.toml:2): is 1, but only schema version 2 can be read; migrate the file"},
		{"version as text", "[openshell]\nversion = \"2\"\n", "openshell.version (gw.toml:2): must be an integer, but is a string"},
		{"drivers is no table", "[[openshell.drivers]]\n", "openshell.drivers (gw.toml:1): must be a table, but is an array"},
		{"drivers misspelt", "[openshell.driver.kubernetes]\ngateway_id = \"x\"\n", "openshell.driver (gw.toml:1): unknown table; did you mean drivers?"},
		{"driver misspelt", "[openshell.drivers.kubernets]\n", "openshell.drivers.kubernets (gw.toml:1): unknown table; did you mean kubernetes?"},
		{"driver in capitals", "[openshell.drivers.Kubernetes]\n", "openshell.drivers.Kubernetes (gw.toml:1): unknown table; names are case-sensitive: use kubernetes"},
		{"driver is no table", "[openshell.drivers]\nkubernetes = true\n", "openshell.drivers.kubernetes (gw.toml:2): must be a table, but is a boolean"},

		{"unknown key", table + "xyzzy = 1\n", stock + "xyzzy (gw.toml:2): unknown key"},
		{"unknown table", table + "[openshell.drivers.kubernetes.xyzzy]\na = 1\nb = 2\n", stock + "xyzzy (gw.toml:2): unknown key"},
		{"key in capitals", table + "\nGateway_ID = \"x\"\n", stock + "Gateway_ID (gw.toml:3): unknown key; names are case-sensitive: use gateway_id"},
		{"key with dashes", table + "gateway-id = \"x\"\n", stock + "gateway-id (gw.toml:2): unknown key; did you mean gateway_id?"},
		{"key of a fork", table + "workspace_access_mode = \"x\"\n", stock + "workspace_access_mode (gw.toml:2): unknown key"},
		{"key in a nested table", table + "[openshell.drivers.kubernetes.resource_admission]\nenabld = true\n", stock + "resource_admission.enabld (gw.toml:3): unknown key; did you mean enabled?"},
		{"key in an inline table", table + "sandbox_runtime = { boundary_prot = 2000 }\n", stock + "sandbox_runtime.boundary_prot (gw.toml:2): unknown key; did you mean boundary_port?"},
		{"key of two other tables", table + "enabled = true\n", stock + "enabled (gw.toml:2): unknown key"},
		{"key of the outer table", table + "sandbox_runtime.namespace = \"x\"\n", stock + "sandbox_runtime.namespace (gw.toml:2): unknown key in this table; did you mean " + stock + "namespace?"},

		{"string for an integer", table + "sa_token_ttl_secs = \"1\"\n", stock + "sa_token_ttl_secs (gw.toml:2): must be an integer, but is a string"},
		{"float for an integer", table + "sa_token_ttl_secs = 1.0\n", stock + "sa_token_ttl_secs (gw.toml:2): must be an integer, but is a float"},
		{"negative uid", table + "sandbox_uid = -1\n", stock + "sandbox_uid (gw.toml:2): -1 is out of range; use an integer from 0 to 4294967295"},
		{"integer for a string", table + "namespace = 7\n", stock + "namespace (gw.toml:2): must be a string, but is an integer"},
		{"integer for a mode", table + "workspace_mode = 7\n", stock + "workspace_mode (gw.toml:2): must be a string, but is an integer"},
		{"boolean for an optional string", table + "operator_namespace_file = true\n", stock + "operator_namespace_file (gw.toml:2): must be a string, but is a boolean"},
		{"date for a string", table + "namespace = 2026-01-01\n", stock + "namespace (gw.toml:2): must be a string, but is a date or time"},
		{"string for a list", table + "image_pull_secrets = \"a\"\n", stock + "image_pull_secrets (gw.toml:2): must be an array, but is a string"},
		{"element of a list", table + "image_pull_secrets = [\n\"a\",\n1]\n", stock + "image_pull_secrets[1] (gw.toml:2): must be a string, but is an integer"},
		{"list for a map", table + "resource_admission.required_labels = []\n", stock + "resource_admission.required_labels (gw.toml:2): must be a table, but is an array"},
		{"entry of a map", table + "[openshell.drivers.kubernetes.resource_admission.required_labels]\n\"a.b/c\" = true\n", stock + `resource_admission.required_labels."a.b/c" (gw.toml:3): must be a string, but is a boolean`},
		{"value for a table", table + "sandbox_runtime = 5500\n", stock + "sandbox_runtime (gw.toml:2): must be a table, but is an integer"},

		{"portcullis is no table", "portcullis = 1\n", "portcullis (gw.toml:1): must be a table, but is an integer"},
		{"unknown section", "[portcullis.lifecicle]\n", "portcullis.lifecicle (gw.toml:1): unknown table; did you mean lifecycle?"},
		{"section is no table", "[portcullis]\nnats = \"nats://x\"\n", "portcullis.nats (gw.toml:2): must be a table, but is a string"},
		{"unknown key of portcullis", "[portcullis]\nloglevel = \"info\"\n", "portcullis.loglevel (gw.toml:2): unknown key; did you mean log_level?"},
		{"log level", "[portcullis]\nlog_level = \"verbose\"\n", `portcullis.log_level (gw.toml:2): "verbose" is not a log level; use trace, debug, info, warn or error`},
		{"log level is a table", "[portcullis.log_level]\n", "portcullis.log_level (gw.toml:1): must be a string, but is a table"},

		{"removed topology", table + "topology = \"combined\"\n", stock + "topology (gw.toml:2): removed, use "},
		{"removed sideload", table + "supervisor_sideload_method = \"image-volume\"\n", stock + "supervisor_sideload_method (gw.toml:2): removed, use "},
		{"removed profile", table + "app_armor_profile = \"Unconfined\"\n", stock + "app_armor_profile (gw.toml:2): removed, use "},
		{"removed sidecar uid", table + "[openshell.drivers.kubernetes.sidecar]\nproxy_uid = 1337\n", stock + "sidecar.proxy_uid (gw.toml:3): removed, use "},
		{"removed sidecar policy", table + "sidecar.process_binary_aware_network_policy = true\n", stock + "sidecar.process_binary_aware_network_policy (gw.toml:2): removed, use "},
		{"removed sidecar table", table + "[openshell.drivers.kubernetes.sidecar]\n", stock + "sidecar (gw.toml:2): removed, use "},
		{"removed key in capitals", table + "Topology = \"x\"\n", stock + "Topology (gw.toml:2): unknown key; if topology is meant: removed, use supervisor_image and sandbox_runtime_image instead: "},
		{"removed key misspelt", table + "topolgy = \"x\"\n", stock + "topolgy (gw.toml:2): unknown key; if topology is meant: removed, use "},
		{"removed key in one word less", table + "apparmor_profile = \"x\"\n", stock + "apparmor_profile (gw.toml:2): unknown key; if app_armor_profile is meant: removed, use "},
		{"removed table in capitals", table + "Sidecar.proxy_uid = 1\n", stock + "Sidecar (gw.toml:2): unknown key; if sidecar is meant: removed, use "},
		{"removed key in another table", table + "sandbox_runtime.topology = \"x\"\n", stock + "sandbox_runtime.topology (gw.toml:2): unknown key"},
		{"unknown key of removed table", table + "sidecar.x = 1\n", stock + "sidecar.x (gw.toml:2): removed, use "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := driverconf.Load(driverconf.Source{Path: "gw.toml", Bytes: []byte(tc.text)})
			if ps := problems(t, err); len(ps) != 1 || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got:\n%v\nwant:\n%s", err, tc.want)
			}
			exact := !strings.HasSuffix(tc.want, ": ") && !strings.HasSuffix(tc.want, "use ")
			if exact && err.Error() != tc.want {
				t.Errorf("got:\n%v\nwant exactly:\n%s", err, tc.want)
			}
		})
	}
}

// TestGatewayTablesAreIgnored: the same file serves the gateway.
func TestGatewayTablesAreIgnored(t *testing.T) {
	c := mustLoad(t, driverconf.Source{Bytes: []byte(`
[openshell]
version = 2
compute_driver = "kubernetes"
[openshell.gateway]
anything = [1, { x = 1979-05-27 }]
[openshell.drivers.docker]
image = 1
[openshell.drivers.kubernets]
other = true
[openshell.drivers.kubernetes]
socket_path = "/run/openshell/driver.sock"
`)})
	if c.Kubernetes.SocketPath != "/run/openshell/driver.sock" || c.Kubernetes.Namespace != "openshell" {
		t.Errorf("got %+v", c.Kubernetes)
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"absent", filepath.Join(dir, "absent"), "cannot be opened: no such file or directory"},
		{"not openable", loop, "cannot be opened: too many levels of symbolic links"},
		{"directory", dir, "is a directory; name the file in it"},
		{"fifo", fifo, "is not a regular file"},
		{"too large", write("large", strings.Repeat("#", driverconf.MaxFileBytes+1), 0o600), "is larger than 1048576 bytes"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := driverconf.Load(driverconf.Source{Path: tc.path})
			want := tc.path + ": settings file " + tc.want
			if ps := problems(t, err); len(ps) != 1 || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	t.Run("largest", func(t *testing.T) {
		path := write("largest", "#"+strings.Repeat("#", driverconf.MaxFileBytes-1), 0o600)
		mustLoad(t, driverconf.Source{Path: path})
	})
	t.Run("too many bytes given", func(t *testing.T) {
		_, err := driverconf.Load(driverconf.Source{Bytes: make([]byte, driverconf.MaxFileBytes+1)})
		if ps := problems(t, err); len(ps) != 1 || err.Error() != "settings: settings file is larger than 1048576 bytes" {
			t.Errorf("got %v", err)
		}
	})
}

// TestUnreadFileHidesNoOtherProblem: flags and variables are judged as far as
// nothing that the file may have said could change the answer.
func TestUnreadFileHidesNoOtherProblem(t *testing.T) {
	files := map[string]driverconf.Source{
		"absent":   {Path: "/nonexistent/gateway.toml"},
		"too many": {Path: "gw.toml", Bytes: make([]byte, driverconf.MaxFileBytes+1)},
		"not TOML": {Path: "gw.toml", Bytes: []byte("[openshell")},
	}
	for name, src := range files {
		t.Run(name, func(t *testing.T) {
			src.LookupEnv = env(map[string]string{"OPENSHELL_K8S_SANDBOX_UID": "root", "OPENSHELL_OTLP_ENDPOINT": "http://c/v1/traces"})
			// The mode, the proxy and the Secret's name each need a key that the file may hold.
			src.Flags = flags(t, "--sandbox-gid=0", "--workspace-mode=operator", "--proxy-auth-secret-name=n", "--bind-address=[::1]:2")
			src.Sections = tracing()
			src.Validate = func(c *driverconf.Config, report driverconf.Report) {
				if c.Kubernetes.Namespace != "openshell" {
					t.Errorf("namespace %s, want the default of a run with a file", c.Kubernetes.Namespace)
				}
				report(stock+"socket_path", "is not set")
				report(stock+"sandbox_gid", "is of the flag")
			}
			_, err := driverconf.Load(src)
			wantKeys(t, err, "", "--bind-address", stock+"sandbox_gid", stock+"sandbox_gid", stock+"sandbox_uid", "portcullis.telemetry.otlp_endpoint")
		})
	}
}

func TestFileOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.toml")
	if err := os.WriteFile(path, []byte("[openshell.drivers.kubernetes]\n\ngateway_id = \"blue\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, driverconf.Source{Path: path})
	want := driverconf.Origin{Kind: driverconf.OriginFile, Name: path, Line: 3}
	if got := c.Origin(stock + "gateway_id"); got != want || c.Kubernetes.GatewayID != "blue" {
		t.Errorf("gateway_id %q from %v, want blue from %v", c.Kubernetes.GatewayID, got, want)
	}
	if got := c.Origin(stock + "gateway"); got != (driverconf.Origin{}) {
		t.Errorf("a key that does not exist comes from %v", got)
	}
}
