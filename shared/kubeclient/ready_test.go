package kubeclient

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
)

func TestReady(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		body string
		want []string // nothing: ready
	}{
		{"ready", 200, "ok", nil},
		{"refused", 401, "{}", []string{"does not accept our credentials", "kubeconfig"}},
		{"forbidden", 403, "{}", []string{"does not permit", "/readyz"}},
		{"a check fails", 500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n", []string{"not ready", "500: etcd failed: reason withheld"}},
		{"an answer of another kind", 502, "<html>\n<b>Bad Gateway</b>\n" + strings.Repeat("x", 10000), []string{"502: <html> <b>Bad Gateway</b>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}, nil)
			err := connect(t, DefaultConfig(), s.kubeconfig(t, static("hunter2"))).Ready(soon(t))
			if len(c.want) == 0 && err != nil {
				t.Errorf("ready: %v", err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("ready: %v, want %q", err, want)
				}
			}
			if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 600 || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("reason %q is long, has several lines, or a secret", err)
			}
		})
	}
}

func TestReadyCannotAsk(t *testing.T) {
	s := startAPI(t, nil, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := ln.Addr().String()
	_ = ln.Close()
	foreign := certtest.New(t, "foreign")
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, k *kubeconfig)
		text  string
	}{
		{"nobody there", func(_ *testing.T, k *kubeconfig) { k.Cluster["server"] = "https://" + gone }, "connection refused"},
		{"another authority", func(t *testing.T, k *kubeconfig) {
			certtest.Replace(t, k.Cluster["certificate-authority"].(string), foreign.PEM())
		}, "unknown authority"},
		{"another name", func(_ *testing.T, k *kubeconfig) { k.Cluster["tls-server-name"] = "example.org" }, "example.org"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := s.kubeconfig(t, static("token"))
			c.spoil(t, &k)
			err := connect(t, DefaultConfig(), k).Ready(soon(t))
			if err == nil || !strings.Contains(err.Error(), "could not be asked") || !strings.Contains(err.Error(), c.text) {
				t.Errorf("ready: %v, want %q", err, c.text)
			}
		})
	}
	t.Run("context over", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := connect(t, DefaultConfig(), s.kubeconfig(t, static("token"))).Ready(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ready: %v, want %v", err, context.Canceled)
		}
	})
}

// TestThrottle: who comes too late is told so, at once, without having asked the server; the other client and the
// readiness check are not held back.
func TestThrottle(t *testing.T) {
	s := startAPI(t, func(w http.ResponseWriter, _ *http.Request) { status(w, http.StatusNotFound, "none") }, nil)
	cfg := DefaultConfig()
	cfg.QPS, cfg.Burst = 0.1, 2
	cfg.WatchQPS, cfg.WatchBurst = 0.1, 1
	cfg.ThrottleTimeout = driverconf.Duration(100 * 1e6)
	h := connect(t, cfg, s.kubeconfig(t, static("token")))
	get := func(c Client) error {
		_, err := c.Typed.CoreV1().Namespaces().Get(soon(t), "a", metav1.GetOptions{})
		return err
	}
	for range cfg.Burst {
		if err := get(h.Calls); errors.Is(err, ErrThrottled) {
			t.Fatalf("within the burst: %v", err)
		}
	}
	before := len(s.requests())
	err := get(h.Calls)
	if !errors.Is(err, ErrThrottled) || !strings.Contains(err.Error(), "[portcullis.kubernetes] qps") {
		t.Errorf("beyond the burst: %v, want %v and the key to raise", err, ErrThrottled)
	}
	if len(s.requests()) != before {
		t.Error("the request was sent")
	}
	if err := get(h.Watches); errors.Is(err, ErrThrottled) {
		t.Errorf("the other client: %v", err)
	}
	if err := get(h.Watches); !errors.Is(err, ErrThrottled) || !strings.Contains(err.Error(), "watch_qps") {
		t.Errorf("the other client beyond its burst: %v, want %v and the key to raise", err, ErrThrottled)
	}
	if err := h.Ready(soon(t)); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("readiness check: %v, want the server's answer", err)
	}
	if got := h.metric("portcullis_kube_client_throttle_wait_seconds", "calls"); got != 3 {
		t.Errorf("%v waits measured, want 3", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Calls.Typed.CoreV1().Namespaces().Get(ctx, "a", metav1.GetOptions{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrThrottled) {
		t.Errorf("a caller who gave up: %v, want its own reason", err)
	}
}

func TestWarningsAreLoggedOnce(t *testing.T) {
	s := startAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Warning", `299 - "v1beta1 is deprecated"`)
		status(w, http.StatusNotFound, "none")
	}, nil)
	h := connect(t, DefaultConfig(), s.kubeconfig(t, static("token")))
	for range 3 {
		_, _ = h.Calls.Typed.CoreV1().Namespaces().Get(soon(t), "a", metav1.GetOptions{}) // the 404 is expected
	}
	if got := strings.Count(h.log.String(), "v1beta1 is deprecated"); got != 1 {
		t.Errorf("the warning is %d times in the log, want once:\n%s", got, h.log)
	}
}

func TestMetricsAreClean(t *testing.T) {
	s := startAPI(t, nil, nil)
	h := connect(t, DefaultConfig(), s.kubeconfig(t, static("token")))
	if err := h.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(h.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	cfg := DefaultConfig()
	cfg.Kubeconfig = s.kubeconfig(t, static("token")).write(t)
	for name, reg := range map[string]prometheus.Registerer{"used": h.reg, "none": nil} {
		if _, err := New(cfg, zerolog.Nop(), reg); err == nil {
			t.Errorf("registerer %s was accepted", name)
		}
	}
}
