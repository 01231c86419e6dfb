package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/zerologr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/app"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// library is what gRPC and the cluster's client log, by the loggers that every daemon gives them. Theirs are the whole
// process's, so they are set once, for all the daemons that the tests start.
var library transcript

func TestMain(m *testing.M) {
	log := zerolog.New(&library).Level(zerolog.TraceLevel)
	grpclog.SetLoggerV2(meshrpc.GRPCLog(log))
	klog.SetLogger(zerologr.New(&log))
	goleak.VerifyTestMain(m)
}

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

// result is what one run of the program left behind.
type result struct {
	code           int
	stdout, stderr string
}

func run(ctx context.Context, args ...string) result {
	var stdout, stderr transcript
	code := runInto(ctx, &stdout, &stderr, args...)
	return result{code, stdout.String(), stderr.String()}
}

func runInto(ctx context.Context, stdout, stderr *transcript, args ...string) int {
	return command.Main(ctx, app.Daemon(), command.Environment{
		Args: args, LookupEnv: func(string) (string, bool) { return "", false }, Stdout: stdout, Stderr: stderr, Exit: func(int) {},
	})
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
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

// site is an API server and the certificates of a mesh.
type site struct {
	*apitest.Server
	t  *testing.T
	ca *meshtest.CA
}

func newSite(t *testing.T, mode driverconf.Mode) *site {
	t.Helper()
	return &site{Server: apitest.Start(t, apitest.Valid(mode)), t: t, ca: meshtest.NewCA(t)}
}

// settings is a settings file with which the daemon starts; more are further tables.
func (s *site) settings(mode driverconf.Mode, more ...string) string {
	s.t.Helper()
	source := ""
	if mode == driverconf.ModeOperator {
		source = "operator_namespace_label = \"sandboxes=allowed\"\n"
	}
	files := meshtest.NewFiles(s.t, s.ca, app.Name)
	return write(s.t, "gateway.toml", fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
workspace_mode = %q
namespace = "sandboxes"
service_account_name = %q
%s[portcullis]
log_level = "trace"
[portcullis.tokenauth]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
[portcullis.mesh]
cert_file = %q
key_file = %q
ca_file = %q
[portcullis.kubernetes]
kubeconfig = %q
%s`, apitest.GatewayID, mode, apitest.ServiceAccount, source, files.Cert, files.Key, files.CA, s.Kubeconfig(s.t), strings.Join(more, "\n")))
}

// daemon is a running tokenauth.
type daemon struct {
	t      *testing.T
	stderr transcript
	stdout transcript
	stop   func() int
}

func (s *site) start(settings string) *daemon {
	s.t.Helper()
	d := &daemon{t: s.t}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- runInto(ctx, &d.stdout, &d.stderr, "--config", settings) }()
	d.stop = sync.OnceValue(func() int { cancel(); return <-code })
	s.t.Cleanup(func() { d.stop() })
	return d
}

// logged waits for a line with a message, and returns the text of one of its keys.
func (d *daemon) logged(message, key string) string {
	d.t.Helper()
	var found string
	eventually(d.t, "a line says "+message, func() bool {
		for line := range strings.Lines(d.stderr.String()) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["message"] == message {
				found, _ = fields[key].(string)
				return true
			}
		}
		return false
	})
	return found
}

// get reads from the admin listener.
func (d *daemon) get(path string) (int, string) {
	d.t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + d.logged("starting", "address") + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

func (d *daemon) awaitReady() {
	d.t.Helper()
	eventually(d.t, "it is ready", func() bool { code, _ := d.get("/readyz"); return code == http.StatusOK })
}

// metric reads one series from the admin listener; 0 when there is none.
func (d *daemon) metric(series string) float64 {
	d.t.Helper()
	_, text := d.get("/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				d.t.Errorf("%s: %v", line, err)
			}
			return n
		}
	}
	return 0
}

// client is lifecycle's side of the mesh.
func (s *site) client(d *daemon) tokenauthv1.TokenAuthServiceClient {
	s.t.Helper()
	return tokenauthv1.NewTokenAuthServiceClient(s.dial(d))
}

// dial is lifecycle's connection, which sends whatever it is given.
func (s *site) dial(d *daemon) *grpc.ClientConn {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, "lifecycle")
	cfg := meshrpc.DefaultConfig()
	cfg.MaxMessageBytes = 64 << 20
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: "lifecycle", Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := mesh.NewClient(meshrpc.Target{Daemon: app.Name, Address: d.logged("serving the mesh", "address")})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
