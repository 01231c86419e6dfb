package app_test

import (
	"fmt"
	"strings"
	"testing"

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
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// library is what gRPC and the cluster's client log, by the loggers that every daemon gives them. Theirs are the whole
// process's, so they are set once, for all the daemons that the tests start.
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

func (s *site) start(settings string) *commandtest.Process {
	s.t.Helper()
	return program.Start(s.t, "--config", settings)
}

// client is lifecycle's side of the mesh.
func (s *site) client(d *commandtest.Process) tokenauthv1.TokenAuthServiceClient {
	s.t.Helper()
	return tokenauthv1.NewTokenAuthServiceClient(s.dial(d))
}

// dial is lifecycle's connection, which sends whatever it is given.
func (s *site) dial(d *commandtest.Process) *grpc.ClientConn {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, "lifecycle")
	cfg := meshrpc.DefaultConfig()
	cfg.MaxMessageBytes = 64 << 20
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: "lifecycle", Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := mesh.NewClient(meshrpc.Target{Daemon: app.Name, Address: d.Logged("serving the mesh", "address")})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
