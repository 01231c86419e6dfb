package relay_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/relay"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// replica answers everything, tells of itself on a watch, and holds the calls for one sandbox until it is let go or dies.
type replica struct {
	*site
	entered, letGo chan struct{}
}

const held = "held"

func newReplica(t *testing.T, ca *meshtest.CA, name string) *replica {
	t.Helper()
	r := &replica{entered: make(chan struct{}, 1), letGo: make(chan struct{})}
	r.site = &site{target: "127.0.0.1:0", mesh: member(t, ca, "lifecycle", nil), health: health.NewServer(), driver: &driver{
		ended: make(chan error, 1),
		get: func(ctx context.Context, in *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
			if in.GetSandboxId() == held {
				r.entered <- struct{}{}
				select {
				case <-r.letGo:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return &computev1.GetSandboxResponse{Sandbox: &computev1.DriverSandbox{Name: name}}, nil
		},
		watch: func(s grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
			err := s.Send(&computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Deleted{
				Deleted: &computev1.WatchSandboxesDeletedEvent{SandboxId: name},
			}})
			if err != nil {
				return err
			}
			<-s.Context().Done()
			return s.Context().Err()
		},
	}}
	r.startDriver(t)
	return r
}

// pair are a relay's client, the replica that it has chosen, and the other.
type pair struct {
	client        computev1.ComputeDriverClient
	chosen, other *replica
	sticky        *meshrpc.Sticky
	up            *grpc.ClientConn
	mesh          *meshrpc.Mesh
	address       string
}

func two(t *testing.T) *pair {
	t.Helper()
	ca := meshtest.NewCA(t)
	w := &pair{chosen: newReplica(t, ca, "one"), other: newReplica(t, ca, "another"), sticky: new(meshrpc.Sticky), mesh: member(t, ca, "relay", nil)}
	w.address = w.chosen.target + "," + w.other.target
	w.up = must[*grpc.ClientConn](t)(w.mesh.NewClient(meshrpc.Target{Daemon: "lifecycle", Address: w.address, Sticky: w.sticky}))
	t.Cleanup(func() { _ = w.up.Close() })
	front := new(site)
	front.serveRelay(t, must[*relay.Relay](t)(relay.New(w.up, w.address, nil)))
	w.client = front.client(t, contract.OpenShell)
	if must[*computev1.GetSandboxResponse](t)(w.client.GetSandbox(bounded(t), new(computev1.GetSandboxRequest))).GetSandbox().GetName() != "one" {
		w.chosen, w.other = w.other, w.chosen
	}
	return w
}

// What a gateway gets when the replica dies that has all its calls: the call under way fails once and is not made again, the watch ends so
// that it is begun anew, and everything after is the other's, without a refusal.
func TestReplicaDies(t *testing.T) {
	w := two(t)
	client, chosen, other := w.client, w.chosen, w.other
	ctx := bounded(t)
	watch := must[grpc.ServerStreamingClient[computev1.WatchSandboxesEvent]](t)(client.WatchSandboxes(ctx, new(computev1.WatchSandboxesRequest)))
	must[*computev1.WatchSandboxesEvent](t)(watch.Recv())
	lost := make(chan error, 1)
	go func() {
		_, err := client.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: held})
		lost <- err
	}()
	within(t, chosen.entered)
	if n := other.driver.calls.Load(); n != 0 {
		t.Fatalf("the other replica had %d calls before the first died", n)
	}
	chosen.stopDriver()
	if err := within(t, lost); status.Code(err) != codes.Unavailable {
		t.Errorf("the call under way ended with %v", err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
	if n := other.driver.calls.Load(); n != 0 {
		t.Errorf("a call of the first was made again: the other replica had %d calls", n)
	}
	for range 3 {
		must[*computev1.GetSandboxResponse](t)(client.GetSandbox(ctx, new(computev1.GetSandboxRequest)))
	}
	again := must[grpc.ServerStreamingClient[computev1.WatchSandboxesEvent]](t)(client.WatchSandboxes(ctx, new(computev1.WatchSandboxesRequest)))
	must[*computev1.WatchSandboxesEvent](t)(again.Recv())
	if n := other.driver.calls.Load(); n != 4 {
		t.Errorf("the other replica had %d calls of 4", n)
	}
}

// A replica that is told to stop completes what it has, and new calls are the other's meanwhile.
func TestReplicaStops(t *testing.T) {
	w := two(t)
	client, chosen, other := w.client, w.chosen, w.other
	ctx := bounded(t)
	answered := make(chan error, 1)
	go func() {
		_, err := client.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: held})
		answered <- err
	}()
	within(t, chosen.entered)
	stopped := make(chan struct{})
	go func() { defer close(stopped); chosen.running.GracefulStop() }()
	for other.driver.calls.Load() == 0 { // until the relay knows of it
		must[*computev1.GetSandboxResponse](t)(client.GetSandbox(ctx, new(computev1.GetSandboxRequest)))
	}
	close(chosen.letGo)
	if err := within(t, answered); err != nil {
		t.Errorf("the call under way ended with %v", err)
	}
	within(t, stopped)
}

// A replica that comes back while the other serves does not get the calls back: what the gateway was told by one, it is not asked of two.
func TestReplicaComesBack(t *testing.T) {
	w := two(t)
	client, chosen, other := w.client, w.chosen, w.other
	chosen.stopDriver()
	goesOver(t, client)
	before, there := chosen.driver.calls.Load(), other.driver.calls.Load()
	chosen.startDriver(t)
	const calls = 20
	for range calls {
		must[*computev1.GetSandboxResponse](t)(client.GetSandbox(bounded(t), new(computev1.GetSandboxRequest)))
	}
	if back, stayed := chosen.driver.calls.Load()-before, other.driver.calls.Load()-there; back != 0 || stayed != calls {
		t.Errorf("the one that came back had %d of %d calls", back, calls)
	}
	other.stopDriver()
	goesOver(t, client)
	if chosen.driver.calls.Load() == before {
		t.Error("the one that came back was not called when it was alone")
	}
}

// goesOver waits until a call is answered. Until the relay knows that a connection is closed it sends calls there, and cannot know what became
// of them.
func goesOver(t *testing.T, client computev1.ComputeDriverClient) {
	t.Helper()
	for ctx := bounded(t); ; {
		_, err := client.GetSandbox(ctx, new(computev1.GetSandboxRequest))
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
