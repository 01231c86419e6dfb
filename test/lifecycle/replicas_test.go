//go:build portcullis_long

package lifecycle_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// socket is a path short enough for one.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "d", "driver.sock")
}

func dial(t *testing.T, path string) computev1.ComputeDriverClient {
	t.Helper()
	conn, err := udsock.NewClient(path)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return computev1.NewComputeDriverClient(conn)
}

// contested are the codes with which a call may lose against another on the same sandbox (contract 2.7).
var contested = map[codes.Code]bool{
	codes.OK: true, codes.FailedPrecondition: true, codes.Unavailable: true, codes.Internal: true, codes.NotFound: true, codes.AlreadyExists: true, codes.Aborted: true,
}

// TestReplicas: two lifecycles, each beside a gateway of the same id, do the same to the same sandboxes at the same time. There is never
// more than one object of a sandbox, exactly one create is granted, and nothing is left in the end.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := lifecycle.Raise(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest(), "shared")
	text, err := os.ReadFile(s.Mesh.Settings(mesh.Lifecycle))
	must(t, err)
	path := socket(t)
	second := program.Start(t, mesh.Lifecycle, strings.ReplaceAll(string(text), s.Mesh.Socket(), path))
	second.AwaitReady()
	replicas := []computev1.ComputeDriverClient{s.Driver, dial(t, path)}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wishes []*computev1.DriverSandbox
	bundles := map[string][][]byte{}
	for n := range 3 {
		wish := s.Wish("team", fmt.Sprintf("shared-%d", n))
		wishes = append(wishes, wish)
		for range 2 * len(replicas) {
			bundles[wish.GetId()] = append(bundles[wish.GetId()], s.Bundle(wish.GetId()))
		}
	}
	most := count(ctx, t, s)
	var running sync.WaitGroup
	for _, wish := range wishes {
		running.Go(func() { contend(ctx, t, replicas, wish, bundles[wish.GetId()]) })
	}
	running.Wait()
	if n := most(); n > 1 {
		t.Errorf("there were %d objects of one sandbox", n)
	}
	for _, wish := range wishes {
		s.Eventually("nothing is left", func() error {
			return nothingLeft(ctx, s, s.Shared, wish.GetId(), wish.GetName())
		})
	}
}

// both has each replica make a call at the same time.
func both(t *testing.T, what string, replicas []computev1.ComputeDriverClient, call func(int, computev1.ComputeDriverClient) error) (granted int) {
	errs := make([]error, len(replicas))
	var running sync.WaitGroup
	for k, replica := range replicas {
		running.Go(func() { errs[k] = call(k, replica) })
	}
	running.Wait()
	for _, err := range errs {
		if !contested[status.Code(err)] {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			granted++
		}
	}
	return granted
}

// contend leads one sandbox through its life, every call twice at once.
func contend(ctx context.Context, t *testing.T, replicas []computev1.ComputeDriverClient, wish *computev1.DriverSandbox, bundles [][]byte) {
	identity := make([]string, len(replicas))
	granted := both(t, "create", replicas, func(k int, to computev1.ComputeDriverClient) error {
		made, err := to.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
		identity[k] = made.GetRuntimeIdentity()
		return err
	})
	if granted != 1 {
		t.Errorf("%d creates of one sandbox were granted", granted)
		return
	}
	last := identity[0] + identity[1]
	for round := range 2 {
		both(t, "stop", replicas, func(_ int, to computev1.ComputeDriverClient) error {
			_, err := to.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
			return err
		})
		both(t, "start", replicas, func(k int, to computev1.ComputeDriverClient) error {
			started, err := to.StartSandbox(ctx, &computev1.StartSandboxRequest{
				SandboxId: wish.GetId(), GenerationId: fmt.Sprintf("g%015d%d", round, k), LaunchAuthentication: bundles[2*round+k], ExpectedRuntimeIdentity: last,
			})
			identity[k] = started.GetRuntimeIdentity()
			return err
		})
		for _, text := range identity {
			if text != "" {
				last = text
			}
		}
	}
	both(t, "delete", replicas, func(_ int, to computev1.ComputeDriverClient) error {
		_, err := to.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
		return err
	})
}

// TestRelay: a sandbox lives through a relay as it does at the socket; a lifecycle that dies is refused as something that may pass, and
// calls come back when there is another.
func TestRelay(t *testing.T) {
	t.Parallel()
	ours := meshtest.NewCA(t)
	address := freeAddress(t)
	s := lifecycle.Raise(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest(), "shared", func(o *mesh.Options) {
		o.Extra = map[string][]string{mesh.Lifecycle: {fmt.Sprintf("relay_listen_address = %q", address)}}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// The mesh makes no certificate for a relay: it has one of an authority that lifecycle trusts, too.
	home := filepath.Dir(s.Mesh.Settings(mesh.Lifecycle))
	theirs, err := os.ReadFile(filepath.Join(home, "ca.crt"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(home, "ca.crt"), slices.Concat(theirs, ours.PEM), 0o600))
	restart := func() {
		s.Mesh.Kill(mesh.Lifecycle)
		must(t, s.Mesh.Run(ctx, mesh.Lifecycle))
	}
	restart()
	files := meshtest.NewFiles(t, ours, "relay")
	content := files.Read(t)
	content.CA = slices.Concat(theirs, ours.PEM) // a certificate that its own authorities do not vouch for is refused at once
	files.Replace(t, content)
	path := socket(t)
	log := runRelay(t, fmt.Sprintf("[openshell.drivers.kubernetes]\nsocket_path = %q\n\n[portcullis.relay]\nhttp_address = \"127.0.0.1:0\"\nlifecycle_address = %q\n\n"+
		"[portcullis.mesh]\ncert_file = %q\nkey_file = %q\nca_file = %q\n", path, address, files.Cert, files.Key, files.CA))
	s.Driver = dial(t, path)
	s.Eventually("the relay passes calls on", func() error {
		if _, err := s.Driver.GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{Gateway: lifecycle.Gateway()}); err != nil {
			return fmt.Errorf("%w\n%s", err, log())
		}
		return nil
	})
	wish := s.Wish("team", "relayed")
	made, err := s.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	f := follow(t, s)
	f.demand(t, "it is ready", func() bool { return f.ready[wish.GetId()] })
	if _, err := s.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second create: %v", err)
	}
	s.Mesh.Kill(mesh.Lifecycle)
	if _, err := s.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("without lifecycle a list answers %v", err)
	}
	cluster.Eventually(t, "the stream ends", func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.ended == nil {
			return fmt.Errorf("it goes on")
		}
		if code := status.Code(f.ended); code != codes.Unavailable {
			t.Errorf("the stream ended with %v", f.ended)
		}
		return nil
	})
	must(t, s.Mesh.Run(ctx, mesh.Lifecycle))
	s.Eventually("calls come back", func() error {
		_, err := s.Driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
		return err
	})
	started, err := s.Driver.StartSandbox(ctx, &computev1.StartSandboxRequest{
		SandboxId: wish.GetId(), GenerationId: "g0000000000000001", LaunchAuthentication: s.Bundle(wish.GetId()), ExpectedRuntimeIdentity: made.GetRuntimeIdentity(),
	})
	if err != nil || started.GetRuntimeIdentity() == made.GetRuntimeIdentity() {
		t.Fatalf("started as %q, error %v", started.GetRuntimeIdentity(), err)
	}
	again := follow(t, s)
	again.demand(t, "it is ready again", func() bool { return again.ready[wish.GetId()] })
	_, err = s.Driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	s.Eventually("nothing is left", func() error { return nothingLeft(ctx, s, s.Shared, wish.GetId(), wish.GetName()) })
}

// runRelay runs a relay until the test ends, and says what it has written so far.
func runRelay(t *testing.T, settings string) func() string {
	t.Helper()
	command := program.Command(t, mesh.Lifecycle, "relay", "--config", program.Settings(t, settings))
	log := new(written)
	command.Stderr, command.Stdout = log, log
	must(t, command.Start())
	t.Cleanup(func() { stop(command) })
	return log.String
}

func stop(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait()
}

// written is a log that is read while it is written.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// count looks all the time how many objects each sandbox has; most ends that and is the highest number.
func count(ctx context.Context, t *testing.T, s *lifecycle.Site) (most func() int) {
	t.Helper()
	w, err := s.Cluster.Dynamic().Resource(boxes).Namespace(s.Shared).Watch(ctx, metav1.ListOptions{})
	must(t, err)
	highest, there := 0, map[string]map[string]bool{}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range w.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			id := object.GetLabels()[workspace.LabelSandboxID]
			if there[id] == nil {
				there[id] = map[string]bool{}
			}
			there[id][string(object.GetUID())] = true
			if event.Type == watch.Deleted {
				delete(there[id], string(object.GetUID()))
			}
			highest = max(highest, len(there[id]))
		}
	})
	return func() int {
		w.Stop()
		running.Wait()
		return highest
	}
}
