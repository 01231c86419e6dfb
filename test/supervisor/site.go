package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const (
	// daemon is the name of the program and of its ServiceAccount.
	daemon = "supervisorctl"
	// runner is the ServiceAccount of both Pods, which is in every namespace.
	runner = "default"
	// Port is the boundary's.
	Port = 5500
	// limit bounds one step of the preparation.
	limit = 30 * time.Second
)

// Site is one gateway with its supervisorctl. What its fields say holds for what is started from then on. Methods belong to the test's
// goroutine, unless they say otherwise.
type Site struct {
	Cluster   *cluster.Cluster
	GatewayID string
	Dialect   reconcile.Dialect
	// Faults interferes with the stand-in controller, Pods drives the Pods.
	Faults *agentsandbox.Faults
	Pods   *poddriver.Driver
	// Gate sees every write of the daemon.
	Gate *Gate
	// History is of the Site's namespaces.
	History *History
	// LogLevel of the daemon; trace unless it is changed, so that everything it could disclose is looked at.
	LogLevel string
	// Enforced is sandbox_runtime.network_policy_enforced.
	Enforced bool
	// Images and Endpoint are what the Pods run and where their gateway is; nobody resolves them unless they are changed.
	Images   companions.Images
	Endpoint string
	// Stock are further lines of the stock table, Bounds of [portcullis.supervisorctl], Reach of [portcullis.kubernetes].
	Stock, Bounds, Reach []string
	// Setup is what the Site was made with, and its settings say. A change of it takes no right away and gives none.
	Setup

	t      testing.TB
	ca     *meshtest.CA
	home   string
	prefix string
	made   atomic.Int64
	shared string // the one namespace of shared mode

	mu         sync.Mutex
	namespaces []string
	outputs    []func() string
	guarded    []string
}

// New prepares a gateway in operator mode whose controller speaks the dialect, and starts no daemon.
func New(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect) *Site {
	t.Helper()
	return NewAs(t, c, dialect, Setup{Mode: Operator})
}

// NewAs is New for a gateway of another setup. In shared mode it makes the one namespace.
func NewAs(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, setup Setup) *Site {
	t.Helper()
	return prepare(t, c, dialect, setup, false)
}

// OnNode is NewAs for a cluster with a real node: nothing plays the kubelet, and Pods is nil.
func OnNode(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, setup Setup) *Site {
	t.Helper()
	return prepare(t, c, dialect, setup, true)
}

func prepare(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, setup Setup, node bool) *Site {
	t.Helper()
	home := c.Namespace(t)
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	s := &Site{
		Cluster: c, GatewayID: "gw-" + home, Dialect: dialect, Faults: new(agentsandbox.Faults), LogLevel: "trace", Enforced: true,
		Images: companions.Images{
			Supervisor: "registry.example/supervisor:1", Runtime: "registry.example/runtime:1", Workload: "registry.example/agent:1",
		},
		Endpoint: "https://gateway.example:8080",
		Setup:    setup,
		t:        t, ca: meshtest.NewCA(t), home: home, prefix: "sv-" + hex.EncodeToString(id) + "-",
	}
	if s.Mode == Managed {
		s.prefix = "openshell-" + s.GatewayID + "-"
	}
	// Cleanups run from the last to the first: the daemon ends, then the controller, then the Pods, and then the namespaces go.
	t.Cleanup(s.leave)
	t.Cleanup(s.demandSecrecy)
	owns := agentsandbox.NamespacePrefix(s.prefix)
	if !node {
		s.Pods = poddriver.Start(t, c.RESTConfig(), poddriver.Config{Owns: owns})
	}
	agentsandbox.Start(t, c.RESTConfig(), agentsandbox.Config{Owns: owns, Dialect: dialect, Faults: s.Faults})
	if s.Mode == Shared {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		name, err := s.Namespace(ctx, nil)
		s.must("make the namespace of shared mode", err)
		s.shared = name
	}
	s.grant()
	s.History = newHistory(t, c, dialect, s.prefix)
	s.Gate = newGate(t, c)
	return s
}

func (s *Site) must(what string, err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("%s: %v", what, err)
	}
}

// Home is the namespace of the daemon, in which its Lease is, and in which the source Secrets of managed and operator mode are.
func (s *Site) Home() string { return s.home }

// Namespace makes a namespace of the gateway with further labels, in shared mode none but the one. It goes when the test ends. Safe for
// concurrent use; it returns an error for that.
func (s *Site) Namespace(ctx context.Context, labels map[string]string) (string, error) {
	if s.shared != "" {
		return s.shared, nil
	}
	name := fmt.Sprintf("%s%d", s.prefix, s.made.Add(1))
	labels = s.owned(name, labels)
	client := s.Cluster.Client().CoreV1()
	_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make namespace %s: %w", name, err)
	}
	s.mu.Lock()
	s.namespaces = append(s.namespaces, name)
	s.mu.Unlock()
	for {
		_, err = client.ServiceAccounts(name).Get(ctx, runner, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return name, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the ServiceAccount of namespace %s: %w", name, context.Cause(ctx))
		}
	}
}

// leave deletes the namespaces.
func (s *Site) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 2*limit)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.namespaces {
		if err := s.Cluster.Client().CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.t.Errorf("delete namespace %s: %v", name, err)
		}
	}
}

func (s *Site) sandboxes(namespace string) dynamic.ResourceInterface {
	return s.Cluster.Dynamic().Resource(s.Dialect.Version.Resource()).Namespace(namespace)
}

// kubeconfig acts as supervisorctl and leads through the Gate.
func (s *Site) kubeconfig(proxy *apiproxy.Proxy) string {
	s.t.Helper()
	token := s.Cluster.Token(s.t, s.home, daemon, cluster.TokenRequest{})
	s.guard(token)
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["test"] = &clientcmdapi.Cluster{Server: proxy.Address(), CertificateAuthorityData: proxy.Authority()}
	cfg.AuthInfos[daemon] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: daemon, Namespace: s.home}
	cfg.CurrentContext = "test"
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	s.must("write a kubeconfig", clientcmd.WriteToFile(*cfg, path))
	return path
}

// Settings are those of one supervisorctl.
func (s *Site) Settings() string {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, daemon)
	return fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = %q
service_account_name = %q
namespace = %q
%s
supervisor_image = %q
sandbox_runtime_image = %q
default_image = %q
grpc_endpoint = %q
%s
[openshell.drivers.kubernetes.sandbox_runtime]
boundary_port = %d
network_policy_enforced = %t
[portcullis]
log_level = %q
[portcullis.supervisorctl]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
lease_namespace = %q
%s
[portcullis.mesh]
cert_file = %q
key_file = %q
ca_file = %q
[portcullis.kubernetes]
kubeconfig = %q
qps = 1000
burst = 2000
%s
`, s.GatewayID, runner, s.sources(), s.lines(), s.Images.Supervisor, s.Images.Runtime, s.Images.Workload, s.Endpoint,
		strings.Join(s.Stock, "\n"), Port, s.Enforced, s.LogLevel, s.home, strings.Join(s.Bounds, "\n"),
		files.Cert, files.Key, files.CA, s.kubeconfig(s.Gate.proxy), strings.Join(s.Reach, "\n"))
}

// Start runs a supervisorctl and waits until it is ready.
func (s *Site) Start() *program.Process {
	s.t.Helper()
	p := program.Start(s.t, daemon, s.Settings())
	s.mu.Lock()
	s.outputs = append(s.outputs, p.Output)
	s.mu.Unlock()
	p.AwaitReady()
	return p
}

// guard adds a text of which nothing may be written. Safe for concurrent use.
func (s *Site) guard(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guarded = append(s.guarded, text)
}

// demandSecrecy fails the test when a process has written a piece of what must not be.
func (s *Site) demandSecrecy() {
	const size = 24
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, output := range s.outputs {
		text := output()
		for _, secret := range s.guarded {
			_, body, _ := strings.Cut(secret, ".") // the header of a token is no secret
			if len(body) < size {
				s.t.Fatal("a guarded text is too short to be looked for")
			}
			if strings.Contains(text, body[:size]) || strings.Contains(text, body[len(body)-size:]) {
				s.t.Error("a process has written a piece of a token")
				return
			}
		}
	}
}
