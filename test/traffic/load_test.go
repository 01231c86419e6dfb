package traffic_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
	"github.com/portcullis-mesh/portcullis/test/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a driver with one resident, and a load of every kind for it.
type scene struct {
	*scripted.Driver
	load  traffic.Load
	lives atomic.Int64
}

func begin(t *testing.T) *scene {
	t.Helper()
	s := &scene{Driver: scripted.Start(t)}
	conn, err := udsock.NewClient(s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	client := computev1.NewComputeDriverClient(conn)
	const resident = "resident"
	made, err := client.CreateSandbox(companionstest.Limit(t), &computev1.CreateSandboxRequest{Sandbox: &computev1.DriverSandbox{Id: resident, Name: "n", Workspace: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	wish := func() *computev1.DriverSandbox {
		n := s.lives.Add(1)
		return &computev1.DriverSandbox{Id: fmt.Sprintf("visitor-%d", n), Name: "v", Workspace: "w"}
	}
	s.load = traffic.Load{
		Driver: client, Gateway: driver.Gateway("1"), Residents: []string{resident}, Pace: time.Millisecond,
		Bearers: []traffic.Bearer{{Standing: traffic.Allowed, Sandbox: resident, Identity: made.GetRuntimeIdentity(), Credential: scripted.Bearer(resident)}},
		Churns: []traffic.Churn{{
			Standing: traffic.Allowed, Wish: wish, Bundle: func(string) []byte { return []byte("{}") },
			Left: func(_ context.Context, of *computev1.DriverSandbox) []string {
				if s.Has(of.GetId()) {
					return []string{of.GetId()}
				}
				return nil
			},
		}},
	}
	return s
}

// run makes requests until a few sandboxes have lived.
func (s *scene) run(t *testing.T) []traffic.Request {
	t.Helper()
	ctx, cancel := context.WithCancel(companionstest.Limit(t))
	defer cancel()
	done := make(chan []traffic.Request, 1)
	go func() { done <- s.load.Run(ctx) }()
	const lives = 3
	s.AwaitCalls(ctx, "DeleteSandbox", lives)
	cancel()
	return <-done
}

// kinds are those of the faults, each once.
func kinds(requests []traffic.Request) []traffic.Kind {
	found := map[traffic.Kind]bool{}
	for _, f := range traffic.Judge(requests) {
		found[f.Kind] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func TestLoad(t *testing.T) {
	t.Parallel()
	s := begin(t)
	requests := s.run(t)
	if found := traffic.Judge(requests); len(found) > 0 {
		t.Errorf("a driver that does all is found faulty: %v", found)
	}
	tally := traffic.Count(requests)
	for _, call := range slices.Sorted(maps.Keys(good())) {
		if tally[call] == nil {
			t.Errorf("%s was not made", call)
		}
	}
	if s.Watches() != 1 {
		t.Errorf("%d watches for one that did not end", s.Watches())
	}
}

func TestLoadFindsFaults(t *testing.T) {
	t.Parallel()
	unavailable := scripted.Fail(codes.Unavailable, "not now")
	for name, c := range map[string]struct {
		harm func(*scene)
		want []traffic.Kind
	}{
		"what is made again succeeds": {func(s *scene) {
			for _, method := range []string{"GetSandbox", "ListSandboxes", "StopSandbox", "DeleteSandbox", "AuthenticateSandbox", "WatchSandboxes"} {
				s.Script(method, unavailable)
			}
		}, nil},
		"a create is refused":      {func(s *scene) { s.Script("CreateSandbox", unavailable) }, []traffic.Kind{traffic.Lost}},
		"capabilities are refused": {func(s *scene) { s.Script("GetCapabilities", unavailable) }, []traffic.Kind{traffic.Lost}},
		"a start is refused":       {func(s *scene) { s.Script("StartSandbox", unavailable) }, []traffic.Kind{traffic.Lost}},
		"a resident is not found":  {func(s *scene) { s.Script("GetSandbox", scripted.Fail(codes.NotFound, "it is not there")) }, []traffic.Kind{traffic.WrongNo}},
		"a bearer is refused":      {func(s *scene) { s.Script("AuthenticateSandbox", scripted.Fail(codes.PermissionDenied, "no")) }, []traffic.Kind{traffic.WrongNo}},
		"a bearer is barred":       {func(s *scene) { s.load.Bearers[0].Standing = traffic.Barred }, []traffic.Kind{traffic.WrongGrant}},
		"the namespace is barred":  {func(s *scene) { s.load.Churns[0].Standing = traffic.Barred }, []traffic.Kind{traffic.WrongGrant}},
		"a resident is not listed": {func(s *scene) {
			s.Script("ListSandboxes", scripted.Answer(&computev1.ListSandboxesResponse{}))
		}, []traffic.Kind{traffic.WrongNo}},
		"a delete leaves the sandbox": {func(s *scene) {
			s.Script("DeleteSandbox", scripted.Answer(&computev1.DeleteSandboxResponse{Deleted: true}))
		}, []traffic.Kind{traffic.Left}},
		"a watch ends": {func(s *scene) {
			s.Script("ListSandboxes", func(context.Context, proto.Message) (proto.Message, error) {
				s.EndWatches(nil)
				return nil, nil
			})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			c.harm(s)
			if got := kinds(s.run(t)); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
