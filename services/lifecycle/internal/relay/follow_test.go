package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/relay"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
)

// following runs a Follower of the two's relay, and returns where its attempts to leave are told.
func (w *pair) following(t *testing.T) (left <-chan bool) {
	t.Helper()
	told := make(chan bool, 16)
	f := must[*relay.Follower](t)(relay.NewFollower(relay.Following{
		Backend: w.up, Patience: 10 * time.Millisecond,
		Others: func() (*grpc.ClientConn, error) {
			return w.mesh.NewClient(meshrpc.Target{Daemon: "lifecycle", Address: w.address})
		},
		Leave: func() bool { did := w.sticky.Leave(); told <- did; return did },
	}, zerolog.Nop()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return told
}

func (r *replica) ready(yes bool) {
	now := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if yes {
		now = grpc_health_v1.HealthCheckResponse_SERVING
	}
	r.health.SetServingStatus("", now)
}

// A replica that can be reached and cannot answer is left for one that can; and only then.
func TestReplicaIsNotReady(t *testing.T) {
	w := two(t)
	ctx := bounded(t)
	w.other.ready(false)
	left := w.following(t)
	watch := must[grpc.ServerStreamingClient[computev1.WatchSandboxesEvent]](t)(w.client.WatchSandboxes(ctx, new(computev1.WatchSandboxesRequest)))
	must[*computev1.WatchSandboxesEvent](t)(watch.Recv())
	w.chosen.ready(false)
	for asked := w.other.asked.Load(); w.other.asked.Load() < asked+3; { // the other was asked, and is not ready either
		must[*computev1.GetSandboxResponse](t)(w.client.GetSandbox(ctx, new(computev1.GetSandboxRequest)))
	}
	if n := w.other.driver.calls.Load(); n != 0 || len(left) != 0 {
		t.Fatalf("while none is ready the other had %d calls, and the first was left %d times", n, len(left))
	}
	w.other.ready(true)
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
	if !within(t, left) {
		t.Error("the replica was not left")
	}
	const calls = 5
	for range calls {
		must[*computev1.GetSandboxResponse](t)(w.client.GetSandbox(ctx, new(computev1.GetSandboxRequest)))
	}
	if n := w.other.driver.calls.Load(); n != calls {
		t.Errorf("the one that is ready had %d of %d calls", n, calls)
	}
	// And back, when it is the other way round.
	w.chosen.ready(true)
	w.other.ready(false)
	if !within(t, left) {
		t.Error("the second was not left")
	}
}

func TestFollowerNeedsItsParts(t *testing.T) {
	valid := relay.Following{
		Backend: new(grpc.ClientConn), Patience: time.Second, Leave: func() bool { return false },
		Others: func() (*grpc.ClientConn, error) { return nil, nil },
	}
	if _, err := relay.NewFollower(valid, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*relay.Following){
		"no connection":       func(f *relay.Following) { f.Backend = nil },
		"no others":           func(f *relay.Following) { f.Others = nil },
		"nothing to leave by": func(f *relay.Following) { f.Leave = nil },
		"no patience":         func(f *relay.Following) { f.Patience = 0 },
	} {
		f := valid
		spoil(&f)
		if _, err := relay.NewFollower(f, zerolog.Nop()); err == nil {
			t.Errorf("%s: it is made", name)
		}
	}
}
