package app_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends a wait for something that will never happen.
const patience = 60 * time.Second

// transcript is a buffer that may be written to while the test reads it.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// run is one run of the program to its end.
func run(ctx context.Context, stdout, stderr *transcript, args ...string) int {
	return command.Main(ctx, app.Daemon(), command.Environment{
		Args: args, LookupEnv: func(string) (string, bool) { return "", false }, Stdout: stdout, Stderr: stderr, Exit: func(int) {},
	})
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

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
	ca := write(s.t, s.dir, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})))
	kubeconfig := write(s.t, s.dir, "kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"it",
"clusters":[{"name":"it","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"it","user":{"tokenFile":%q}}],
"contexts":[{"name":"it","context":{"cluster":"it","user":"it"}}]}`, s.http.URL, ca, write(s.t, s.dir, "token", "a-token")))
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
`, mode, filepath.Join(s.dir, "s", "driver.sock"), label, write(s.t, s.dir, "public.keys", signer.Public().FileLine()), kubeconfig)
}

// settings is a whole settings file for lifecycle, with lines of its own table.
func (s *site) settings(mode string, own ...string) string {
	s.t.Helper()
	return write(s.t, s.dir, "gateway.toml", s.stock(mode)+"[portcullis.lifecycle]\n"+strings.Join(own, "\n")+"\n")
}

// process is a running lifecycle or relay.
type process struct {
	t              *testing.T
	stdout, stderr transcript
	stop           func() int
}

func (s *site) start(args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- run(ctx, &p.stdout, &p.stderr, args...) }()
	p.stop = sync.OnceValue(func() int { cancel(); return <-code })
	s.t.Cleanup(func() { p.stop() })
	return p
}

// line waits for one with a message.
func (p *process) line(message string) (found map[string]any) {
	p.t.Helper()
	eventually(p.t, "a line says "+message+"; so far: "+p.stderr.String(), func() bool {
		for line := range strings.Lines(p.stderr.String()) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["message"] == message {
				found = fields
				return true
			}
		}
		return false
	})
	return found
}

// get asks the listener of checks and metrics.
func (p *process) get(path string) string {
	p.t.Helper()
	address, _ := p.line("admin listener serves")["address"].(string)
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
