package kubeclient

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
)

// TestHoldersShowNoSecret formats what holds a token, a key or a proxy's password.
func TestHoldersShowNoSecret(t *testing.T) {
	s := startAPI(t, nil, nil)
	certPEM, keyPEM := certtest.New(t, "clients").IssuePEM("client")
	k := s.kubeconfig(t, map[string]any{"token": "hunter2token", "client-certificate-data": certPEM, "client-key-data": keyPEM})
	k.Cluster["proxy-url"] = "http://user:hunter2proxy@127.0.0.1:1"
	cfg := DefaultConfig()
	cfg.Kubeconfig = k.write(t)
	found, err := locate(cfg, nowhere())
	if err != nil {
		t.Fatal(err)
	}
	content, err := found.tls.read()
	if err != nil {
		t.Fatal(err)
	}
	if key := content.key.Expose(); string(key) != string(keyPEM) {
		t.Fatal("the key was not read")
	}
	token := &bearerAuth{source: found.token, now: time.Now}
	if err := token.open(); err != nil {
		t.Fatal(err)
	}
	path, _ := withTokenFile(t, "hunter2file")
	fromFile := &bearerAuth{source: tokenSource{path: path}, now: time.Now}
	if err := fromFile.open(); err != nil {
		t.Fatal(err)
	}
	clients, err := build(cfg, zerolog.Nop(), prometheus.NewRegistry(), nowhere(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	keyLine := strings.Split(string(keyPEM), "\n")[1]
	for _, holder := range []any{found, &found, content, &content, token, fromFile, &builder{found: found}, clients, *clients.Calls.http, clients.Calls.http.Transport} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
			text := fmt.Sprintf(verb, holder)
			for _, secret := range []string{"hunter2", keyLine, fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%x", keyLine), fmt.Sprintf("%d", []byte("hunter2"))[1:20]} {
				if strings.Contains(text, secret) {
					t.Errorf("%s of %T shows a secret: %s", verb, holder, text)
				}
			}
		}
	}
}

// TestProxyPasswordReachesOnlyTheProxy: a proxy with credentials works as in client-go, and its refusal does not print
// them.
func TestProxyPasswordReachesOnlyTheProxy(t *testing.T) {
	s := startAPI(t, nil, nil)
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	got := make(chan string, 1)
	go func() {
		defer close(got)
		conn, err := proxy.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		got <- req.Header.Get("Proxy-Authorization")
		_, _ = fmt.Fprint(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
	}()
	k := s.kubeconfig(t, static("token"))
	k.Cluster["proxy-url"] = "http://user:hunter2@" + proxy.Addr().String()
	h := connect(t, DefaultConfig(), k)
	err = h.Ready(soon(t))
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "could not be asked") {
		t.Errorf("ready: %v, want the proxy's refusal without the password", err)
	}
	if header := <-got; header != "Basic dXNlcjpodW50ZXIy" {
		t.Errorf("the proxy got %q", header)
	}
}

func TestEnvironmentProxy(t *testing.T) {
	env := map[string]string{"HTTPS_PROXY": "proxy:3128", "NO_PROXY": "10.0.0.0/8,.internal"}
	choose, err := environmentProxy(func(key string) string { return env[key] })
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"api.example:6443": "http://proxy:3128", "10.1.2.3:6443": "<nil>", "api.internal": "<nil>", "127.0.0.1:6443": "<nil>",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := choose(req); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", host, got, err, want)
		}
	}
	env["https_proxy"] = "https://other"
	choose, err = environmentProxy(func(key string) string { return env[key] })
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := choose(req); err != nil || fmt.Sprint(got) != "https://other" {
		t.Errorf("lower case: %v, %v; want it to win", got, err)
	}
}

func TestInlineTokenIsTrimmed(t *testing.T) {
	s := startAPI(t, nil, nil)
	h := connect(t, DefaultConfig(), s.kubeconfig(t, static(" token\n")))
	if err := h.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := bearer(s.last(t)); got != "token" {
		t.Errorf("token %q", got)
	}
}

// TestRotationIntoADevice: a token file that becomes a device neither blocks a request nor takes the token away.
func TestRotationIntoADevice(t *testing.T) {
	s := startAPI(t, nil, nil)
	path, user := withTokenFile(t, "one")
	h := connect(t, DefaultConfig(), s.kubeconfig(t, user))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", path); err != nil {
		t.Fatal(err)
	}
	h.clock.advance(reloadEvery)
	if err := h.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := bearer(s.last(t)); got != "one" || h.metric(reloads, "calls,failed") != 1 {
		t.Errorf("token %q, %v failures; want the former one, and one failure", got, h.metric(reloads, "calls,failed"))
	}
}
