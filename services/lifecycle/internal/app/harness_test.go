package app_test

import (
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var program = commandtest.Of(app.Daemon)

// site is what lies around the two programs: an API server without objects, which does not answer before it is up, and nobody at the
// addresses of NATS and the other daemons.
type site struct {
	t    *testing.T
	http *httptest.Server
	up   atomic.Bool
	// dir is short, since it holds sockets.
	dir string
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.http = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.http.Close)
	return s
}

// serve gives empty lists and watches in which nothing happens; while the site is down it cuts every connection.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	if !s.up.Load() {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	kinds := map[string][2]string{"sandboxes": {"agents.x-k8s.io/v1beta1", "SandboxList"}, "pods": {"v1", "PodList"}, "events": {"v1", "EventList"}}
	of, known := kinds[filepath.Base(r.URL.Path)]
	switch {
	case !known:
		_, _ = io.WriteString(w, "{}")
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7"},"items":[]}`, of[0], of[1])
	}
}

// stock is the settings file up to the mesh's own tables.
func (s *site) stock(mode string) string {
	s.t.Helper()
	ca := commandtest.WriteFile(s.t, s.dir, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})))
	kubeconfig := commandtest.WriteFile(s.t, s.dir, "kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"it",
"clusters":[{"name":"it","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"it","user":{"tokenFile":%q}}],
"contexts":[{"name":"it","context":{"cluster":"it","user":"it"}}]}`, s.http.URL, ca, commandtest.WriteFile(s.t, s.dir, "token", "a-token")))
	signer, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	label := ""
	if mode == "operator" {
		label = "operator_namespace_label = \"sandboxes=allowed\"\n"
	}
	return fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = "blue"
workspace_mode = %q
namespace = "sandboxes"
socket_path = %q
sandbox_runtime_image = "registry.example/runtime:1"
%s[portcullis.nats]
urls = ["nats://127.0.0.1:1"]
[portcullis.allowlist]
public_keys_file = %q
[portcullis.mesh]
allow_plaintext_loopback = true
[portcullis.kubernetes]
kubeconfig = %q
`, mode, filepath.Join(s.dir, "s", "driver.sock"), label, commandtest.WriteFile(s.t, s.dir, "public.keys", signer.Public().FileLine()), kubeconfig)
}

// settings is a whole settings file for lifecycle, with lines of its own table.
func (s *site) settings(mode string, own ...string) string {
	s.t.Helper()
	return commandtest.WriteFile(s.t, s.dir, "gateway.toml", s.stock(mode)+"[portcullis.lifecycle]\n"+strings.Join(own, "\n")+"\n")
}

func (s *site) start(args ...string) *commandtest.Process {
	s.t.Helper()
	return program.Start(s.t, args...)
}

// body is what the admin listener answers.
func body(p *commandtest.Process, path string) string {
	_, text := p.Get(path)
	return text
}
