package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
)

const namespaceEvent = `{"type":"ADDED","object":{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"%s"}}}` + "\n"

// stream answers a watch: one event at once, one more each time next yields a name.
func stream(w http.ResponseWriter, r *http.Request, next <-chan string) {
	w.Header().Set("Content-Type", "application/json")
	name := "first"
	for {
		_, _ = fmt.Fprintf(w, namespaceEvent, name)
		w.(http.Flusher).Flush()
		select {
		case name = <-next:
		case <-r.Context().Done():
			return
		}
	}
}

func watching(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// through is the server's kubeconfig by way of a proxy.
func through(t *testing.T, s *apiServer, proxy *netfault.Proxy) kubeconfig {
	k := s.kubeconfig(t, static("token"))
	k.Cluster["server"] = "https://" + proxy.Addr()
	return k
}

func openWatch(t *testing.T, h *harness) watch.Interface {
	t.Helper()
	w, err := h.Watches.Typed.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(w.Stop)
	expectNamespace(t, w, "first")
	return w
}

func expectNamespace(t *testing.T, w watch.Interface, name string) {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		object, isObject := event.Object.(metav1.Object)
		if !ok || !isObject || object.GetName() != name {
			t.Fatalf("event %+v (open %v), want namespace %s", event, ok, name)
		}
	case <-time.After(patience):
		t.Fatalf("no event for namespace %s", name)
	}
}

// TestDeadWatchIsNoticed: the sockets stay open and nothing moves. Only a ping can tell.
func TestDeadWatchIsNoticed(t *testing.T) {
	s := startAPI(t, func(w http.ResponseWriter, r *http.Request) { stream(w, r, nil) }, nil)
	proxy := netfault.Start(t, strings.TrimPrefix(s.URL, "https://"))
	h := connect(t, quickPings(), through(t, s, proxy))
	w := openWatch(t, h)
	if got := s.last(t).ProtoMajor; got != 2 {
		t.Fatalf("HTTP/%d, want 2", got)
	}
	proxy.Blackhole()
	select {
	case event, open := <-w.ResultChan():
		if open && event.Type != watch.Error {
			t.Errorf("event %+v after the connection died", event)
		}
	case <-time.After(patience):
		t.Fatal("the dead watch was never noticed")
	}
	proxy.Pass()
	openWatch(t, h)
}

// TestDeadCallFailsByPing: a call on a dead connection ends with the connection, long before its own limit, and the
// next one works.
func TestDeadCallFailsByPing(t *testing.T) {
	s := startAPI(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("ok")) }, nil)
	proxy := netfault.Start(t, strings.TrimPrefix(s.URL, "https://"))
	cfg := quickPings()
	cfg.CallTimeout = driverconf.Duration(5 * time.Minute)
	h := connect(t, cfg, through(t, s, proxy))
	if err := h.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	proxy.Blackhole()
	ctx := soon(t)
	if err := h.Ready(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("call on a dead connection: %v, want the lost connection as the reason", err)
	}
	proxy.Pass()
	if err := h.Ready(soon(t)); err != nil {
		t.Errorf("after the path is back: %v", err)
	}
}

// TestWatchOutlivesTheCallTimeout: a call that is not answered ends at its limit; a watch that is silent longer goes
// on.
func TestWatchOutlivesTheCallTimeout(t *testing.T) {
	next := make(chan string)
	s := startAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if watching(r) {
			stream(w, r, next)
			return
		}
		<-r.Context().Done()
	}, nil)
	cfg := DefaultConfig()
	cfg.CallTimeout = driverconf.Duration(time.Second)
	h := connect(t, cfg, s.kubeconfig(t, static("token")))
	w := openWatch(t, h)
	_, err := h.Calls.Typed.CoreV1().Namespaces().Get(soon(t), "silent", metav1.GetOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call without an answer: %v, want its limit", err)
	}
	next <- "second"
	expectNamespace(t, w, "second")
}

// TestWatchWithoutAnswerEnds: the first byte of a watch's answer has a limit, though the rest has none.
func TestWatchWithoutAnswerEnds(t *testing.T) {
	s := startAPI(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
	cfg := DefaultConfig()
	cfg.CallTimeout = driverconf.Duration(time.Second)
	h := connect(t, cfg, s.kubeconfig(t, static("token")))
	// Below client-go, which repeats such a request ten times before it gives up.
	resp, err := h.Watches.http.Get(s.URL + "/api/v1/namespaces?watch=true")
	if err == nil {
		_ = resp.Body.Close()
		t.Fatal("there was an answer")
	}
	if !strings.Contains(err.Error(), "timeout awaiting response headers") {
		t.Errorf("got %v, want the limit for the first byte", err)
	}
}

// TestSilentHandshakeEnds: a path that accepts and says nothing.
func TestSilentHandshakeEnds(t *testing.T) {
	s := startAPI(t, nil, nil)
	proxy := netfault.Start(t, strings.TrimPrefix(s.URL, "https://"))
	proxy.Blackhole()
	cfg := DefaultConfig()
	cfg.ConnectTimeout = driverconf.Duration(200 * time.Millisecond)
	cfg.CallTimeout = driverconf.Duration(5 * time.Minute)
	h := connect(t, cfg, through(t, s, proxy))
	ctx := soon(t)
	if err := h.Ready(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "handshake timeout") {
		t.Errorf("got %v, want the handshake's limit", err)
	}
}

func TestCallsAndWatchesShareNothing(t *testing.T) {
	s := startAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if watching(r) {
			stream(w, r, nil)
			return
		}
		_, _ = w.Write([]byte("ok"))
	}, nil)
	h := connect(t, DefaultConfig(), s.kubeconfig(t, static("token")))
	openWatch(t, h)
	if err := h.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	seen := s.requests()
	if seen[0].RemoteAddr == seen[1].RemoteAddr {
		t.Error("a watch and a call came over one connection")
	}
	again := connect(t, DefaultConfig(), s.kubeconfig(t, static("token")))
	if err := again.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	if s.last(t).RemoteAddr == seen[1].RemoteAddr {
		t.Error("two pairs of clients share a connection")
	}
}

// TestContentTypes reads what each interface asks for and sends.
func TestContentTypes(t *testing.T) {
	s := startAPI(t, func(w http.ResponseWriter, _ *http.Request) { status(w, http.StatusNotFound, "none") }, nil)
	cfg := DefaultConfig()
	cfg.UserAgent = "portcullis-probe/1.0"
	k := s.kubeconfig(t, map[string]any{"token": "token", "as": "someone"})
	h := connect(t, cfg, k)
	sandboxes := schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
	const protobuf = "application/vnd.kubernetes.protobuf"
	for _, c := range []struct {
		name   string
		ask    func(ctx context.Context) error
		accept string
		sent   string
	}{
		{"typed get", func(ctx context.Context) error {
			_, err := h.Calls.Typed.CoreV1().Pods("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		}, protobuf + ",application/json", ""},
		{"typed delete", func(ctx context.Context) error {
			return h.Calls.Typed.CoreV1().Pods("a").Delete(ctx, "b", metav1.DeleteOptions{})
		}, protobuf + ",application/json", protobuf},
		{"dynamic get", func(ctx context.Context) error {
			_, err := h.Calls.Dynamic.Resource(sandboxes).Namespace("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		}, "application/json", ""},
		{"dynamic delete", func(ctx context.Context) error {
			return h.Calls.Dynamic.Resource(sandboxes).Namespace("a").Delete(ctx, "b", metav1.DeleteOptions{})
		}, "application/json", "application/json"},
		{"metadata get", func(ctx context.Context) error {
			_, err := h.Watches.Metadata.Resource(sandboxes).Namespace("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		}, protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.ask(soon(t)); err == nil {
				t.Fatal("no error for a 404")
			}
			r := s.last(t)
			got := []string{r.Header.Get("Accept"), r.Header.Get("Content-Type"), r.Header.Get("User-Agent"), r.Header.Get("Impersonate-User"), bearer(r)}
			want := []string{c.accept, c.sent, "portcullis-probe/1.0", "someone", "token"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
	if got := h.metric("portcullis_kube_client_requests_total", "calls,404,GET"); got != 2 {
		t.Errorf("counted %v refused gets, want 2", got)
	}
}

func TestServerUnderAPath(t *testing.T) {
	s := startAPI(t, nil, nil)
	k := s.kubeconfig(t, static("token"))
	k.Cluster["server"] = s.URL + "/clusters/one"
	h := connect(t, DefaultConfig(), k)
	if err := h.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := s.last(t).URL.Path; got != "/clusters/one/readyz" {
		t.Errorf("path %s, want the prefix kept", got)
	}
	_, _ = h.Calls.Typed.CoreV1().Namespaces().Get(soon(t), "a", metav1.GetOptions{}) // only the path matters
	if got := s.last(t).URL.Path; got != "/clusters/one/api/v1/namespaces/a" {
		t.Errorf("path %s, want the prefix kept", got)
	}
}

// TestProxyOfTheKubeconfigIsUsed: the request for the proxy names the server; a proxy that refuses shows that it was
// asked.
func TestProxyOfTheKubeconfigIsUsed(t *testing.T) {
	s := startAPI(t, nil, nil)
	proxy := startAPI(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, nil)
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme = "http" // it answers 400 to plain HTTP, which is enough to see that it was asked
	k := s.kubeconfig(t, static("token"))
	k.Cluster["proxy-url"] = u.String()
	h := connect(t, DefaultConfig(), k)
	if err := h.Ready(soon(t)); err == nil {
		t.Error("the request went past the proxy")
	}
	if len(s.requests()) != 0 {
		t.Error("the server was asked directly")
	}
}
