package tokenauth

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
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
	// limit bounds one step of the preparation, and one call.
	limit = 30 * time.Second
)

// Site is one gateway with its tokenauth. Its methods belong to the test's goroutine, unless they say otherwise.
type Site struct {
	// Cluster holds the objects; GatewayID is what lifecycle is configured for.
	Cluster   *cluster.Cluster
	GatewayID string
	// Namespace is where bearers are right to live: that of shared mode, or a labelled one.
	Namespace string
	// LogLevel of the daemon; trace unless it is changed, so that everything it could disclose is looked at.
	LogLevel string

	t          testing.TB
	ca         *meshtest.CA
	home       string // holds the daemon's ServiceAccount
	stock      string // lines of the stock table and tables that the mode needs
	kubeconfig string
	outputs    []func() string
	tokens     []string
	bearers    int
}

// Shared prepares a gateway in shared mode, without NATS, and starts nothing.
func Shared(t testing.TB, c *cluster.Cluster) *Site {
	t.Helper()
	home := c.Namespace(t)
	s := prepare(t, c, "gw-"+home, home)
	s.Namespace = c.Namespace(t)
	s.stock = fmt.Sprintf("workspace_mode = \"shared\"\nnamespace = %q\n", s.Namespace)
	return s
}

// Operator prepares the tokenauth of an installation's gateway, with the installation's bounds of now, and starts nothing.
func Operator(t testing.TB, i *installation.Installation) *Site {
	t.Helper()
	s := prepare(t, i.Cluster, i.GatewayID, i.Namespace)
	s.Namespace = i.Labelled()
	s.stock = fmt.Sprintf(`workspace_mode = "operator"
operator_namespace_label = %q
[portcullis.nats]
urls = ["%s"]
[portcullis.allowlist]
public_keys_file = %q
%s
`, i.Label, strings.Join(i.URLs, `", "`), i.PublicKeysFile(), strings.Join(i.Bounds, "\n"))
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
	s.grant(ctx)
	s.kubeconfig = c.ServiceAccountKubeconfig(t, home, daemon)
	return s
}

func (s *Site) must(what string, err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("%s: %v", what, err)
	}
}

// grant gives the daemon what it needs and no more.
func (s *Site) grant(ctx context.Context) {
	s.t.Helper()
	client, name := s.Cluster.Client(), daemon+"-"+s.home
	s.account(ctx, s.home, daemon)
	get := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get"}}
	}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
			get("", "pods"), get("", "namespaces"), get(sandboxapi.Group, sandboxapi.Resource),
		},
	}, metav1.CreateOptions{})
	s.must("grant the rights of tokenauth", err)
	s.t.Cleanup(func() { s.forget(client.RbacV1().ClusterRoles().Delete, name) })
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: daemon, Namespace: s.home}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	s.must("grant the rights of tokenauth", err)
	s.t.Cleanup(func() { s.forget(client.RbacV1().ClusterRoleBindings().Delete, name) })
}

// forget deletes a cluster-wide object.
func (s *Site) forget(remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("delete %s: %v", name, err)
	}
}

// account makes a ServiceAccount unless it is there.
func (s *Site) account(ctx context.Context, namespace, name string) {
	s.t.Helper()
	_, err := s.Cluster.Client().CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.must("make a ServiceAccount", err)
	}
}

// Config is a client configuration that acts as tokenauth, without a limit of the client's own.
func (s *Site) Config() *rest.Config {
	s.t.Helper()
	cfg := s.Cluster.ServiceAccountConfig(s.t, s.home, daemon)
	cfg.QPS = -1
	return cfg
}

// Settings are those of one tokenauth.
func (s *Site) Settings() string {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, daemon)
	return fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
service_account_name = %q
%s
[portcullis]
log_level = %q
[portcullis.tokenauth]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
[portcullis.mesh]
cert_file = %q
key_file = %q
ca_file = %q
[portcullis.kubernetes]
kubeconfig = %q
`, s.GatewayID, Runner, s.stock, s.LogLevel, files.Cert, files.Key, files.CA, s.kubeconfig)
}

// Start runs a tokenauth, which may not be ready yet.
func (s *Site) Start() *program.Process {
	s.t.Helper()
	p := program.Start(s.t, daemon, s.Settings())
	s.Watch(p.Output)
	return p
}

// Watch adds a text, as it will be when the test ends, that must hold nothing of a token.
func (s *Site) Watch(output func() string) { s.outputs = append(s.outputs, output) }

// Client is lifecycle's side of the mesh to a process.
func (s *Site) Client(p *program.Process) *Client {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, "lifecycle")
	cfg := meshrpc.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: "lifecycle", Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	s.must("join the mesh", err)
	conn, err := mesh.NewClient(meshrpc.Target{Daemon: daemon, Address: p.Logged("serving the mesh", "address")})
	s.must("join the mesh", err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return &Client{calls: tokenauthv1.NewTokenAuthServiceClient(conn), gateway: s.GatewayID}
}

// Client makes the call as lifecycle does. Safe for concurrent use.
type Client struct {
	calls   tokenauthv1.TokenAuthServiceClient
	gateway string
}

// Authenticate asks who the bearer of a token is. The call has a limit of half a minute.
func (c *Client) Authenticate(ctx context.Context, token string) (*tokenauthv1.AuthenticateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.calls.Authenticate(ctx, &tokenauthv1.AuthenticateRequest{Credential: token, GatewayId: c.gateway, RequestId: "test"})
}

// demandSecrecy fails the test when anything of a token was written.
func (s *Site) demandSecrecy() {
	for _, output := range s.outputs {
		text := output()
		for _, token := range s.tokens {
			if part := Disclosed(text, token); part != "" {
				s.t.Errorf("the output of a process holds %q of a token", part)
				return
			}
		}
	}
}

// Disclosed is a piece of the token's claims or signature that is in text; empty when there is none. The header of a token is the
// same for all tokens of a cluster and no secret.
func Disclosed(text, token string) string {
	const size = 16
	_, secret, _ := strings.Cut(token, ".")
	for i := 0; i+size <= len(secret); i += size / 2 {
		if piece := secret[i : i+size]; strings.Contains(text, piece) {
			return piece
		}
	}
	return ""
}
