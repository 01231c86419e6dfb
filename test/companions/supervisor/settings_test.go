package supervisor_test

import (
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
	"github.com/portcullis-mesh/portcullis/test/companions/supervisor"
)

const spec = `{"version":1,"command":["/tool","-l"],"tty":true}`

// podSettings are the command line and the environment of contract 7.6.
func podSettings() (args []string, env map[string]string) {
	args = []string{
		"--backend-descriptor-file", "/.openshell/supervisor/runtime-descriptor.json", "--auth-bundle-file", "/.openshell/supervisor/auth.json",
		"--workdir", "/sandbox", "--health-socket-path", "/run/openshell/health.sock", "--upstream-proxy", "http://proxy:3128",
		"--upstream-no-proxy", "a,b", "--upstream-proxy-connect-by-hostname",
	}
	env = map[string]string{
		"OPENSHELL_ADMITTED_ISOLATION_BACKEND": "openshell-sandbox", "OPENSHELL_ENDPOINT": "https://gateway.openshell.svc:8080",
		"OPENSHELL_SANDBOX_ID": "id", "OPENSHELL_MAIN_PROCESS_SPEC": spec, "OPENSHELL_K8S_SA_TOKEN_FILE": "/var/run/secrets/openshell/token",
		"OPENSHELL_TLS_CA": "/.openshell/supervisor/client-ca.crt", "PATH": "/bin",
	}
	return args, env
}

func TestParse(t *testing.T) {
	t.Parallel()
	args, env := podSettings()
	got, err := supervisor.Parse(args, env)
	if err != nil {
		t.Fatal(err)
	}
	if got.DescriptorFile != args[1] || got.AuthFile != args[3] || got.Workdir != "/sandbox" || got.HealthSocket != args[7] || got.SandboxID != "id" ||
		got.Endpoint.Host != "gateway.openshell.svc:8080" || got.TokenFile != "/var/run/secrets/openshell/token" || got.CAFile != env["OPENSHELL_TLS_CA"] ||
		!reflect.DeepEqual(got.Main, supervisor.MainProcess{Version: 1, Command: []string{"/tool", "-l"}, TTY: true}) {
		t.Errorf("settings %+v", got)
	}
	for name, tc := range map[string]struct {
		key, value string // of the environment; a key with - is a flag
		want       string
	}{
		"another backend":       {"OPENSHELL_ADMITTED_ISOLATION_BACKEND", "kubernetes-proxy-pod", "OPENSHELL_ADMITTED_ISOLATION_BACKEND"},
		"no endpoint":           {"OPENSHELL_ENDPOINT", "", "OPENSHELL_ENDPOINT"},
		"endpoint without host": {"OPENSHELL_ENDPOINT", "https://:443", "OPENSHELL_ENDPOINT"},
		"another scheme":        {"OPENSHELL_ENDPOINT", "ftp://gateway:1", "OPENSHELL_ENDPOINT"},
		"no sandbox":            {"OPENSHELL_SANDBOX_ID", "", "OPENSHELL_SANDBOX_ID"},
		"no token file":         {"OPENSHELL_K8S_SA_TOKEN_FILE", "token", "OPENSHELL_K8S_SA_TOKEN_FILE"},
		"no main process":       {"OPENSHELL_MAIN_PROCESS_SPEC", "", "OPENSHELL_MAIN_PROCESS_SPEC"},
		"certificate alone":     {"OPENSHELL_TLS_CERT", "/c", "OPENSHELL_TLS_KEY"},
		"proxy CA alone":        {"OPENSHELL_PROXY_CA_CERT", "/c", "OPENSHELL_PROXY_CA_CERT"},
		"unknown flag":          {"--upstream", "x", "upstream"},
		"an argument":           {"-", "", "unexpected"},
		"relative path":         {"--workdir", "sandbox", "--workdir"},
	} {
		args, env := podSettings()
		switch {
		case tc.key == "-":
			args = append(args, "surplus")
		case strings.HasPrefix(tc.key, "-"):
			args = append(args, tc.key, tc.value)
		default:
			env[tc.key] = tc.value
		}
		if _, err := supervisor.Parse(args, env); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
	_, err = supervisor.Parse(nil, nil)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(name, "OPENSHELL_") && name != "OPENSHELL_TLS_CA" && !strings.Contains(err.Error(), name) {
			t.Errorf("the error leaves out %s: %v", name, err)
		}
	}
}

func TestProxyCAMustFit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := materialtest.ForeignLeaf(t), materialtest.ForeignLeaf(t)
	cert, key, other := filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "other")
	for path, content := range map[string][]byte{cert: a.Certificate, key: a.Key, other: b.Key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args, env := podSettings()
	env["OPENSHELL_PROXY_CA_CERT"], env["OPENSHELL_PROXY_CA_KEY"] = cert, key
	if _, err := supervisor.Parse(args, env); err != nil {
		t.Error(err)
	}
	env["OPENSHELL_PROXY_CA_KEY"] = other
	if _, err := supervisor.Parse(args, env); err == nil {
		t.Error("a key of another certificate is accepted")
	}
}

func TestParseMainProcess(t *testing.T) {
	t.Parallel()
	encoded := "base64url:" + base64.RawURLEncoding.EncodeToString([]byte(`{"version":1,"command":["/tool","ÿ?>"],"tty":false}`))
	for name, tc := range map[string]struct {
		value string
		want  []string // the command; nil when it is refused
	}{
		"plain":           {spec, []string{"/tool", "-l"}},
		"base64url":       {encoded, []string{"/tool", "ÿ?>"}},
		"attachment":      {`{"version":1,"command":["/t"],"tty":false,"await_main_process_attachment":true}`, []string{"/t"}},
		"padded":          {encoded + "=", nil},
		"not base64url":   {"base64url:" + spec, nil},
		"version 2":       {`{"version":2,"command":["/t"],"tty":false}`, nil},
		"no version":      {`{"command":["/t"],"tty":false}`, nil},
		"no command":      {`{"version":1,"tty":false}`, nil},
		"empty command":   {`{"version":1,"command":[],"tty":false}`, nil},
		"empty program":   {`{"version":1,"command":[""],"tty":false}`, nil},
		"unknown field":   {`{"version":1,"command":["/t"],"tty":false,"env":{}}`, nil},
		"two values":      {spec + spec, nil},
		"larger than all": {`{"version":1,"command":["` + strings.Repeat("x", 64<<10) + `"],"tty":false}`, nil},
	} {
		got, err := supervisor.ParseMainProcess(tc.value)
		if (err == nil) != (tc.want != nil) || !slices.Equal(got.Command, tc.want) {
			t.Errorf("%s: %v, %v", name, got.Command, err)
		}
	}
}

func TestFilesMustBelongTogether(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*materialtest.Material)
		want   string
	}{
		"another session":         {func(m *materialtest.Material) { m.Auth["session_id"] = "1c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718" }, "session_id"},
		"another generation":      {func(m *materialtest.Material) { m.Auth["runtime_generation"] = "g2" }, "runtime_generation"},
		"another sandbox":         {func(m *materialtest.Material) { m.Descriptor["boundary_id"] = "other" }, "OPENSHELL_SANDBOX_ID"},
		"unknown in the one file": {func(m *materialtest.Material) { m.Auth["more"] = 1 }, "more"},
		"unknown in the other":    {func(m *materialtest.Material) { m.Descriptor["more"] = 1 }, "more"},
	} {
		s := newSite(t, companionstest.Command(t, "sleep"), tc.change)
		_, err := supervisor.New(s.settings, s.patience, time.Now, zerolog.Nop())
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}
