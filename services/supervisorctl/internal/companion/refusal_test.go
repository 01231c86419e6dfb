package companion_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
)

func wantError(t *testing.T, err error, names string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), names) {
		t.Errorf("error is %v, want one that names %q", err, names)
	}
}

func TestNewRefuses(t *testing.T) {
	if r, err := companion.New(nil, companion.Options{}); err == nil || r != nil {
		t.Error("no settings are taken")
	}
	for _, c := range []struct {
		name   string
		change func(*world)
		names  string
	}{
		{"no supervisor image", func(w *world) { w.settings.SupervisorImage = "" }, "supervisor_image"},
		{"an image with a space", func(w *world) { w.settings.SupervisorImage = "a b" }, "supervisor_image"},
		{"an image with a line break", func(w *world) { w.settings.SupervisorImage = "a\nb" }, "supervisor_image"},
		{"a long image", func(w *world) { w.settings.SupervisorImage = strings.Repeat("a", 2000) }, "supervisor_image"},
		{"a pull policy of another spelling", func(w *world) { w.settings.SupervisorImagePullPolicy = "missing" }, "supervisor_image_pull_policy"},
		{"no gateway", func(w *world) { w.settings.GRPCEndpoint = "" }, "grpc_endpoint"},
		{"a gateway with a credential", func(w *world) { w.settings.GRPCEndpoint = "https://u:p@gateway.example" }, "grpc_endpoint"},
		{"no mode", func(w *world) { w.settings.WorkspaceMode = "" }, "workspace_mode"},
		{"no gateway id", func(w *world) { w.settings.GatewayID = "" }, "gateway_id"},
		{"a privileged port", func(w *world) { w.settings.SandboxRuntime.BoundaryPort = 443 }, "sandbox_runtime.boundary_port"},
		{"no service account", func(w *world) { w.settings.ServiceAccountName = "" }, "service_account_name"},
		{"a pull Secret without a name", func(w *world) { w.settings.ImagePullSecrets = []string{""} }, "image_pull_secrets[0]"},
		{"no_proxy alone", func(w *world) { w.settings.NoProxy = ".svc" }, "no_proxy is set, but https_proxy is not"},
		{"no_proxy blank", func(w *world) { w.settings.HTTPSProxy, w.settings.NoProxy = "https://proxy.example", "  " }, "no_proxy"},
		{"no_proxy with a line break", func(w *world) { w.settings.HTTPSProxy, w.settings.NoProxy = "https://proxy.example", "a\nb" }, "no_proxy"},
		{"proxy_ca_bundle alone", func(w *world) { w.settings.ProxyCABundle = "/ca.pem" }, "proxy_ca_bundle"},
		{"proxy_connect_by_hostname alone", func(w *world) { w.settings.ProxyConnectByHostname = true }, "proxy_connect_by_hostname"},
		{"credential alone", func(w *world) {
			w.settings.ProxyAuthSecretName, w.settings.ProxyAuthSecretKey = "a", "b"
		}, "https_proxy"},
		{"credential in clear text", func(w *world) {
			w.settings.HTTPSProxy = "http://proxy.example"
			w.settings.ProxyAuthSecretName, w.settings.ProxyAuthSecretKey = "a", "b"
		}, "proxy_auth_allow_insecure"},
		{"credential without a key", func(w *world) {
			w.settings.HTTPSProxy, w.settings.ProxyAuthSecretName = "https://proxy.example", "a"
		}, "proxy_auth_secret_key"},
		{"host gateway that is no address", func(w *world) { w.settings.HostGatewayIP = "host" }, "host_gateway_ip"},
		{"SPIFFE socket that is relative", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "a/b" }, "provider_spiffe"},
		{"SPIFFE socket in /", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/agent.sock" }, "provider_spiffe"},
		{"SPIFFE socket with dots", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/a/../run/openshell/b" }, "provider_spiffe"},
		{"SPIFFE socket with two slashes", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/spiffe//agent.sock" }, "provider_spiffe"},
		{"SPIFFE socket with a line break", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/spiffe/a\n/agent.sock" }, "provider_spiffe"},
		{"SPIFFE socket among ours", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/run/openshell/agent.sock" }, "provider_spiffe"},
		{"SPIFFE socket above ours", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/run/agent.sock" }, "provider_spiffe"},
		{"SPIFFE socket above ours by the other name", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/var/run/agent.sock" }, "provider_spiffe"},
		{"SPIFFE socket among the tokens", func(w *world) {
			w.settings.ProviderSpiffeWorkloadAPISocketPath = "/run/secrets/openshell/agent.sock"
		}, "provider_spiffe"},
		{"SPIFFE socket in the logs", func(w *world) { w.settings.ProviderSpiffeWorkloadAPISocketPath = "/var/log/a/b.sock" }, "provider_spiffe"},
		{"client key without a client", func(w *world) { w.options.ClientKey = true }, "client_tls_secret_name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := base(t)
			c.change(w)
			r, err := companion.New(&w.settings, w.options)
			wantError(t, err, c.names)
			if r != nil {
				t.Error("there is a renderer beside the error")
			}
		})
	}
	for _, socket := range []string{"/run/spire/agent.sock", "/var/run/spire/agent.sock", "/run/openshell-spire/agent.sock", "/spiffe/a/b"} {
		w := base(t)
		w.settings.ProviderSpiffeWorkloadAPISocketPath = socket
		if _, err := companion.New(&w.settings, w.options); err != nil {
			t.Errorf("%s: %v", socket, err)
		}
	}
}

func TestNewNamesAllProblems(t *testing.T) {
	w := base(t)
	w.settings.SupervisorImage, w.settings.GRPCEndpoint, w.settings.NoProxy = "", "", ".svc"
	_, err := companion.New(&w.settings, w.options)
	for _, key := range []string{"supervisor_image", "grpc_endpoint", "no_proxy"} {
		wantError(t, err, key)
	}
}

func TestSettingsAreCopied(t *testing.T) {
	w := base(t)
	w.in(driverconf.ModeManaged)
	w.settings.ImagePullSecrets = []string{"a"}
	r := w.renderer(t)
	w.settings.ImagePullSecrets[0] = "b"
	w.settings.SupervisorImage = "changed"
	if got := r.PullSecretSources(); got[0] != "a" {
		t.Errorf("the renderer follows its caller's settings: %v", got)
	}
}

// TestABadSandboxRendersNothing tries each bad field with everything that is rendered.
func TestABadSandboxRendersNothing(t *testing.T) {
	long := strings.Repeat("a", 200<<10)
	for _, c := range []struct {
		name   string
		change func(*companion.Sandbox)
		names  string
	}{
		{"the zero one", func(s *companion.Sandbox) { *s = companion.Sandbox{} }, "sandbox id"},
		{"no id", func(s *companion.Sandbox) { s.ID = "" }, "sandbox id"},
		{"an id that is too long", func(s *companion.Sandbox) { s.ID = id + "a" }, "sandbox id"},
		{"an id that is no label", func(s *companion.Sandbox) { s.ID = "a_b" }, "sandbox id"},
		{"an id that folds into ASCII", func(s *companion.Sandbox) { s.ID = "\u212a" }, "sandbox id"},
		{"no name", func(s *companion.Sandbox) { s.Name = "" }, "sandbox name"},
		{"a name that is no label", func(s *companion.Sandbox) { s.Name = "Demo" }, "sandbox name"},
		{"no workspace", func(s *companion.Sandbox) { s.Workspace = "" }, "sandbox namespace"},
		{"another namespace", func(s *companion.Sandbox) { s.Namespace = "kube-system" }, "sandbox namespace"},
		{"another object", func(s *companion.Sandbox) { s.ObjectName = "team-b--demo" }, "sandbox object name"},
		{"no uid", func(s *companion.Sandbox) { s.UID = "" }, "sandbox uid"},
		{"a uid with a space", func(s *companion.Sandbox) { s.UID = "a b" }, "sandbox uid"},
		{"a long uid", func(s *companion.Sandbox) {
			s.UID = "a" + "a" + "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
		}, "sandbox uid"},
		{"no version", func(s *companion.Sandbox) { s.Version = "" }, "sandbox version"},
		{"another version", func(s *companion.Sandbox) { s.Version = "v2" }, "sandbox version"},
		{"no generation", func(s *companion.Sandbox) { s.Generation = "" }, "sandbox generation"},
		{"a generation of upper case", func(s *companion.Sandbox) { s.Generation = "G1" }, "sandbox generation"},
		{"a generation without a letter", func(s *companion.Sandbox) { s.Generation = "---" }, "sandbox generation"},
		{"a long generation", func(s *companion.Sandbox) { s.Generation = strings.Repeat("g", 65) }, "sandbox generation"},
		{"root", func(s *companion.Sandbox) { s.User = 0 }, "sandbox user"},
		{"the group of root", func(s *companion.Sandbox) { s.Group = 0 }, "sandbox group"},
		{"a user that Kubernetes refuses", func(s *companion.Sandbox) { s.User = 2147483648 }, "sandbox user"},
		{"a group that Kubernetes refuses", func(s *companion.Sandbox) { s.Group = 4294967295 }, "sandbox group"},
		{"no main process", func(s *companion.Sandbox) { s.MainProcess = "" }, "sandbox main process"},
		{"a main process of another version", func(s *companion.Sandbox) { s.MainProcess = `{"version":2,"command":["a"],"tty":false}` }, "sandbox main process"},
		{"a huge main process", func(s *companion.Sandbox) { s.MainProcess = `{"version":1,"command":["` + long + `"],"tty":false}` }, "sandbox main process"},
		{"a log level with a line break", func(s *companion.Sandbox) { s.LogLevel = "info\n" }, "sandbox log level"},
		{"a huge log level", func(s *companion.Sandbox) { s.LogLevel = long }, "sandbox log level"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := base(t)
			r := w.renderer(t)
			c.change(&w.sandbox)
			service, err := r.Service(w.sandbox)
			wantError(t, err, c.names)
			pod, err := r.SupervisorPod(w.sandbox)
			wantError(t, err, c.names)
			ours, err := r.SandboxSecret(w.sandbox, workload(), sandboxFiles())
			wantError(t, err, c.names)
			theirs, err := r.SupervisorSecret(w.sandbox, supervisorRef(w), files(r.SupervisorFiles()...))
			wantError(t, err, c.names)
			template, err := r.RestartTemplate(w.sandbox, templateVolumes())
			wantError(t, err, c.names)
			if service != nil || pod != nil || ours != nil || theirs != nil || template.Volumes != nil {
				t.Error("something is rendered beside the error")
			}
			if len(err.Error()) > 2000 {
				t.Errorf("the error has %d characters", len(err.Error()))
			}
		})
	}
}

// TestTheLargestThatIsTaken is the other side of the limits.
func TestTheLargestThatIsTaken(t *testing.T) {
	w := base(t)
	w.in(driverconf.ModeManaged)
	w.settings.ImagePullSecrets = slices.Repeat([]string{"a"}, 10_000)
	w.sandbox.LogLevel = strings.Repeat("~", 256)
	w.sandbox.UID = types.UID(strings.Repeat("u", 128))
	w.sandbox.MainProcess = `{"version":1,"command":["a"],"tty":true}` + strings.Repeat(" ", mainprocess.MaxBytes-40)
	contents := sandboxFiles()
	contents[material.FileBoundary] = make([]byte, corev1.MaxSecretSize-len(contents[material.FileCertificate])-len(contents[material.FileKey]))
	r := w.renderer(t)
	if _, err := r.SandboxSecret(w.sandbox, workload(), contents); err != nil {
		t.Error(err)
	}
	if pod, err := r.SupervisorPod(w.sandbox); err != nil || pod.Spec.ImagePullSecrets[9_999].Name != "os-pull-"+id+"-g00000000001-9999" {
		t.Errorf("the Pod: %v", err)
	}
	w.settings.ImagePullSecrets = append(w.settings.ImagePullSecrets, "a")
	_, err := companion.New(&w.settings, w.options)
	wantError(t, err, "image_pull_secrets")
}

func TestBootstrapSecretsRefuse(t *testing.T) {
	w := base(t)
	r := w.renderer(t)
	for _, c := range []struct {
		name   string
		change func(files map[string][]byte, pod *companion.PodRef)
		names  string
	}{
		{"a missing file", func(f map[string][]byte, _ *companion.PodRef) { delete(f, "boundary.json"); delete(f, "auth.json") }, ".json is missing"},
		{"an empty file", func(f map[string][]byte, _ *companion.PodRef) { f["boundary.json"], f["auth.json"] = nil, []byte{} }, ".json is missing"},
		{"a file too many", func(f map[string][]byte, _ *companion.PodRef) { f["session-ca.key"] = []byte("x") }, `"session-ca.key" does not belong`},
		{"too much", func(f map[string][]byte, _ *companion.PodRef) {
			f["boundary.json"], f["auth.json"] = make([]byte, 1<<20), make([]byte, 1<<20)
			if _, ours := f["tls.key"]; ours {
				delete(f, "auth.json")
			} else {
				delete(f, "boundary.json")
			}
		}, "a Secret can hold 1048576"},
		{"no Pod uid", func(_ map[string][]byte, p *companion.PodRef) { p.UID = "" }, "uid must not be empty"},
		{"no Pod name", func(_ map[string][]byte, p *companion.PodRef) { p.Name = "" }, "name is"},
		{"a Pod name with a slash", func(_ map[string][]byte, p *companion.PodRef) { p.Name = "a/b" }, "name is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			contents, pod := sandboxFiles(), workload()
			c.change(contents, &pod)
			if c.name == "too much" {
				delete(contents, "auth.json")
			}
			secret, err := r.SandboxSecret(w.sandbox, pod, contents)
			wantError(t, err, c.names)
			contents, pod = files(r.SupervisorFiles()...), supervisorRef(w)
			c.change(contents, &pod)
			other, err := r.SupervisorSecret(w.sandbox, pod, contents)
			wantError(t, err, c.names)
			if secret != nil || other != nil {
				t.Error("there is a Secret beside the error")
			}
			if strings.Contains(err.Error(), "content of") {
				t.Errorf("the error shows what is in a file: %v", err)
			}
		})
	}
	_, err := r.SupervisorSecret(w.sandbox, workload(), files(r.SupervisorFiles()...))
	wantError(t, err, "must be \"os-supervisor-"+id)
	staged := files(append(r.SupervisorFiles(), material.FileClientCA)...)
	_, err = r.SupervisorSecret(w.sandbox, supervisorRef(w), staged)
	wantError(t, err, "client-ca.crt")
}

func TestPullSecretRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world, index *int, source **corev1.Secret, workload, supervisor *companion.PodRef)
		names  string
	}{
		{"an index below", func(_ *world, i *int, _ **corev1.Secret, _, _ *companion.PodRef) { *i = -1 }, "none with index -1"},
		{"an index above", func(_ *world, i *int, _ **corev1.Secret, _, _ *companion.PodRef) { *i = 2 }, "none with index 2"},
		{"no source", func(_ *world, _ *int, s **corev1.Secret, _, _ *companion.PodRef) { *s = nil }, "is missing"},
		{"another source", func(_ *world, i *int, _ **corev1.Secret, _, _ *companion.PodRef) { *i = 1 }, `must be "b"`},
		{"a source of another namespace", func(_ *world, _ *int, s **corev1.Secret, _, _ *companion.PodRef) { (*s).Namespace = "x" }, "in namespace"},
		{"a source of another type", func(_ *world, _ *int, s **corev1.Secret, _, _ *companion.PodRef) { (*s).Type = corev1.SecretTypeTLS }, "kubernetes.io/tls"},
		{"an opaque source", func(_ *world, _ *int, s **corev1.Secret, _, _ *companion.PodRef) {
			(*s).Type = corev1.SecretTypeOpaque
		}, "Opaque"},
		{"a token for a source", func(_ *world, _ *int, s **corev1.Secret, _, _ *companion.PodRef) {
			(*s).Type = corev1.SecretTypeServiceAccountToken
		}, "service-account-token"},
		{"an empty source", func(_ *world, _ *int, s **corev1.Secret, _, _ *companion.PodRef) { (*s).Data = nil }, ".dockerconfigjson"},
		{"no workload", func(_ *world, _ *int, _ **corev1.Secret, p, _ *companion.PodRef) { p.UID = "" }, "workload Pod: its uid"},
		{"no supervisor", func(_ *world, _ *int, _ **corev1.Secret, _, p *companion.PodRef) { p.UID = "" }, "supervisor Pod: its uid"},
		{"another supervisor", func(_ *world, _ *int, _ **corev1.Secret, _, p *companion.PodRef) { p.Name = "x" }, "supervisor Pod: its name"},
		{"shared mode", func(w *world, _ *int, _ **corev1.Secret, _, _ *companion.PodRef) { w.in(driverconf.ModeShared) }, "0 Secrets to copy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := base(t)
			w.settings.ImagePullSecrets = []string{"a", "b"}
			w.in(driverconf.ModeManaged)
			index, source, w1, s1 := 0, pullSource(w, 0), workload(), supervisorRef(w)
			c.change(w, &index, &source, &w1, &s1)
			got, err := w.renderer(t).PullSecret(w.sandbox, index, source, w1, s1)
			wantError(t, err, c.names)
			if got != nil || strings.Contains(err.Error(), "auths") {
				t.Errorf("got %v and %v", got, err)
			}
		})
	}
}

func TestPullSecretTakesNothingElseAlong(t *testing.T) {
	w := base(t)
	w.settings.ImagePullSecrets = []string{"a"}
	w.in(driverconf.ModeManaged)
	got, err := w.renderer(t).PullSecret(w.sandbox, 0, pullSource(w, 0), workload(), supervisorRef(w))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Annotations) > 0 || got.Labels["team"] != "" {
		t.Errorf("metadata of the source is on the copy: %v %v", got.Annotations, got.Labels)
	}
	if len(got.OwnerReferences) != 2 || got.OwnerReferences[0].UID != "uid-workload" || got.OwnerReferences[1].UID != "uid-supervisor" {
		t.Errorf("the owners are %v, want both Pods", got.OwnerReferences)
	}
}

func TestPullSecretNames(t *testing.T) {
	for mode, want := range map[driverconf.Mode][]string{
		driverconf.ModeShared:   {"a", "b"},
		driverconf.ModeOperator: {"a", "b"},
		driverconf.ModeManaged:  {"os-pull-" + id + "-g00000000001-0", "os-pull-" + id + "-g00000000001-1"},
	} {
		w := base(t)
		w.settings.ImagePullSecrets = []string{"a", "b"}
		w.in(mode)
		pod, err := w.renderer(t).SupervisorPod(w.sandbox)
		var got []string
		for _, reference := range pod.Spec.ImagePullSecrets {
			got = append(got, reference.Name)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", mode, got, err, want)
		}
		if w.settings.ImagePullSecrets[0] != "a" {
			t.Error("the settings were written to")
		}
	}
}

func TestRestartTemplateRefuses(t *testing.T) {
	w := base(t)
	r := w.renderer(t)
	for _, c := range []struct {
		name   string
		change func([]corev1.Volume) []corev1.Volume
		names  string
	}{
		{"no volumes", func([]corev1.Volume) []corev1.Volume { return nil }, "has 0 volumes"},
		{"no such volume", func(v []corev1.Volume) []corev1.Volume { return v[:1] }, "has 0 volumes"},
		{"two of them", func(v []corev1.Volume) []corev1.Volume { return append(v, v[1]) }, "has 2 volumes"},
		{"another kind of volume", func(v []corev1.Volume) []corev1.Volume { v[1].VolumeSource = v[0].VolumeSource; return v }, "is no Secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := r.RestartTemplate(w.sandbox, c.change(templateVolumes()))
			wantError(t, err, c.names)
			if got.Volumes != nil {
				t.Error("there are volumes beside the error")
			}
		})
	}
	standing := templateVolumes()
	if _, err := r.RestartTemplate(w.sandbox, standing); err != nil || standing[1].Secret.SecretName != "os-sandbox-of-the-run-before" {
		t.Errorf("the volumes that were handed in are changed (%v)", err)
	}
}

func TestClusterIP(t *testing.T) {
	for _, ip := range []string{"10.96.0.7", "fd00::7"} {
		got, err := companion.ClusterIP(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: ip}})
		if err != nil || got.String() != ip {
			t.Errorf("%s: %v, %v", ip, got, err)
		}
	}
	for _, ip := range []string{"", "None", "0.0.0.0", "::", "fe80::1%eth0", "10.96.0"} {
		if got, err := companion.ClusterIP(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: ip}}); err == nil || got.IsValid() {
			t.Errorf("%q is taken for %v", ip, got)
		}
	}
}
