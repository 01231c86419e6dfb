package lifecycle

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// limit bounds one step of the preparation, and one call.
const limit = 2 * time.Minute

// Site is one gateway's mesh. Its methods belong to the test's goroutine, unless they say otherwise; a subtest has its own with In.
type Site struct {
	Cluster *cluster.Cluster
	Mesh    *mesh.Mesh
	Driver  computev1.ComputeDriverClient
	// Metadata is an administrator's, for looks at many objects.
	Metadata metadata.Interface
	// GatewayID names the gateway, Label selects the namespaces of operator mode, Shared is the namespace of shared mode and the
	// source namespace of the others.
	GatewayID, Label, Shared string
	Mode                     string
	// Gates stand between daemons and the API server, by daemon, where RaiseGated was asked for them.
	Gates map[string]*Gate
	*StandIns

	t         testing.TB
	prefix    string
	authority *credentials.Authority
	epoch     *atomic.Uint64
	dir       string
	guarded   *guarded
}

// Raise is that of StandIns for a site with its own.
func Raise(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, mode string, changes ...func(*mesh.Options)) *Site {
	t.Helper()
	return StartStandIns(t, c, dialect).Raise(t, mode, nil, changes...)
}

// RaiseGated is Raise with a Gate for each of some daemons.
func RaiseGated(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, mode string, daemons []string, changes ...func(*mesh.Options)) *Site {
	t.Helper()
	return StartStandIns(t, c, dialect).Raise(t, mode, daemons, changes...)
}

// broker is the NATS server, which is built once for all sites.
var broker built

type built struct {
	mu   sync.Mutex
	done string
}

func (b *built) path(t testing.TB) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == "" {
		b.done = cluster.Build(t, mesh.NATS, "test", "github.com/nats-io/nats-server/v2")
	}
	return b.done
}

func (c *StandIns) prepare(t testing.TB, mode string) *Site {
	t.Helper()
	const bytes = 2
	name := c.run + hexadecimal(bytes)
	s := &Site{
		StandIns: c, Cluster: c.cluster, GatewayID: gatewayPrefix + name, Label: "portcullis.test/" + name + "=allowed", Mode: mode, Gates: map[string]*Gate{},
		Shared: namespacePrefix(name) + "-shared", t: t, prefix: namespacePrefix(name) + "-", epoch: new(atomic.Uint64),
		guarded: new(guarded),
	}
	rc := c.cluster.RESTConfig()
	rc.QPS = -1
	var err error
	s.Metadata, err = metadata.NewForConfig(rc)
	s.must("make a client", err)
	var ring credentials.Ring
	ring, err = ring.Rotated()
	s.must("make the gateway's keys", err)
	s.authority, err = credentials.New(s.GatewayID, ring, time.Now)
	s.must("make the gateway's authority", err)
	return s
}

// launch starts the daemons and waits for none to be ready.
func (s *Site) launch(changes []func(*mesh.Options)) {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "lc") // the path of a socket must be short
	s.must("make a directory", err)
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.dir = dir
	options := mesh.Options{
		Cluster: s.Cluster.RESTConfig(), Dir: dir, Manifests: filepath.Join("..", "..", "deploy", "kustomize", "base"),
		Programs:  map[string]string{},
		Namespace: s.prefix + "portcullis", Mode: s.Mode, GatewayID: s.GatewayID, Label: s.Label, SandboxNamespace: s.Shared,
		SupervisorImage: "registry.example/supervisor:1", RuntimeImage: "registry.example/runtime:1", DefaultImage: "registry.example/agent:1",
		Endpoint: "https://gateway.example:8080", Log: s.t.Logf,
		Allowlist: []string{`stop_grace = "0s"`}, // nobody takes over when it ends
	}
	for _, daemon := range mesh.Daemons() {
		options.Programs[daemon] = program.Path(s.t, daemon)
	}
	if s.Mode == "operator" {
		options.Programs[mesh.NATS] = broker.path(s.t)
	}
	for _, change := range changes {
		change(&options)
	}
	s.Mesh, err = mesh.New(options)
	s.must("prepare the mesh", err)
	s.t.Cleanup(s.end)
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	s.must("prepare the mesh", s.Mesh.Prepare(ctx))
	for daemon, gate := range s.Gates {
		s.must("lead "+daemon+" through a gate", redirect(filepath.Join(dir, daemon, "kubeconfig"), gate.proxy.Address(), gate.proxy.Authority()))
	}
	s.must("start the mesh", s.Mesh.Launch(ctx))
}

// AwaitDaemons waits until every daemon is ready.
func (s *Site) AwaitDaemons() {
	s.t.Helper()
	s.must("start the mesh", s.Mesh.Await(s.Context()))
}

// Direct starts daemons that are behind a Gate again, without it.
func (s *Site) Direct(daemons ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	for _, daemon := range daemons {
		s.must("stop "+daemon, s.Mesh.Process(daemon).Stop())
		s.Past(daemon)
		s.must("start "+daemon, s.Mesh.Run(ctx, daemon))
	}
}

// Past leads a daemon past its Gate, and every other process of its program, from its next start on. One that runs goes on through it.
func (s *Site) Past(daemon string) {
	s.t.Helper()
	rc, path := s.Cluster.RESTConfig(), filepath.Join(filepath.Dir(s.Mesh.Settings(daemon)), "kubeconfig")
	s.must("lead "+daemon+" past its gate", redirect(path, rc.Host, rc.CAData))
}

func (s *Site) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	if err := s.Mesh.Stop(); err != nil {
		s.t.Errorf("stop the mesh: %v", err)
	}
	s.demandSecrecy()
	if err := s.Mesh.Remove(ctx); err != nil {
		s.t.Errorf("remove the mesh: %v", err)
	}
	if s.Mode == "managed" {
		s.removeManaged(ctx)
	}
}

// removeManaged deletes the namespaces that lifecycle has made.
func (s *Site) removeManaged(ctx context.Context) {
	all, err := s.Cluster.Client().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Errorf("list namespaces: %v", err)
		return
	}
	for i := range all.Items {
		if name := all.Items[i].Name; strings.HasPrefix(name, managedPrefix(s.GatewayID)) {
			s.DeleteNamespace(name)
		}
	}
}

// In is the same site for a subtest: what fails fails that, and what is made goes with it.
func (s *Site) In(t testing.TB) *Site {
	own := *s
	own.t = t
	return &own
}

func (s *Site) connect() {
	s.t.Helper()
	conn, err := udsock.NewClient(s.Mesh.Socket())
	s.must("dial the driver", err)
	s.t.Cleanup(func() { _ = conn.Close() })
	s.Driver = computev1.NewComputeDriverClient(conn)
}

func (s *Site) must(what string, err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("%s: %v", what, err)
	}
}

// Context bounds one call.
func (s *Site) Context() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	s.t.Cleanup(cancel)
	return ctx
}

// Gateway is how a gateway introduces itself.
func Gateway() *extensionv1.PeerMetadata {
	return &extensionv1.PeerMetadata{
		ProtocolVersion: &extensionv1.ProtocolVersion{Major: 1}, ImplementationName: "openshell/gateway", ImplementationVersion: "1",
		SupportedCapabilities: []string{"openshell.compute.contract", "openshell.compute.launch-authentication"},
		RequiredCapabilities:  []string{"openshell.compute.contract"},
	}
}

// Namespace makes a namespace; it goes when the test ends.
func (s *Site) Namespace(name string, labels map[string]string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	client := s.Cluster.Client().CoreV1()
	_, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	s.must("make namespace "+name, err)
	s.t.Cleanup(func() { s.DeleteNamespace(name) })
	for {
		_, err := client.ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			s.must("wait for the ServiceAccount of "+name, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// DeleteNamespace asks for a namespace to be deleted.
func (s *Site) DeleteNamespace(name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	err := s.Cluster.Client().CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Errorf("delete namespace %s: %v", name, err)
	}
}

// Workspace makes one that sandboxes may be created in, and returns its name.
func (s *Site) Workspace(name string) string {
	s.t.Helper()
	if s.Mode != "operator" {
		return name
	}
	name = s.prefix + name
	s.Namespace(name, nil)
	s.must("furnish namespace "+name, s.Mesh.Furnish(s.t.Context(), name))
	s.SetLabel(name, true)
	return name
}

// NamespaceOf is where the sandboxes of a workspace are.
func (s *Site) NamespaceOf(workspace string) string {
	switch s.Mode {
	case "operator":
		return workspace
	case "managed":
		return managedPrefix(s.GatewayID) + "-" + workspace
	default:
		return s.Shared
	}
}

// SetLabel puts the label of trusted namespaces on one, or takes it off.
func (s *Site) SetLabel(namespace string, on bool) {
	s.t.Helper()
	key, value := s.Label[:len(s.Label)-len("=allowed")], `"allowed"`
	if !on {
		value = "null"
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	_, err := s.Cluster.Client().CoreV1().Namespaces().Patch(s.t.Context(), namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must("label namespace "+namespace, err)
}

// uuid is random, version 4.
func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Bundle is the launch bundle of a new run of a sandbox.
func (s *Site) Bundle(id string) []byte {
	s.t.Helper()
	run := credentials.Run{SandboxID: id, SessionID: uuid(), Generation: "g0000000000000001", Rotation: 1, AuthEpoch: s.epoch.Add(1)}
	bundle, err := s.authority.Bundle(run)
	s.must("make a launch bundle", err)
	s.must("guard a launch bundle", s.guarded.addBundle(bundle.Expose()))
	return bundle.Expose()
}

// Wish is a sandbox as a gateway asks for it.
func (s *Site) Wish(workspace, name string) *computev1.DriverSandbox {
	s.t.Helper()
	id := uuid()
	return &computev1.DriverSandbox{
		Id: id, Name: name, Workspace: workspace,
		Spec: &computev1.DriverSandboxSpec{LogLevel: "info", Command: []string{"/bin/run"}, LaunchAuthentication: s.Bundle(id)},
	}
}

// Eventually tries until there is no error.
func (s *Site) Eventually(what string, try func() error) {
	s.t.Helper()
	cluster.Eventually(s.t, what, func(context.Context) error { return try() })
}

// AwaitReady waits until the driver reports the sandbox Ready.
func (s *Site) AwaitReady(id string) {
	s.t.Helper()
	s.Eventually("sandbox "+id+" is ready", func() error {
		got, err := s.Driver.GetSandbox(s.Context(), &computev1.GetSandboxRequest{SandboxId: id})
		if err != nil {
			return err
		}
		for _, c := range got.GetSandbox().GetStatus().GetConditions() {
			if c.GetType() == "Ready" && c.GetStatus() == "True" {
				return nil
			}
		}
		return fmt.Errorf("it says %v", got.GetSandbox().GetStatus().GetConditions())
	})
}
