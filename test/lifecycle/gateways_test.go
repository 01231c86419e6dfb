//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestGateways: two gateways of one id, each with a lifecycle beside it. With one store between them, as replicas of a gateway have it, of
// which one holds the lease (contract 2.8), both are asked to create, stop, start and delete the same sandboxes at once. With a store each they
// want the same names, and know nothing of each other. Whatever comes, a sandbox is never two objects, each driver answers as the contract
// has it, and in the end a row is what there is in the cluster: its very run, a Sandbox without one, or nothing.
func TestGateways(t *testing.T) {
	t.Parallel()
	s := standIns(t).Raise(t, "shared", nil)
	must(t, s.Mesh.Run(s.Context(), mesh.Replica))
	sockets := []string{s.Mesh.Socket(), s.Mesh.SocketOf(mesh.Replica)}
	drivers := []computev1.ComputeDriverClient{s.Driver, dial(t, sockets[1])}
	one, first, second := openStore(t), openStore(t), openStore(t)
	seats := []*seat{
		openSeat(t, s, sockets[0], one, false), openSeat(t, s, sockets[1], one, true),
		openSeat(t, s, sockets[0], first, false), openSeat(t, s, sockets[1], second, false),
	}
	seen := newCensus(t, s)
	var ids []string
	prepared := func(name string, seats ...*seat) *claimed {
		c := &claimed{Site: s, drivers: drivers, wish: s.Wish("team", name), seats: seats}
		ids = append(ids, c.wish.GetId())
		return c
	}
	var shared []*claimed
	for _, name := range []string{"one-a", "one-b", "one-c"} {
		shared = append(shared, prepared(name, seats[0], seats[1]))
	}
	var rivals [][2]*claimed
	for _, name := range []string{"two-a", "two-b"} {
		rivals = append(rivals, [2]*claimed{prepared(name, seats[2]), prepared(name, seats[3])})
	}
	t.Run("lives", func(t *testing.T) {
		for n, c := range shared {
			t.Run(c.wish.GetName(), func(t *testing.T) { t.Parallel(); c.atRandom(t, uint64(n)) })
		}
		for _, both := range rivals {
			t.Run(both[0].wish.GetName(), func(t *testing.T) { t.Parallel(); contend(t, both) })
		}
	})
	for _, one := range seats {
		one.demandNothingWrong(t)
	}
	seen.demand(t, ids)
}

// claimed is a sandbox that gateways ask for.
type claimed struct {
	*lifecycle.Site
	drivers []computev1.ComputeDriverClient
	wish    *computev1.DriverSandbox
	seats   []*seat

	mu  sync.Mutex
	log []string
}

// asked are the codes that a gateway may give a user while others work on the same sandbox. INTERNAL is what it makes of UNAVAILABLE (contract 2.6).
var asked = map[codes.Code]bool{
	codes.OK: true, codes.NotFound: true, codes.AlreadyExists: true, codes.FailedPrecondition: true, codes.Aborted: true, codes.Internal: true,
}

// ask asks a gateway, and notes what it says.
func (c *claimed) ask(ctx context.Context, k int, call string) error {
	g, id := c.seats[k], c.wish.GetId()
	var err error
	switch call {
	case "create":
		_, err = g.Create(ctx, gateway.Wish{
			ID: id, Workspace: c.wish.GetWorkspace(), Name: c.wish.GetName(), Spec: &computev1.DriverSandboxSpec{LogLevel: "info", Command: c.wish.GetSpec().GetCommand()},
		})
	case "stop":
		err = g.Stop(ctx, id)
	case "start":
		_, err = g.Start(ctx, id)
	default:
		err = g.Delete(ctx, id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf("%s gateway %d %s: %v", time.Now().Format("05.000"), k, call, err))
	return err
}

func (c *claimed) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.log, "\n")
}

// atRandom has both gateways asked for whatever comes, by several at once; then the sandbox is led through its life by one after the other.
func (c *claimed) atRandom(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const each, calls = 2, 10
	drawn := [...]string{"create", "create", "create", "stop", "stop", "start", "start", "start", "delete"}
	var running sync.WaitGroup
	for k := range c.seats {
		for n := range each {
			random := rand.New(rand.NewPCG(seed, uint64(k*each+n)))
			running.Go(func() {
				for range calls {
					if err := c.ask(ctx, k, drawn[random.IntN(len(drawn))]); !asked[status.Code(err)] {
						t.Errorf("seed %d: gateway %d: %v", seed, k, err)
					}
				}
			})
		}
	}
	running.Wait()
	if at := c.agrees(t, ctx, "after all calls", anyPhase...); !at.stands {
		must(t, c.ask(ctx, 1, "create"))
	} else {
		must(t, c.ask(ctx, 1, "delete"))
		c.agrees(t, ctx, "after a delete at the second", "")
		must(t, c.ask(ctx, 1, "create"))
	}
	c.agrees(t, ctx, "after a create at the second", phase.Ready)
	must(t, c.ask(ctx, 0, "stop"))
	c.agrees(t, ctx, "after a stop at the first", phase.Stopped)
	must(t, c.ask(ctx, 1, "start"))
	c.agrees(t, ctx, "after a start at the second", phase.Ready)
	must(t, c.ask(ctx, 0, "delete"))
	c.agrees(t, ctx, "after a delete at the first", "")
}

// contend has two gateways that know nothing of each other want one name: one has it, as long as it does not delete its sandbox, and the other
// neither disturbs it nor gives up what is its own.
func contend(t *testing.T, both [2]*claimed) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	first := make([]error, len(both))
	var running sync.WaitGroup
	for k, c := range both {
		running.Go(func() { first[k] = c.ask(ctx, 0, "create") })
	}
	running.Wait()
	winner, loser := both[0], both[1]
	if first[0] != nil {
		winner, loser, first[0], first[1] = loser, winner, first[1], first[0]
	}
	if first[0] != nil || status.Code(first[1]) != codes.AlreadyExists {
		t.Fatalf("two creates of one name are answered %v", first)
	}
	winner.agrees(t, ctx, "with a rival", phase.Ready)
	for _, c := range both {
		must(t, c.seats[0].Sweep())
	}
	if err := loser.ask(ctx, 0, "delete"); status.Code(err) != codes.NotFound {
		t.Errorf("a gateway that has no such sandbox says %v", err)
	}
	winner.agrees(t, ctx, "after the rival's sweep and delete", phase.Ready)

	// While the one lets it go the other takes it.
	gone := make(chan error, 1)
	go func() { gone <- winner.ask(ctx, 0, "delete") }()
	loser.Eventually("the other gateway has the name", func() error { return loser.ask(ctx, 0, "create") })
	must(t, <-gone)
	loser.agrees(t, ctx, "in its rival's place", phase.Ready)
	winner.Eventually("the former row is gone", func() error {
		if row, err := winner.seats[0].Get(winner.wish.GetId()); status.Code(err) != codes.NotFound {
			return fmt.Errorf("it is %s: %w", row.Phase, err)
		}
		return nil
	})
	must(t, loser.ask(ctx, 0, "delete"))
	loser.agrees(t, ctx, "in the end", "")
}
