package e2e_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/settings"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// house is everything at once, in operator mode: the reference gateway, the four daemons with the rights that are shipped, and
// sandboxes that really run. Its workspaces are apart from each other, and its methods are safe for concurrent use.
type house struct {
	c       *cluster.Cluster
	mesh    *mesh.Mesh // nil when the daemons run in Pods
	gateway users
	// log are the lines of a daemon that are meant, of all its replicas, the oldest first.
	log func(daemon string, meant func(entry map[string]any) bool) []map[string]any
	// driver is the private socket, for what a gateway does not ask.
	driver computev1.ComputeDriverClient
	prefix string // of its namespaces
	key    string // of the label that makes one of them a workspace
	// prepare does in a namespace what belongs there before its first sandbox; nil where nothing does.
	prepare func(t testing.TB, namespace string)
	// list makes a namespace a workspace, or no longer; nil where its label decides.
	list func(t testing.TB, namespace string, on bool)
	// placed is where a sandbox is that does not have its own name in the namespace of its workspace's name; nil in operator mode.
	placed func(workspace, sandbox string) (namespace, name string)
}

// place is the namespace of a sandbox and the name of its object there (contract 4.1).
func (h *house) place(workspace, sandbox string) (namespace, name string) {
	if h.placed == nil {
		return workspace, sandbox
	}
	return h.placed(workspace, sandbox)
}

// users is what users ask of a gateway, wherever it runs.
type users interface {
	EnsureWorkspace(ctx context.Context, name string) error
	DeleteWorkspace(ctx context.Context, name string) error
	Create(ctx context.Context, w gateway.Wish) (gateway.Sandbox, error)
	Start(ctx context.Context, id string) (gateway.Sandbox, error)
	Stop(ctx context.Context, id string) error
	Delete(ctx context.Context, id string) error
	Get(id string) (gateway.Sandbox, error)
	Find(workspace, name string) (gateway.Sandbox, error)
	AwaitPhase(ctx context.Context, id string, wanted ...phase.Phase) (gateway.Sandbox, error)
	AwaitRemoved(ctx context.Context, id string) error
	Exec(ctx context.Context, id string, command []string, stdin []byte) (gatewayside.Output, error)
	// Drop ends the session of the sandbox's supervisor, which is waited for.
	Drop(ctx context.Context, id string) error
	// Subscribe follows what happens from now on.
	Subscribe() subscription
}

// subscription is the gateway's, wherever that runs.
type subscription interface {
	Await(ctx context.Context, fits func(gateway.Event) bool) (gateway.Event, error)
	Close()
}

// here is a gateway in this process.
type here struct{ *gateway.Gateway }

func (g here) Subscribe() subscription { return g.Gateway.Subscribe() }

func (g here) Drop(ctx context.Context, id string) error {
	session, err := g.Session(ctx, id)
	if err == nil {
		session.Drop()
	}
	return err
}

func newHouse(t testing.TB) *house {
	t.Helper()
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	h := &house{c: cluster.Start(t, cluster.Node), prefix: "e2e-" + hex.EncodeToString(id) + "-"}
	h.key = h.prefix + "test/workspace"
	dir, err := os.MkdirTemp("", "house") // the path of a socket must be short
	noError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	images := loadImages(t, h.c)
	agentsandbox.Start(t, h.c.RESTConfig(), agentsandbox.Config{Owns: agentsandbox.NamespacePrefix(h.prefix), Dialect: reconcile.Newest()})
	supervisors := listen(t, cluster.HostAddress)
	options := mesh.Options{
		Cluster: h.c.RESTConfig(), Dir: dir, Manifests: filepath.Join("..", "..", "deploy", "kustomize", "base"),
		Programs:  map[string]string{mesh.NATS: cluster.Build(t, mesh.NATS, "test", "github.com/nats-io/nats-server/v2")},
		Namespace: h.prefix + "mesh", SandboxNamespace: h.prefix + "mesh", Mode: "operator", GatewayID: "gw-" + hex.EncodeToString(id),
		Label: h.key + "=allowed", SupervisorImage: images.Supervisor, RuntimeImage: images.Runtime, DefaultImage: images.Workload,
		Endpoint: "http://" + supervisors.Addr().String(), Stock: []string{"allow_driver_config = true"}, Log: t.Logf,
	}
	for _, daemon := range mesh.Daemons() {
		options.Programs[daemon] = program.Path(t, daemon)
	}
	h.mesh, err = mesh.New(options)
	noError(t, err)
	h.log = func(daemon string, meant func(map[string]any) bool) []map[string]any {
		return h.mesh.Process(daemon).Entries(meant)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), upLimit)
		defer cancel()
		if err := errors.Join(h.mesh.Stop(), h.mesh.Remove(ctx)); err != nil {
			t.Error(err)
		}
	})
	noError(t, h.mesh.Start(t.Context()))
	h.open(t, options.GatewayID, filepath.Join(dir, "records.db"), supervisors)
	return h
}

// open runs the gateway, which supervisors find at the listener.
func (h *house) open(t testing.TB, id, path string, supervisors net.Listener) {
	t.Helper()
	stock, err := settings.Load(h.mesh.Settings(mesh.Lifecycle), "kubernetes")
	noError(t, err)
	records, err := record.Open(path, record.Options{NoSync: true})
	noError(t, err)
	t.Cleanup(func() { _ = records.Close() })
	g, err := gateway.New(gateway.Config{
		Socket: h.mesh.Socket(), DriverName: "kubernetes", Policy: stock.Policy, GatewayID: id, Log: zerolog.New(zerolog.NewTestWriter(t)),
	}, records)
	noError(t, err)
	server := grpc.NewServer(gateway.ServerOption()...)
	g.Register(server)
	h.gateway = here{g}
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(supervisors) }()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ran <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		server.Stop()
		<-served
		if err := <-ran; err != nil {
			t.Errorf("the gateway: %v", err)
		}
	})
	conn, err := udsock.NewClient(h.mesh.Socket())
	noError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	h.driver = computev1.NewComputeDriverClient(conn)
	select {
	case <-g.Ready():
	case err := <-ran:
		ran <- nil
		t.Fatalf("the gateway ended: %v", err)
	case <-time.After(upLimit):
		t.Fatal("the gateway does not reach the driver")
	}
}

// namespace makes one whose Pods must be as PodSecurity "restricted" demands. It is no workspace yet.
func (h *house) namespace(t testing.TB, name string) string {
	t.Helper()
	name = h.prefix + name
	client := h.c.Client().CoreV1()
	_, err := client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: restricted}}, metav1.CreateOptions{})
	noError(t, err)
	t.Cleanup(func() {
		if err := client.Namespaces().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	cluster.Eventually(t, "Pods can be made in "+name, func(ctx context.Context) error {
		_, err := client.ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if h.prepare != nil {
		h.prepare(t, name)
	}
	return name
}

// workspace makes one that may be used.
func (h *house) workspace(t testing.TB, name string) string {
	t.Helper()
	ns := h.namespace(t, name)
	h.admit(t, ns, true)
	h.awaitAllowed(t, ns)
	return ns
}

// admit has a namespace be a workspace from now on, or no longer: where nothing else decides it puts the label on it or takes that away.
func (h *house) admit(t testing.TB, namespace string, on bool) {
	t.Helper()
	if h.list != nil {
		h.list(t, namespace, on)
		return
	}
	value := `"allowed"`
	if !on {
		value = "null"
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, h.key, value)
	_, err := h.c.Client().CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	noError(t, err)
}

func (h *house) awaitAllowed(t testing.TB, namespace string) {
	t.Helper()
	cluster.Eventually(t, "workspace "+namespace+" may be used", func(ctx context.Context) error { return h.gateway.EnsureWorkspace(ctx, namespace) })
}

// wish is a sandbox that runs until it is stopped. The volume of its workspace is made, which no provisioner does here.
func (h *house) wish(t testing.TB, workspace, name string) gateway.Wish {
	t.Helper()
	namespace, object := h.place(workspace, name)
	volume(t, h.c, namespace, "workspace-"+object)
	return gateway.Wish{Workspace: workspace, Name: name, Spec: &computev1.DriverSandboxSpec{
		LogLevel: "info", Command: companions.Workload("sleep"), Template: &computev1.DriverSandboxTemplate{},
	}}
}

// create makes a sandbox and waits until it is Ready.
func (h *house) create(t testing.TB, w gateway.Wish) (gateway.Sandbox, error) {
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	s, err := h.gateway.Create(ctx, w)
	if err != nil {
		return s, fmt.Errorf("create %s: %w", w.Name, err)
	}
	return h.await(ctx, s.ID, phase.Ready)
}

// await waits for a phase.
func (h *house) await(ctx context.Context, id string, wanted phase.Phase) (gateway.Sandbox, error) {
	s, err := h.gateway.AwaitPhase(ctx, id, wanted)
	if err != nil {
		last, _ := h.gateway.Get(id)
		err = fmt.Errorf("sandbox %s should be %s: %w: it is %s: %+v", id, wanted, err, last.Phase, last.Conditions)
	}
	return s, err
}

// does runs a workload's command in a sandbox and returns its output.
func (h *house) does(t testing.TB, id string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	out, err := h.gateway.Exec(ctx, id, companions.Workload(args...), nil)
	if err != nil || out.Exit.Code != 0 {
		t.Fatalf("%v in sandbox %s: %v, exit %+v, %s", args, id, err, out.Exit, out.Stderr)
	}
	return strings.TrimSpace(string(out.Stdout))
}

// said are a daemon's lines with the message about the namespace.
func (h *house) said(daemon, message, namespace string) []map[string]any {
	return h.log(daemon, func(entry map[string]any) bool {
		return entry["message"] == message && strings.Contains(fmt.Sprint(entry["error"], entry["explanation"]), fmt.Sprintf("namespace %q", namespace))
	})
}

// demandExplained demands a line beyond the former ones with the reason, and that it says which state of the list was the ground.
func (h *house) demandExplained(t testing.TB, daemon, message, namespace string, former []map[string]any, reason string) {
	t.Helper()
	cluster.Eventually(t, daemon+" logs why", func(context.Context) error {
		lines := h.said(daemon, message, namespace)
		if len(lines) <= len(former) {
			return errors.New("it has not")
		}
		last := lines[len(lines)-1]
		text := fmt.Sprint(last["error"], last["explanation"])
		if last["reason"] != reason || !strings.Contains(text, "epoch ") || !strings.Contains(text, "revision ") || !strings.Contains(text, "age ") {
			return fmt.Errorf("it says %v", last)
		}
		return nil
	})
}

// remove deletes a sandbox, whatever its phase, and demands that nothing of it is left.
func (h *house) remove(t testing.TB, s gateway.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	noError(t, h.gateway.Delete(ctx, s.ID))
	noError(t, h.gateway.AwaitRemoved(ctx, s.ID))
	namespace, name := h.place(s.Workspace, s.Name)
	h.awaitNothing(t, namespace, s.ID, name)
}

// awaitNothing waits until no object of a sandbox is there.
func (h *house) awaitNothing(t testing.TB, namespace, id, name string) {
	t.Helper()
	core := h.c.Client().CoreV1()
	cluster.Eventually(t, "nothing is left of "+name, func(ctx context.Context) error {
		var left []string
		_, err := h.c.Dynamic().Resource(api.V1beta1.Resource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			left = append(left, "Sandbox "+name)
		case !apierrors.IsNotFound(err):
			return err
		}
		pods, err1 := core.Pods(namespace).List(ctx, metav1.ListOptions{})
		secrets, err2 := core.Secrets(namespace).List(ctx, metav1.ListOptions{})
		services, err3 := core.Services(namespace).List(ctx, metav1.ListOptions{})
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Name == name || strings.Contains(pod.Name, id) {
				left = append(left, "Pod "+pod.Name)
			}
		}
		for _, secret := range secrets.Items {
			if strings.Contains(secret.Name, id) {
				left = append(left, "Secret "+secret.Name)
			}
		}
		for _, service := range services.Items {
			if strings.Contains(service.Name, id) {
				left = append(left, "Service "+service.Name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
}
