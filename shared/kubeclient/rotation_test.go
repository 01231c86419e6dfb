package kubeclient

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
)

const reloads = "portcullis_kube_client_credential_reloads_total"

func withTokenFile(t *testing.T, token string) (path string, user map[string]any) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "token")
	certtest.Replace(t, path, []byte(token+"\n"))
	return path, map[string]any{"tokenFile": path}
}

// TestRotatedTokenIsUsed replaces the token file as the kubelet does.
func TestRotatedTokenIsUsed(t *testing.T) {
	s := startAPI(t, nil, nil)
	path, user := withTokenFile(t, "one")
	h := connect(t, DefaultConfig(), s.kubeconfig(t, user))
	ask := func(want string) {
		t.Helper()
		if err := h.Ready(soon(t)); err != nil {
			t.Fatal(err)
		}
		if got := bearer(s.last(t)); got != want {
			t.Errorf("token %q, want %q", got, want)
		}
	}
	ask("one")
	certtest.Replace(t, path, []byte("two"))
	ask("one") // read a moment ago
	h.clock.advance(reloadEvery)
	ask("two")
	if got := h.metric(reloads, "calls,changed"); got != 1 {
		t.Errorf("%v changes counted, want 1", got)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h.clock.advance(reloadEvery)
		ask("two")
	}
	if got := h.metric(reloads, "calls,failed"); got != 3 {
		t.Errorf("%v failures counted, want 3", got)
	}
	if got := strings.Count(h.log.String(), "cannot use the token file"); got != 1 {
		t.Errorf("the failure is %d times in the log, want once:\n%s", got, h.log)
	}
	certtest.Replace(t, path, []byte("three"))
	h.clock.advance(reloadEvery)
	ask("three")
	for _, token := range []string{"one", "two", "three"} {
		if strings.Contains(h.log.String(), `"`+token+`"`) {
			t.Errorf("token %q is in the log", token)
		}
	}
}

// TestRefusedTokenIsReadAgain: after a 401 the file is looked at before its time, and a request that can be repeated
// is, once.
func TestRefusedTokenIsReadAgain(t *testing.T) {
	var valid atomic.Value
	valid.Store("one")
	s := startAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if bearer(r) != valid.Load() {
			status(w, http.StatusUnauthorized, "Unauthorized")
			return
		}
		status(w, http.StatusNotFound, "none")
	}, nil)
	path, user := withTokenFile(t, "one")
	h := connect(t, DefaultConfig(), s.kubeconfig(t, user))
	remove := func() error {
		return h.Calls.Typed.CoreV1().Pods("a").Delete(soon(t), "b", metav1.DeleteOptions{})
	}
	if err := remove(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Fatalf("got %v, want the server's 404", err)
	}
	valid.Store("two")
	certtest.Replace(t, path, []byte("two"))
	before := len(s.requests())
	if err := remove(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("after rotation: %v, want the server's 404", err)
	}
	if got := len(s.requests()) - before; got != 2 {
		t.Errorf("%d requests, want the refused one and its repetition", got)
	}
	if got := s.last(t).ContentLength; got <= 0 {
		t.Errorf("the repetition has a body of %d bytes, want the original's", got)
	}

	valid.Store("three")
	before = len(s.requests())
	if err := remove(); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("refused for good: %v, want the 401", err)
	}
	if got := len(s.requests()) - before; got != 1 {
		t.Errorf("%d requests with a token that has not changed, want 1", got)
	}
}

// TestRotatedClientCertificate also shows that a half-written pair takes nothing away.
func TestRotatedClientCertificate(t *testing.T) {
	clients := certtest.New(t, "clients")
	s := startAPI(t, nil, clients)
	dir := t.TempDir()
	files := clients.Issue(dir, "first")
	h := connect(t, DefaultConfig(), s.kubeconfig(t, map[string]any{"client-certificate": files.Cert, "client-key": files.Key}))
	ask := func(want string) {
		t.Helper()
		if err := h.Ready(soon(t)); err != nil {
			t.Fatal(err)
		}
		if got := s.last(t).TLS.PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("certificate of %q, want %q", got, want)
		}
	}
	ask("first")
	certPEM, keyPEM := clients.IssuePEM("second")
	certtest.Replace(t, files.Cert, certPEM)
	h.clock.advance(reloadEvery)
	ask("first")
	if got := h.metric(reloads, "calls,failed"); got != 1 {
		t.Errorf("%v failures counted, want 1", got)
	}
	certtest.Replace(t, files.Key, keyPEM)
	h.clock.advance(reloadEvery)
	ask("second")
	h.clock.advance(reloadEvery)
	ask("second")
	if got := h.metric(reloads, "calls,changed"); got != 1 {
		t.Errorf("%v changes counted, want 1", got)
	}
}

// TestRotatedAuthority replaces the authority of the server's certificate.
func TestRotatedAuthority(t *testing.T) {
	s := startAPI(t, nil, nil)
	k := s.kubeconfig(t, static("token"))
	h := connect(t, DefaultConfig(), k)
	if err := h.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	fresh := certtest.New(t, "cluster")
	s.present(fresh)
	s.CloseClientConnections()
	if err := h.Ready(soon(t)); err == nil {
		t.Fatal("a certificate of an unknown authority was accepted")
	}
	certtest.Replace(t, k.Cluster["certificate-authority"].(string), fresh.PEM())
	h.clock.advance(reloadEvery)
	if err := h.Ready(soon(t)); err != nil {
		t.Errorf("after the authority was replaced: %v", err)
	}
}
