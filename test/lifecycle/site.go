package lifecycle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// limit bounds one step of the preparation, and one call.
const limit = 2 * time.Minute

// Site is one gateway's mesh. Its methods belong to the test's goroutine, unless they say otherwise.
type Site struct {
	Cluster *cluster.Cluster
	Mesh    *mesh.Mesh
	Driver  computev1.ComputeDriverClient
	// GatewayID names the gateway, Label selects the namespaces of operator mode, Shared is the namespace of shared mode and the
	// source namespace of the others.
	GatewayID, Label, Shared string
	Mode                     string
	// Gates stand between daemons and the API server, by daemon, where RaiseGated was asked for them.
	Gates map[string]*Gate
	// Faults interferes with the stand-in controller, Pods drives the Pods.
	Faults *agentsandbox.Faults
	Pods   *poddriver.Driver

	t         testing.TB
	prefix    string
	authority *credentials.Authority
	epoch     uint64
	runs      int
}

// Raise runs a mesh in one of the modes operator, shared and managed, with changes to its options.
func Raise(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, mode string, changes ...func(*mesh.Options)) *Site {
	t.Helper()
	return RaiseGated(t, c, dialect, mode, nil, changes...)
}

// RaiseGated is Raise with a Gate for each of some daemons.
func RaiseGated(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, mode string, daemons []string, changes ...func(*mesh.Options)) *Site {
	t.Helper()
	s := prepare(t, c, mode)
	for _, daemon := range daemons {
		s.Gates[daemon] = NewGate(t, c)
	}
	s.standIns(dialect)
	s.run(changes)
	s.connect()
	return s
}

func prepare(t testing.TB, c *cluster.Cluster, mode string) *Site {
	t.Helper()
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	short := hex.EncodeToString(b)
	s := &Site{
		Cluster: c, GatewayID: "gw-" + short, Label: "portcullis.test/" + short + "=allowed", Mode: mode, Faults: new(agentsandbox.Faults),
		Gates: map[string]*Gate{}, Shared: "lc-" + short + "-shared", t: t, prefix: "lc-" + short + "-",
	}
	var ring credentials.Ring
	ring, err := ring.Rotated()
	s.must("make the gateway's keys", err)
	s.authority, err = credentials.New(s.GatewayID, ring, time.Now)
	s.must("make the gateway's authority", err)
	return s
}

// standIns are the controller and the Pods. They end after the mesh does.
func (s *Site) standIns(dialect reconcile.Dialect) {
	s.t.Helper()
	managed := "openshell-" + s.GatewayID + "-"
	owns := func(namespace string) bool {
		return agentsandbox.NamespacePrefix(s.prefix)(namespace) || agentsandbox.NamespacePrefix(managed)(namespace)
	}
	s.Pods = poddriver.Start(s.t, s.Cluster.RESTConfig(), poddriver.Config{Owns: owns})
	agentsandbox.Start(s.t, s.Cluster.RESTConfig(), agentsandbox.Config{Owns: owns, Dialect: dialect, Faults: s.Faults})
	s.Namespace(s.Shared, nil)
}

func (s *Site) run(changes []func(*mesh.Options)) {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "lc") // the path of a socket must be short
	s.must("make a directory", err)
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	options := mesh.Options{
		Cluster: s.Cluster.RESTConfig(), Dir: dir, Manifests: filepath.Join("..", "..", "deploy", "kustomize", "base"),
		Programs:  map[string]string{mesh.NATS: cluster.Build(s.t, mesh.NATS, "test", "github.com/nats-io/nats-server/v2")},
		Namespace: s.prefix + "portcullis", Mode: s.Mode, GatewayID: s.GatewayID, Label: s.Label, SandboxNamespace: s.Shared,
		SupervisorImage: "registry.example/supervisor:1", RuntimeImage: "registry.example/runtime:1", DefaultImage: "registry.example/agent:1",
		Endpoint: "https://gateway.example:8080", Log: s.t.Logf,
	}
	for _, daemon := range mesh.Daemons() {
		options.Programs[daemon] = program.Path(s.t, daemon)
	}
	for _, change := range changes {
		change(&options)
	}
	s.Mesh, err = mesh.New(options)
	s.must("prepare the mesh", err)
	s.t.Cleanup(s.end)
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	if len(s.Gates) == 0 {
		s.must("start the mesh", s.Mesh.Start(ctx))
		return
	}
	s.must("prepare the mesh", s.Mesh.Prepare(ctx))
	for daemon, gate := range s.Gates {
		s.must("lead "+daemon+" through a gate", redirect(filepath.Join(dir, daemon, "kubeconfig"), gate.proxy.Address(), gate.proxy.Authority()))
	}
	for _, daemon := range mesh.Daemons() {
		if daemon != mesh.Nswatch || s.Mode == "operator" {
			s.must("start "+daemon, s.Mesh.Run(ctx, daemon))
		}
	}
}

// Direct starts daemons that are behind a Gate again, without it.
func (s *Site) Direct(daemons ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	rc := s.Cluster.RESTConfig()
	for _, daemon := range daemons {
		s.must("stop "+daemon, s.Mesh.Process(daemon).Stop())
		path := filepath.Join(filepath.Dir(s.Mesh.Settings(daemon)), "kubeconfig")
		s.must("lead "+daemon+" past its gate", redirect(path, rc.Host, rc.CAData))
		s.must("start "+daemon, s.Rerun(ctx, daemon))
	}
}

// Rerun starts a daemon that has ended. What the one before it wrote is put aside: its addresses are in it.
func (s *Site) Rerun(ctx context.Context, daemon string) error {
	log := filepath.Join(filepath.Dir(s.Mesh.Settings(daemon)), daemon+".log")
	s.runs++
	if err := os.Rename(log, fmt.Sprintf("%s.%d", log, s.runs)); err != nil {
		return fmt.Errorf("put the log of %s aside: %w", daemon, err)
	}
	return s.Mesh.Run(ctx, daemon)
}

func (s *Site) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	if err := s.Mesh.Stop(); err != nil {
		s.t.Errorf("stop the mesh: %v", err)
	}
	if err := s.Mesh.Remove(ctx); err != nil {
		s.t.Errorf("remove the mesh: %v", err)
	}
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
	s.SetLabel(name, true)
	return name
}

// NamespaceOf is where the sandboxes of a workspace are.
func (s *Site) NamespaceOf(workspace string) string {
	switch s.Mode {
	case "operator":
		return workspace
	case "managed":
		return "openshell-" + s.GatewayID + "-" + workspace
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
	s.epoch++
	bundle, err := s.authority.Bundle(credentials.Run{SandboxID: id, SessionID: uuid(), Generation: "g0000000000000001", Rotation: 1, AuthEpoch: s.epoch})
	s.must("make a launch bundle", err)
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
