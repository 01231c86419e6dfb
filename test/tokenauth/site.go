package tokenauth

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const (
	// daemon is the name of the program and of its ServiceAccount.
	daemon = "tokenauth"
	// Runner is the ServiceAccount of sandboxes.
	Runner = "sandbox-runner"
	// team is the workspace of bearers, unless a test changes it.
	team = "team"
	// limit bounds one step of the preparation, and one call.
	limit = 30 * time.Second
)

// Site is one gateway with its tokenauth. Its methods belong to the test's goroutine, unless they say otherwise. What its fields say
// holds for what is started from then on.
type Site struct {
	// Cluster holds the objects; GatewayID is what lifecycle is configured for.
	Cluster   *cluster.Cluster
	GatewayID string
	// Namespace is where bearers are right to live: that of shared mode, a labelled one, or that of a workspace.
	Namespace string
	// LogLevel of the daemon; trace unless it is changed, so that everything it could disclose is looked at.
	LogLevel string
	// Bounds are lines of the table [portcullis.tokenauth], Reach of [portcullis.kubernetes].
	Bounds, Reach []string
	// OwnTokenFile holds the daemon's token; empty has the token in the kubeconfig.
	OwnTokenFile string

	t       testing.TB
	ca      *meshtest.CA
	home    string   // holds the daemon's ServiceAccount
	stock   string   // lines of the stock table
	tables  string   // that the mode needs
	nats    []string // none: without NATS
	via     *rest.TLSClientConfig
	address string // of what via is for
	outputs []func() string
	tokens  []string
	bearers int
}

// Shared prepares a gateway in shared mode, without NATS, and starts nothing.
func Shared(t testing.TB, c *cluster.Cluster) *Site {
	t.Helper()
	home := c.Namespace(t)
	s := prepare(t, c, "gw-"+home, home)
	s.Namespace = c.Namespace(t)
	s.stock = fmt.Sprintf("workspace_mode = \"shared\"\nnamespace = %q", s.Namespace)
	s.grant("shared")
	return s
}

// Managed prepares a gateway in managed mode, without NATS, and starts nothing. Namespace is that of one workspace.
func Managed(t testing.TB, c *cluster.Cluster) *Site {
	t.Helper()
	home := c.Namespace(t)
	s := prepare(t, c, "gw-"+home, home)
	s.stock = `workspace_mode = "managed"`
	s.grant("managed")
	s.Namespace = s.Workspace(s.GatewayID, team)
	return s
}

// Operator prepares the tokenauth of an installation's gateway, with the installation's bounds of now, and starts nothing.
func Operator(t testing.TB, i *installation.Installation) *Site {
	t.Helper()
	s := prepare(t, i.Cluster, i.GatewayID, i.Namespace)
	s.Namespace = i.Labelled()
	s.stock = fmt.Sprintf("workspace_mode = \"operator\"\noperator_namespace_label = %q", i.Label)
	s.grant("operator")
	s.tables = fmt.Sprintf("[portcullis.allowlist]\npublic_keys_file = %q\n%s\n", i.PublicKeysFile(), strings.Join(i.Bounds, "\n"))
	s.nats = i.URLs
	return s
}

func prepare(t testing.TB, c *cluster.Cluster, gateway, home string) *Site {
	t.Helper()
	s := &Site{Cluster: c, GatewayID: gateway, LogLevel: "trace", home: home, t: t, ca: meshtest.NewCA(t)}
	t.Cleanup(s.demandSecrecy) // after the end of the processes
	ctx, cancel := context.WithTimeout(t.Context(), 4*limit)
	defer cancel()
	have, err := crd.Installed(ctx, c.RESTConfig())
	if err == nil && len(have.Versions()) == 0 {
		err = crd.Install(ctx, c.RESTConfig(), crd.V1beta1)
	}
	s.must("serve Sandboxes", err)
	return s
}

func (s *Site) must(what string, err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("%s: %v", what, err)
	}
}

// Via has the API server reached at another address, "https://host:port", where somebody answers whom this authority vouches for;
// nil stands for the API server's own.
func (s *Site) Via(address string, authority []byte) {
	s.via, s.address = &rest.TLSClientConfig{CAData: authority}, address
	if authority == nil {
		s.via.CAData = s.Cluster.RESTConfig().CAData
	}
}

// Config is a client configuration that acts as tokenauth and goes the same way, without a limit of the client's own.
func (s *Site) Config() *rest.Config {
	s.t.Helper()
	cfg := s.Cluster.ServiceAccountConfig(s.t, s.home, daemon)
	if s.via != nil {
		cfg.Host, cfg.TLSClientConfig = s.address, *s.via
	}
	cfg.QPS = -1
	return cfg
}

// kubeconfig writes one that acts as tokenauth.
func (s *Site) kubeconfig() string {
	s.t.Helper()
	rc := s.Config()
	auth := &clientcmdapi.AuthInfo{TokenFile: s.OwnTokenFile}
	if s.OwnTokenFile == "" {
		auth.Token = rc.BearerToken
		s.tokens = append(s.tokens, auth.Token)
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["test"] = &clientcmdapi.Cluster{Server: rc.Host, CertificateAuthorityData: rc.CAData}
	cfg.AuthInfos[daemon] = auth
	cfg.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: daemon, Namespace: s.home}
	cfg.CurrentContext = "test"
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	s.must("write a kubeconfig", clientcmd.WriteToFile(*cfg, path))
	return path
}

// Settings are those of one tokenauth.
func (s *Site) Settings() string {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, daemon)
	tables := s.tables
	if len(s.nats) > 0 {
		tables += fmt.Sprintf("[portcullis.nats]\nurls = [\"%s\"]\n", strings.Join(s.nats, `", "`))
	}
	return fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
service_account_name = %q
%s
[portcullis]
log_level = %q
[portcullis.tokenauth]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
%s
[portcullis.mesh]
cert_file = %q
key_file = %q
ca_file = %q
[portcullis.kubernetes]
kubeconfig = %q
%s
%s`, s.GatewayID, Runner, s.stock, s.LogLevel, strings.Join(s.Bounds, "\n"), files.Cert, files.Key, files.CA, s.kubeconfig(),
		strings.Join(s.Reach, "\n"), tables)
}

// Start runs a tokenauth, which may not be ready yet.
func (s *Site) Start() *program.Process {
	s.t.Helper()
	p := program.Start(s.t, daemon, s.Settings())
	s.Watch(p.Output)
	return p
}
