package kubeclient

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// place is a process environment in which everything is there: a Pod's ServiceAccount, KUBECONFIG and a home.
type place struct {
	env  map[string]string
	dir  string
	home string
}

func (p place) environment() environment {
	return environment{getenv: func(key string) string { return p.env[key] }, serviceAccount: p.dir}
}

func everywhere(t *testing.T, s *apiServer) place {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := place{dir: t.TempDir(), home: t.TempDir()}
	certtest.Replace(t, filepath.Join(p.dir, "ca.crt"), s.ca.PEM())
	certtest.Replace(t, filepath.Join(p.dir, "token"), []byte("from-service-account\n"))
	if err := os.MkdirAll(filepath.Join(p.home, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	certtest.Replace(t, filepath.Join(p.home, ".kube", "config"), s.kubeconfig(t, static("from-home")).text(t))
	p.env = map[string]string{
		"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOME": p.home,
		"KUBECONFIG": "/nowhere/absent:" + s.kubeconfig(t, static("from-variable")).write(t),
	}
	return p
}

func TestOrderOfConfigurations(t *testing.T) {
	s := startAPI(t, nil, nil)
	p := everywhere(t, s)
	cfg := DefaultConfig()
	cfg.Kubeconfig = s.kubeconfig(t, static("from-setting")).write(t)
	for _, step := range []struct {
		want   string
		remove func() // takes away the first of what is left
	}{
		{"from-setting", func() { cfg.Kubeconfig = "" }},
		{"from-service-account", func() { delete(p.env, "KUBERNETES_SERVICE_HOST") }},
		{"from-variable", func() { delete(p.env, "KUBECONFIG") }},
		{"from-home", func() { p.env["HOME"] = "/nowhere" }},
	} {
		clients, err := build(cfg, zerolog.Nop(), prometheus.NewRegistry(), p.environment(), time.Now)
		if err != nil {
			t.Fatalf("%s: %v", step.want, err)
		}
		if err := clients.Ready(t.Context()); err != nil {
			t.Errorf("%s: ready: %v", step.want, err)
		}
		if got := bearer(s.last(t)); got != step.want {
			t.Errorf("token %q (%s), want %q", got, clients.From(), step.want)
		}
		if clients.Server() != s.URL {
			t.Errorf("server %s, want %s", clients.Server(), s.URL)
		}
		hangUp(clients)
		step.remove()
	}
	_, err := build(cfg, zerolog.Nop(), prometheus.NewRegistry(), p.environment(), time.Now)
	for _, want := range []string{"KUBERNETES_SERVICE_HOST", "KUBECONFIG is not set", "/nowhere/.kube/config"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with nothing left: %v, want %q", err, want)
		}
	}
}

func TestBrokenPod(t *testing.T) {
	s := startAPI(t, nil, nil)
	for _, c := range []struct {
		name  string
		spoil func(p place)
		text  string
	}{
		{"token not mounted", func(p place) {
			_ = os.Remove(filepath.Join(p.dir, "token"))
			delete(p.env, "KUBECONFIG")
			delete(p.env, "HOME")
		}, "token is not mounted"},
		{"token empty", func(p place) { certtest.Replace(t, filepath.Join(p.dir, "token"), []byte("\n")) }, `token" is empty`},
		{"token of two lines", func(p place) { certtest.Replace(t, filepath.Join(p.dir, "token"), []byte("a\nb")) }, "more than a token"},
		{"authority missing", func(p place) { _ = os.Remove(filepath.Join(p.dir, "ca.crt")) }, `ca.crt": no such file`},
		{"authority malformed", func(p place) { certtest.Replace(t, filepath.Join(p.dir, "ca.crt"), []byte("x")) }, "no PEM certificate"},
		{"authority empty", func(p place) { certtest.Replace(t, filepath.Join(p.dir, "ca.crt"), nil) }, "no PEM certificate"},
		{"token without end", func(p place) {
			_ = os.Remove(filepath.Join(p.dir, "token"))
			_ = os.Symlink("/dev/zero", filepath.Join(p.dir, "token"))
		}, "not a regular file"},
		{"port that is none", func(p place) { p.env["KUBERNETES_SERVICE_PORT"] = "99999" }, "KUBERNETES_SERVICE_PORT: the server has a port"},
		{"proxy that is none", func(p place) { p.env["HTTPS_PROXY"] = "http://u:hunter2@[::1" }, "HTTPS_PROXY is not a URL"},
		{"lower case proxy that is none", func(p place) { p.env["https_proxy"] = "u:hunter2@proxy:0" }, "https_proxy has a port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := everywhere(t, s)
			c.spoil(p)
			_, err := build(DefaultConfig(), zerolog.Nop(), prometheus.NewRegistry(), p.environment(), time.Now)
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want one line with %q and no secret", err, c.text)
			}
		})
	}
}

// TestBrokenKubeconfig breaks a valid kubeconfig in one way at a time. Each gives one line that names the file and
// nothing secret.
func TestBrokenKubeconfig(t *testing.T) {
	s := startAPI(t, nil, nil)
	other := certtest.New(t, "other")
	client := other.Issue(t.TempDir(), "client")
	_, foreignKey := other.IssuePEM("someone")
	foreign, junk := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "junk")
	certtest.Replace(t, foreign, foreignKey)
	certtest.Replace(t, junk, []byte("junk"))
	pipe, huge := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	certtest.Replace(t, huge, make([]byte, pemfile.Max+1))
	with := func(key string, value any) func(k *kubeconfig) { return func(k *kubeconfig) { k.Cluster[key] = value } }
	user := func(values map[string]any) func(k *kubeconfig) { return func(k *kubeconfig) { k.User = values } }
	for _, c := range []struct {
		name  string
		spoil func(k *kubeconfig)
		text  string
	}{
		{"no server", with("server", ""), "must be https://"},
		{"server without scheme", with("server", "10.0.0.1:6443"), "must be https://"},
		{"plain http", with("server", "http://10.0.0.1"), "must be https://"},
		{"server that is no URL", with("server", "https://[::1"), "must be https://"},
		{"password in the server", with("server", "https://u:hunter2@10.0.0.1"), "without credentials"},
		{"port out of range", with("server", "https://127.0.0.1:99999"), "port that is not from 1 to 65535"},
		{"port zero", with("server", "https://127.0.0.1:0"), "port that is not from 1 to 65535"},
		{"port missing", with("server", "https://127.0.0.1:"), "port that is not from 1 to 65535"},
		{"query in the server", with("server", "https://10.0.0.1/?hunter2"), "has no query"},
		{"server name of two words", with("tls-server-name", "a b"), "tls-server-name"},
		{"verification off", func(k *kubeconfig) {
			delete(k.Cluster, "certificate-authority")
			k.Cluster["insecure-skip-tls-verify"] = true
		}, "insecure-skip-tls-verify"},
		{"authority missing", with("certificate-authority", "/nowhere/ca.crt"), "/nowhere/ca.crt"},
		{"authority is a directory", with("certificate-authority", t.TempDir()), "not a regular file"},
		{"authority malformed", with("certificate-authority", junk), junk + "\": it holds no PEM certificate"},
		{"authority data malformed", func(k *kubeconfig) {
			delete(k.Cluster, "certificate-authority")
			k.Cluster["certificate-authority-data"] = []byte("junk")
		}, "certificate-authority-data: it holds no PEM"},
		{"one authority of two malformed", func(k *kubeconfig) {
			delete(k.Cluster, "certificate-authority")
			k.Cluster["certificate-authority-data"] = append(other.PEM(), "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"...)
		}, "certificate-authority-data: certificate 2 does not parse"},
		{"one authority of two cut off", func(k *kubeconfig) {
			path := filepath.Join(t.TempDir(), "ca.crt")
			certtest.Replace(t, path, append(other.PEM(), other.PEM()[:100]...))
			k.Cluster["certificate-authority"] = path
		}, "1 of 2 PEM certificates"},
		{"authority as file and as data", func(k *kubeconfig) { k.Cluster["certificate-authority-data"] = other.PEM() }, "both set"},
		{"authority without end", with("certificate-authority", "/dev/zero"), "not a regular file"},
		{"authority in a pipe", with("certificate-authority", pipe), "not a regular file"},
		{"authority too large", with("certificate-authority", huge), "larger than"},
		{"proxy of another kind", with("proxy-url", "gopher://x"), "proxy-url must begin with"},
		{"proxy that is no URL", with("proxy-url", "http://u:hunter2@[::1"), "proxy-url is not a URL"},
		{"proxy without host", with("proxy-url", "http://u:hunter2@"), "proxy-url has no host"},
		{"proxy with a port out of range", with("proxy-url", "http://u:hunter2@proxy:99999"), "proxy-url has a port"},
		{"no credentials", user(nil), "no credentials"},
		{"name and password", user(map[string]any{"username": "u", "password": "hunter2"}), "name and password"},
		{"credential program", user(map[string]any{"exec": map[string]any{
			"command": "aws", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
		}}), "exec aws"},
		{"auth provider", user(map[string]any{"auth-provider": map[string]any{"name": "gcp"}}), "auth-provider gcp"},
		{"token of two words", user(map[string]any{"token": "hunter2 b"}), "token holds more than a token"},
		{"token of two lines", user(map[string]any{"token": "hunter2\nb"}), "token holds more than a token"},
		{"token of white space", user(map[string]any{"token": "\n"}), "token is empty"},
		{"token without end", user(map[string]any{"tokenFile": "/dev/zero"}), "not a regular file"},
		{"token in a pipe", user(map[string]any{"tokenFile": pipe}), "not a regular file"},
		{"token in a directory", user(map[string]any{"tokenFile": t.TempDir()}), "not a regular file"},
		{"token too large", user(map[string]any{"tokenFile": huge}), "larger than"},
		{"certificate without end", user(map[string]any{"client-certificate": "/dev/zero", "client-key": client.Key}), "not a regular file"},
		{"key in a pipe", user(map[string]any{"client-certificate": client.Cert, "client-key": pipe}), "not a regular file"},
		{"key too large", user(map[string]any{"client-certificate": client.Cert, "client-key": huge}), "larger than"},
		{"key without certificate", user(map[string]any{"client-key": client.Key}), "client-certificate is missing"},
		{"another's groups", user(map[string]any{"token": "hunter2", "as-groups": []string{"admins"}}), "no effect without as"},
		{"another's name of two lines", user(map[string]any{"token": "hunter2", "as": "a\nb"}), "control characters"},
		{"token of the wrong type", user(map[string]any{"token": []string{"hunter2"}}), "cannot unmarshal"},
		{"token file missing", user(map[string]any{"tokenFile": "/nowhere/token"}), "/nowhere/token"},
		{"certificate missing", user(map[string]any{"client-certificate": "/nowhere/tls.crt", "client-key": client.Key}), "/nowhere/tls.crt"},
		{"certificate without key", user(map[string]any{"client-certificate": client.Cert}), "client-key"},
		{"key of another certificate", user(map[string]any{"client-certificate": client.Cert, "client-key": foreign}), "does not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := s.kubeconfig(t, static("hunter2"))
			c.spoil(&k)
			cfg := DefaultConfig()
			cfg.Kubeconfig = k.write(t)
			_, err := build(cfg, zerolog.Nop(), prometheus.NewRegistry(), nowhere(), time.Now)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range []string{c.text, cfg.Kubeconfig} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q has more than one line, or a secret", err)
			}
		})
	}
}

func TestKubeconfigFileThatIsNone(t *testing.T) {
	huge := filepath.Join(t.TempDir(), "huge")
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, maxKubeconfig+1); err != nil {
		t.Fatal(err)
	}
	text := func(content string) string {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		certtest.Replace(t, path, []byte(content))
		return path
	}
	for _, c := range []struct{ name, path, context, text string }{
		{"absent", "/nowhere/kubeconfig", "", "no such file"},
		{"a directory", t.TempDir(), "", "not a regular file"},
		{"huge", huge, "", "larger than"},
		{"not YAML", text("a: [b\nc: d\n"), "", "yaml"},
		{"another kind of object", text("apiVersion: v1\nkind: Pod\n"), "", "Pod"},
		{"empty", text(""), "", "names no cluster"},
		{"of the kernel", "/proc/self/mountinfo", "", "names no cluster"},
		{"no context", text(`{"apiVersion":"v1","kind":"Config"}`), "", "names no cluster"},
		{"unknown anchor", text("users:\n- name: it\n  user:\n    token: *hunter2\n"), "", "unknown anchor [redacted]"},
		{"user twice", text(`{"apiVersion":"v1","kind":"Config","users":[{"name":"it","user":{"token":"hunter2"}},{"name":"it","user":{}}]}`), "", "duplicate name"},
		{"no cluster of that name", text(`{"apiVersion":"v1","kind":"Config","current-context":"it","contexts":[{"name":"it","context":{"cluster":"c"}}]}`), "", `no cluster "c"`},
		{"no user of that name", text(`{"apiVersion":"v1","kind":"Config","current-context":"it","contexts":[{"name":"it","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{}}]}`), "", `no user "u"`},
		{"no context of that name", text(`{"apiVersion":"v1","kind":"Config"}`), "prod", `no context "prod"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Kubeconfig, cfg.Context = c.path, c.context
			_, err := build(cfg, zerolog.Nop(), prometheus.NewRegistry(), nowhere(), time.Now)
			if err == nil || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), c.path) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want one line with %q, the path and no secret", err, c.text)
			}
		})
	}
}
