package companion_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

var update = flag.Bool("update", false, "write the golden objects anew; stock binaries read what is in them")

var goldenCases = []struct {
	name   string
	change func(*world)
}{
	{"shared", func(*world) {}},
	{"shared-client-tls", func(w *world) { w.settings.ClientTLSSecretName = "gateway-client" }},
	{"shared-pull-secrets", func(w *world) { w.settings.ImagePullSecrets = []string{"registry-a", "registry-b"} }},
	{"managed", func(w *world) { w.in(driverconf.ModeManaged) }},
	{"managed-pull-secrets", func(w *world) {
		w.in(driverconf.ModeManaged)
		w.settings.ImagePullSecrets = []string{"registry-a", "registry-b"}
	}},
	{"managed-client-ca", func(w *world) {
		w.in(driverconf.ModeManaged)
		w.settings.ClientTLSSecretName = "gateway-client"
	}},
	{"managed-client-key", func(w *world) {
		w.in(driverconf.ModeManaged)
		w.settings.ClientTLSSecretName = "gateway-client"
		w.options.ClientKey = true
	}},
	{"operator", func(w *world) { w.in(driverconf.ModeOperator) }},
	{"operator-client-ca-pull-secrets", func(w *world) {
		w.in(driverconf.ModeOperator)
		w.settings.ClientTLSSecretName = "gateway-client"
		w.settings.ImagePullSecrets = []string{"registry-a"}
	}},
	{"proxy", func(w *world) {
		w.settings.HTTPSProxy = "http://proxy.example:3128"
		w.settings.NoProxy = "10.0.0.0/8,.svc"
	}},
	{"proxy-credential", func(w *world) {
		w.settings.HTTPSProxy = "https://proxy.example:3128"
		w.settings.ProxyAuthSecretName, w.settings.ProxyAuthSecretKey = "proxy-auth", "user.pass"
	}},
	{"proxy-all", func(w *world) {
		w.settings.HTTPSProxy = "http://proxy.example:3128"
		w.settings.NoProxy = ".svc"
		w.settings.ProxyAuthSecretName, w.settings.ProxyAuthSecretKey = "proxy-auth", "credential"
		w.settings.ProxyAuthAllowInsecure = true
		w.settings.ProxyConnectByHostname = true
		w.settings.ProxyCABundle = "/etc/portcullis/proxy-ca.pem"
	}},
	{"spiffe", func(w *world) {
		w.settings.ProviderSpiffeWorkloadAPISocketPath = "/spiffe-workload-api/spire-agent.sock"
	}},
	{"host-gateway", func(w *world) { w.settings.HostGatewayIP = "192.0.2.1" }},
	{"host-gateway-ipv6", func(w *world) { w.settings.HostGatewayIP = "2001:db8::1" }},
	{"tracing", func(w *world) {
		w.settings.SupervisorOTLPEndpoint = "http://collector.example:4317"
		w.sandbox.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		w.sandbox.TraceState = "vendor=value"
	}},
	{"tracing-without-a-trace", func(w *world) { w.settings.SupervisorOTLPEndpoint = "http://collector.example:4317" }},
	{"pull-policy", func(w *world) { w.settings.SupervisorImagePullPolicy = driverconf.PullIfNotPresent }},
	{"telemetry", func(w *world) { w.options.Telemetry = true }},
	{"no-log-level", func(w *world) { w.sandbox.LogLevel = "" }},
	{"shell", func(w *world) { w.sandbox.MainProcess = `{"version":1,"command":[],"tty":false}` }},
	{"await-attachment", func(w *world) {
		w.sandbox.MainProcess = `{"version":1,"command":["/bin/run"],"tty":true,"await_main_process_attachment":true}`
	}},
	{"dollars", func(w *world) {
		w.sandbox.MainProcess = `{"version":1,"command":["/bin/sh","-c","echo $(OPENSHELL_ENDPOINT) $$HOME <&> \"q\""],"tty":false}`
		w.settings.HTTPSProxy = "http://proxy.example:3128"
		w.settings.NoProxy = "$(OPENSHELL_SANDBOX)"
	}},
	{"v1alpha1-other-port-and-token", func(w *world) {
		w.sandbox.Version = sandboxapi.V1alpha1
		w.settings.SandboxRuntime.BoundaryPort = 65535
		w.settings.SATokenTTLSecs = 86400
	}},
	{"everything", func(w *world) {
		w.settings.ClientTLSSecretName = "gateway-client"
		w.settings.ImagePullSecrets = []string{"registry-a"}
		w.settings.SupervisorImagePullPolicy = driverconf.PullAlways
		w.settings.HTTPSProxy = "http://proxy.example:3128"
		w.settings.NoProxy = ".svc"
		w.settings.ProxyAuthSecretName, w.settings.ProxyAuthSecretKey = "proxy-auth", "credential"
		w.settings.ProxyAuthAllowInsecure = true
		w.settings.ProxyConnectByHostname = true
		w.settings.ProxyCABundle = "/etc/portcullis/proxy-ca.pem"
		w.settings.ProviderSpiffeWorkloadAPISocketPath = "/run/spire/agent.sock"
		w.settings.HostGatewayIP = "192.0.2.1"
		w.settings.SupervisorOTLPEndpoint = "http://collector.example:4317"
		w.sandbox.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		w.options.Telemetry = true
	}},
	{"names-at-the-limit", func(w *world) {
		w.sandbox.ID = "ABCDEFAB-CDEF-ABCD-EFAB-CDEFABCDEFAB"
		w.sandbox.Workspace = strings.Repeat("w", 19)
		w.sandbox.Name = strings.Repeat("n", 42)
		w.sandbox.ObjectName = w.sandbox.Workspace + "--" + w.sandbox.Name
		w.sandbox.Generation = strings.Repeat("f", 64)
		w.sandbox.User, w.sandbox.Group = 2147483647, 1
		w.settings.GatewayID = strings.Repeat("g", 63)
	}},
}

func TestGolden(t *testing.T) {
	stray := map[string]bool{}
	paths, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		stray[path] = true
	}
	for _, c := range goldenCases {
		path := filepath.Join("testdata", c.name+".yaml")
		delete(stray, path)
		t.Run(c.name, func(t *testing.T) {
			w := base(t)
			c.change(w)
			got := everything(t, w)
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the objects of %s are\n%s\nwant\n%s", c.name, got, want)
			}
		})
	}
	for path := range stray {
		t.Errorf("%s belongs to no case", path)
	}
}

// everything is all companions of one world, as YAML documents. Contents of Secrets stand in it as base64.
func everything(t *testing.T, w *world) []byte {
	t.Helper()
	r := w.renderer(t)
	var text bytes.Buffer
	add := func(what string, object any, err error) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "# %s\n%s---\n", what, document)
	}
	service, err := r.Service(w.sandbox)
	add("boundary Service", service, err)
	pod, err := r.SupervisorPod(w.sandbox)
	add("supervisor Pod", pod, err)
	sandboxSecret, err := r.SandboxSecret(w.sandbox, workload(), sandboxFiles())
	add("sandbox bootstrap Secret", sandboxSecret, err)
	supervisorSecret, err := r.SupervisorSecret(w.sandbox, supervisorRef(w), files(r.SupervisorFiles()...))
	add("supervisor bootstrap Secret", supervisorSecret, err)
	for i := range r.PullSecretSources() {
		pull, err := r.PullSecret(w.sandbox, i, pullSource(w, i), workload(), supervisorRef(w))
		add("copy of a pull Secret", pull, err)
	}
	template, err := r.RestartTemplate(w.sandbox, templateVolumes())
	add("changes to the pod template", template, err)
	for _, name := range []string{service.Name, pod.Name, sandboxSecret.Name, supervisorSecret.Name} {
		if len(validation.IsDNS1123Label(name)) > 0 {
			t.Errorf("%q is no name for an object", name)
		}
	}
	return text.Bytes()
}

// TestRenderingTwiceIsTheSame: a repeated call must find what the one before made.
func TestRenderingTwiceIsTheSame(t *testing.T) {
	for _, c := range goldenCases {
		w := base(t)
		c.change(w)
		if a, b := everything(t, w), everything(t, w); !bytes.Equal(a, b) {
			t.Errorf("%s: two renderings differ", c.name)
		}
	}
}
