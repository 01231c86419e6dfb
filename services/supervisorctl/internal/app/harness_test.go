package app_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/zerologr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc/grpclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// library is what gRPC and the cluster's client log. Their loggers are the whole process's, so they are set once.
var library commandtest.Transcript

func TestMain(m *testing.M) {
	log := zerolog.New(&library).Level(zerolog.TraceLevel)
	grpclog.SetLoggerV2(meshrpc.GRPCLog(log))
	klog.SetLogger(zerologr.New(&log))
	goleak.VerifyTestMain(m)
}

var program = commandtest.Of(app.Daemon)

func write(t *testing.T, name, text string) string {
	t.Helper()
	return commandtest.WriteFile(t, t.TempDir(), name, text)
}

// site is an API server that has nothing, and the certificates of a mesh.
type site struct {
	t    *testing.T
	http *httptest.Server
	ca   *meshtest.CA

	mu   sync.Mutex
	sent []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, ca: meshtest.NewCA(t)}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	t.Cleanup(s.http.Close)
	return s
}

// serve says of every object that there is none, and lets nobody lead.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.sent = append(s.sent, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	group, rest := "", strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/")
	if path, ok := strings.CutPrefix(r.URL.Path, "/apis/"); ok {
		group, path, _ = strings.Cut(path, "/")
		_, rest, _ = strings.Cut(path, "/namespaces/")
	}
	parts := strings.Split(rest, "/")
	switch {
	case r.URL.Path == "/readyz" || r.URL.Path == "/livez" || r.URL.Path == "/version" || r.URL.Path == "/apis/"+sandboxapi.Group:
		_, _ = io.WriteString(w, "{}")
	case strings.Contains(r.URL.Path, "/leases"):
		answer(w, http.StatusForbidden, metav1.StatusReasonForbidden, nil)
	case r.Method == http.MethodGet && len(parts) == 3:
		answer(w, http.StatusNotFound, metav1.StatusReasonNotFound, &metav1.StatusDetails{Group: group, Kind: parts[1], Name: parts[2]})
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, code int, reason metav1.StatusReason, details *metav1.StatusDetails) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Details: details,
	})
}

// requests are those about the objects of companion sets.
func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.sent {
		if strings.Contains(r, "/namespaces/sandboxes/") && !strings.Contains(r, "/leases") {
			out = append(out, r)
		}
	}
	return out
}

func (s *site) kubeconfig() string {
	s.t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return write(s.t, "kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"it",
"clusters":[{"name":"it","cluster":{"server":%q,"certificate-authority":%q}}],
"users":[{"name":"it","user":{"tokenFile":%q}}],
"contexts":[{"name":"it","context":{"cluster":"it","user":"it"}}]}`, s.http.URL, write(s.t, "ca.crt", string(ca)), write(s.t, "token", "a-token")))
}

// settings is a settings file with which the daemon starts, but for the lines that replace takes out and puts in.
func (s *site) settings(replace ...string) string {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, app.Name)
	text := fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = "blue"
workspace_mode = "shared"
namespace = "sandboxes"
service_account_name = "sandbox"
supervisor_image = "registry.example/supervisor:1"
grpc_endpoint = "https://gateway.example:8080"
[openshell.drivers.kubernetes.sandbox_runtime]
network_policy_enforced = true
[portcullis]
log_level = "trace"
[portcullis.supervisorctl]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
lease_namespace = "mesh"
[portcullis.mesh]
cert_file = %q
key_file = %q
ca_file = %q
[portcullis.kubernetes]
kubeconfig = %q
`, files.Cert, files.Key, files.CA, s.kubeconfig())
	return write(s.t, "gateway.toml", strings.NewReplacer(replace...).Replace(text))
}

func (s *site) start(settings string) *commandtest.Process {
	s.t.Helper()
	return program.Start(s.t, "--config", settings)
}

// client is the connection of a daemon of the mesh.
func (s *site) client(d *commandtest.Process, as string) supervisorv1.SupervisorServiceClient {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, as)
	cfg := meshrpc.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: as, Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := mesh.NewClient(meshrpc.Target{Daemon: app.Name, Address: d.Logged("serving the mesh", "address")})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return supervisorv1.NewSupervisorServiceClient(conn)
}
