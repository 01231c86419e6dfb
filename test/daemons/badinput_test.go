package daemons_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// shortDir is a directory whose path leaves room for a Unix socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// fails runs the daemon and demands that it ends by itself, with a non-zero code, no output, and as
// its last word one line that contains every one of want.
func fails(t *testing.T, daemon, text string, args []string, want ...string) {
	t.Helper()
	if text != "" {
		args = append([]string{"--config", program.Settings(t, text)}, args...)
	}
	cmd := program.Command(t, daemon, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil || cmd.ProcessState.ExitCode() <= 0 || stdout.Len() > 0 {
		t.Fatalf("%s %v: %v, stdout %q, stderr:\n%s", daemon, args, err, stdout.String(), stderr.String())
	}
	var plain []string
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "{") { // log lines are JSON
			plain = append(plain, line)
		}
	}
	if len(plain) != 1 || !strings.HasPrefix(plain[0], daemon+": ") {
		t.Fatalf("%s %v: want one line, got:\n%s", daemon, args, stderr.String())
	}
	for _, w := range want {
		if !strings.Contains(plain[0], w) {
			t.Errorf("the line does not name %q: %s", w, plain[0])
		}
	}
	if strings.Contains(stderr.String(), "goroutine ") {
		t.Errorf("a stack trace is shown:\n%s", stderr.String())
	}
}

func write(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tokenauthWith is valid but for what the caller puts in.
func tokenauthWith(cert, key, ca, kubeconfig string) string {
	return fmt.Sprintf("[portcullis.tokenauth]\nhttp_address = \"127.0.0.1:0\"\nlisten_address = \"127.0.0.1:0\"\n"+
		"[portcullis.mesh]\ncert_file = %q\nkey_file = %q\nca_file = %q\n", cert, key, ca) + kubernetesTable(kubeconfig)
}

// kubeconfigWith is the kubeconfig with another credential.
func kubeconfigWith(t *testing.T, path, credential string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "token: ") {
			lines[i] = line[:strings.Index(line, "token")] + credential
		}
	}
	return write(t, "kubeconfig", strings.Join(lines, "\n"))
}

// publicKeys is the table that every reader of the allowlist needs.
const publicKeys = "[portcullis.allowlist]\npublic_keys_file = \"/etc/portcullis/public.keys\"\n"

// lifecycleWithout are settings of lifecycle that lack the socket alone.
func lifecycleWithout(kubeconfig string) string {
	return "[openshell.drivers.kubernetes]\n" + runtimeImage + "[portcullis.lifecycle]\nhttp_address = \"127.0.0.1:0\"\n" + alone + kubernetesTable(kubeconfig)
}

func TestBadFilesGiveOneLine(t *testing.T) {
	t.Parallel()
	kubeconfig := account(t)
	ca := meshtest.NewCA(t)
	good := meshtest.NewFiles(t, ca, "tokenauth")
	content := good.Read(t)

	// broken returns settings whose certificate files were changed in one way.
	broken := func(change func(*meshtest.Content)) string {
		files := meshtest.NewFiles(t, ca, "tokenauth")
		c := content
		change(&c)
		files.Replace(t, c)
		return tokenauthWith(files.Cert, files.Key, files.CA, kubeconfig)
	}
	proxyCA := func(path string) string {
		files := meshtest.NewFiles(t, ca, "supervisorctl")
		return fmt.Sprintf("[portcullis.supervisorctl]\nhttp_address = \"127.0.0.1:0\"\nlisten_address = \"127.0.0.1:0\"\n"+needed("supervisorctl")+
			"https_proxy = \"http://proxy.example:3128\"\nproxy_ca_bundle = %q\n[portcullis.mesh]\ncert_file = %q\nkey_file = %q\nca_file = %q\n", path, files.Cert, files.Key, files.CA) + kubernetesTable(kubeconfig)
	}
	seed := write(t, "seed", "SUNOTASEED")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // after the cases, which run in parallel
	tests := map[string]struct {
		daemon, text string
		args         []string
		want         []string
	}{
		"certificate is not PEM": {daemon: "tokenauth", text: broken(func(c *meshtest.Content) { c.Cert = []byte("x") }), want: []string{"tls.crt"}},
		"key is not PEM":         {daemon: "tokenauth", text: broken(func(c *meshtest.Content) { c.Key = []byte("x") }), want: []string{"tls.key"}},
		"key of another":         {daemon: "tokenauth", text: broken(func(c *meshtest.Content) { c.Key = ca.Issue(t, "tokenauth").Key }), want: []string{"tls.key"}},
		"authority is empty":     {daemon: "tokenauth", text: broken(func(c *meshtest.Content) { c.CA = nil }), want: []string{"ca.crt"}},
		"name of another":        {daemon: "tokenauth", text: broken(func(c *meshtest.Content) { c.Pair = ca.Issue(t, "nswatch") }), want: []string{"tls.crt", "nswatch"}},
		"expired":                {daemon: "tokenauth", text: broken(func(c *meshtest.Content) { c.Pair = ca.Issue(t, "tokenauth", meshtest.Expired()) }), want: []string{"tls.crt", "expired"}},
		"certificate is absent":  {daemon: "tokenauth", text: tokenauthWith("/nonexistent/tls.crt", "/nonexistent/tls.key", good.CA, kubeconfig), want: []string{"/nonexistent/tls.crt"}},
		"key is not named":       {daemon: "tokenauth", text: tokenauthWith(good.Cert, "", good.CA, kubeconfig), want: []string{"portcullis.mesh.key_file"}},
		"plaintext off loopback": {
			daemon: "supervisorctl",
			text:   "[portcullis.supervisorctl]\nhttp_address = \"127.0.0.1:0\"\nlisten_address = \"0.0.0.0:0\"\n" + needed("supervisorctl") + "[portcullis.mesh]\nallow_plaintext_loopback = true\n" + kubernetesTable(kubeconfig),
			want:   []string{"0.0.0.0:0", "loopback"},
		},
		"kubeconfig is absent":   {daemon: "tokenauth", text: tokenauthWith(good.Cert, good.Key, good.CA, "/nonexistent/kubeconfig"), want: []string{"/nonexistent/kubeconfig"}},
		"kubeconfig is not YAML": {daemon: "tokenauth", text: tokenauthWith(good.Cert, good.Key, good.CA, write(t, "kubeconfig", "\tx: [")), want: []string{"kubeconfig"}},
		"kubeconfig is empty":    {daemon: "tokenauth", text: tokenauthWith(good.Cert, good.Key, good.CA, write(t, "kubeconfig", "")), want: []string{"kubeconfig"}},
		"token file never ends":  {daemon: "tokenauth", text: tokenauthWith(good.Cert, good.Key, good.CA, kubeconfigWith(t, kubeconfig, "tokenFile: /dev/zero")), want: []string{"/dev/zero"}},
		"token is two lines":     {daemon: "tokenauth", text: tokenauthWith(good.Cert, good.Key, good.CA, kubeconfigWith(t, kubeconfig, `token: "a\nb"`)), want: []string{"token"}},
		"authority never ends":   {daemon: "tokenauth", text: "[portcullis.telemetry]\notlp_endpoint = \"https://127.0.0.1:4317\"\notlp_ca_file = \"/dev/zero\"\n" + tokenauthWith(good.Cert, good.Key, good.CA, kubeconfig), want: []string{"/dev/zero"}},
		"store is a file":        {daemon: "nswatch", text: nswatchWith(t, embedded(write(t, "store", ""), "127.0.0.1:4222"), kubeconfig), want: []string{"embedded_store_dir"}},
		"NATS port is taken":     {daemon: "nswatch", text: nswatchWith(t, embedded(filepath.Join(t.TempDir(), "store"), taken.Addr().String()), kubeconfig), want: []string{"embedded_listen"}},
		"NATS seed is malformed": {
			daemon: "nswatch",
			text:   nswatchWith(t, fmt.Sprintf("urls = [\"nats://127.0.0.1:4222\"]\nnkey_seed_file = %q\n", seed), kubeconfig),
			want:   []string{seed},
		},
		"NATS is not named": {daemon: "nswatch", text: nswatchWith(t, "", kubeconfig), want: []string{"portcullis.nats"}},
		"operator mode without NATS": {
			daemon: "tokenauth",
			text:   "[openshell.drivers.kubernetes]\nworkspace_mode = \"operator\"\noperator_namespace_label = \"a=b\"\n" + publicKeys + tokenauthWith(good.Cert, good.Key, good.CA, kubeconfig),
			want:   []string{"portcullis.nats.urls"},
		},
		"selector does not parse": {
			daemon: "nswatch", text: strings.Replace(nswatchWith(t, "urls = [\"nats://127.0.0.1:4222\"]\n", kubeconfig), `"a=b"`, `"a in (b"`, 1),
			want: []string{"operator_namespace_label"},
		},
		"no socket":                      {daemon: "lifecycle", text: lifecycleWithout(kubeconfig), want: []string{"socket_path"}},
		"socket path is long":            {daemon: "lifecycle", text: lifecycleWithout(kubeconfig), args: []string{"--bind-socket", "/tmp/" + strings.Repeat("d/", 60) + "s"}, want: []string{"107"}},
		"proxy's bundle is absent":       {daemon: "supervisorctl", text: proxyCA("/nonexistent/proxy.pem"), want: []string{"proxy_ca_bundle", "/nonexistent/proxy.pem"}},
		"proxy's bundle holds no anchor": {daemon: "supervisorctl", text: proxyCA(write(t, "proxy.pem", "x")), want: []string{"proxy_ca_bundle", "proxy.pem", "no PEM certificate"}},
		"address to listen on":           {daemon: "lifecycle", text: lifecycleWithout(kubeconfig), args: []string{"--bind-address", "127.0.0.1:50061", "--bind-socket", "/run/portcullis/driver.sock"}, want: []string{"--bind-address", "--bind-socket"}},
		"trace collector with a path":    {daemon: "nswatch", text: nswatchWith(t, "urls = [\"nats://127.0.0.1:4222\"]\n", kubeconfig), args: []string{"--otlp-endpoint", "http://c/v1/traces"}, want: []string{"--otlp-endpoint"}},
		"not TOML":                       {daemon: "nswatch", text: "[portcullis", want: []string{"gateway.toml"}},
		"settings are absent":            {daemon: "nswatch", args: []string{"--config", "/nonexistent/gateway.toml"}, want: []string{"/nonexistent/gateway.toml"}},
		"unknown flag":                   {daemon: "lifecycle", args: []string{"--bind-sokcet", "x"}, want: []string{"--bind-sokcet"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails(t, test.daemon, test.text, test.args, test.want...)
		})
	}
}

// TestConfigCheckKnowsWhatEndsTheStart: the rules that only one daemon has.
func TestConfigCheckKnowsWhatEndsTheStart(t *testing.T) {
	t.Parallel()
	const mesh = "[portcullis.mesh]\nallow_plaintext_loopback = true\n"
	tests := map[string]struct{ daemon, text, want string }{
		"no socket":          {"lifecycle", "[openshell.drivers.kubernetes]\n" + runtimeImage + mesh, "socket_path: is not set"},
		"socket is relative": {"lifecycle", "[openshell.drivers.kubernetes]\nsocket_path = \"driver.sock\"\n" + runtimeImage + mesh, "gateway.toml:2): socket path \"driver.sock\" is relative"},
		"nothing to publish": {
			"nswatch", strings.Replace(nswatchWith(t, "urls = [\"nats://127.0.0.1:4222\"]\n", "/kubeconfig"), `"operator"`, `"shared"`, 1), "gateway.toml:2): is shared",
		},
		"operator mode without NATS": {
			"tokenauth", "[openshell.drivers.kubernetes]\nworkspace_mode = \"operator\"\noperator_namespace_label = \"a=b\"\n" + publicKeys + mesh, "portcullis.nats.urls: is not set",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails(t, test.daemon, "", []string{"config", "check", "--config", program.Settings(t, test.text)}, test.want)
		})
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	for _, daemon := range []string{"lifecycle", "nswatch", "supervisorctl", "tokenauth"} {
		t.Run(daemon, func(t *testing.T) {
			t.Parallel()
			text := "[openshell.gateway]\nanything = 1\n[openshell.drivers.kubernetes]\ngateway_id = \"team-gateway\"\nsocket_path = \"/run/portcullis/driver.sock\"\n" +
				"workspace_mode = \"operator\"\noperator_namespace_label = \"a=b\"\ngrpc_endpoint = \"https://gateway.example:8080\"\nsupervisor_image = \"registry.example/supervisor:1\"\n" + runtimeImage +
				"[portcullis.nswatch]\nsigning_key_file = \"/etc/portcullis/signing.key\"\n[portcullis.allowlist]\npublic_keys_file = \"/etc/portcullis/public.keys\"\n" +
				"[portcullis.mesh]\nallow_plaintext_loopback = true\n[portcullis.nats]\nurls = [\"nats://127.0.0.1:4222\"]\n"
			out, err := program.Command(t, daemon, "config", "check", "--config", program.Settings(t, text)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			for _, want := range []string{"gateway_id = 'team-gateway'", "[portcullis." + daemon + "]"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("the effective settings lack %s:\n%s", want, out)
				}
			}
		})
	}
}

func TestSettingsInTheReadmeAreValid(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```toml\n")
	example, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("the README shows no settings")
	}
	for _, daemon := range []string{"lifecycle", "nswatch", "supervisorctl", "tokenauth"} {
		if out, err := program.Command(t, daemon, "config", "check", "--config", program.Settings(t, example)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v:\n%s", daemon, err, out)
		}
	}
}
