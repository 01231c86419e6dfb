//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/settings"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// seat is a gateway, with what its driver has answered it that the contract has not.
type seat struct {
	*gateway.Gateway
	mu    sync.Mutex
	wrong []string
}

func openStore(t *testing.T) *record.Store {
	t.Helper()
	store, err := record.Open(filepath.Join(t.TempDir(), "records.db"), record.Options{NoSync: true})
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// openSeat runs a gateway beside a driver until the test ends.
func openSeat(t *testing.T, s *lifecycle.Site, socket string, store *record.Store, standby bool) *seat {
	t.Helper()
	stock, err := settings.Load(s.Mesh.Settings(mesh.Lifecycle), "kubernetes")
	must(t, err)
	one := &seat{}
	one.Gateway, err = gateway.New(gateway.Config{
		Socket: socket, Policy: stock.Policy, GatewayID: s.GatewayID, Standby: standby, Log: zerolog.Nop(),
		DriverOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(one.hear)},
	}, store)
	must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("a gateway: %v", err)
		}
	})
	select {
	case <-one.Ready():
	case <-s.Context().Done():
		t.Fatal("a gateway does not reach its driver")
	}
	return one
}

// hear stands between a gateway and its driver: it judges the codes of calls that change something, as far as nobody has gone away meanwhile. No
// supervisor connects here, so the driver is made to say that it reports readiness itself (contract 2.11).
func (s *seat) hear(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, in, out, conn, options...)
	if told, ok := out.(*computev1.GetCapabilitiesResponse); ok {
		told.DriverReportsRuntimeReadiness = true
	}
	call, ok := strings.CutSuffix(path.Base(method), "Sandbox")
	if allowed := contested[strings.ToLower(call)]; ok && allowed != nil && !allowed[status.Code(err)] && ctx.Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wrong = append(s.wrong, fmt.Sprintf("%s: %v", method, err))
	}
	return err
}

func (s *seat) demandNothingWrong(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) > 0 {
		t.Errorf("a driver has answered:\n%s", strings.Join(s.wrong, "\n"))
	}
}

// anyPhase are those in which a row may come to rest; the empty one is that there is no row.
var anyPhase = []phase.Phase{"", phase.Ready, phase.Stopped, phase.Error}

// agrees waits until the sandbox is at rest in one of some phases, and the row of every gateway that asks for it is what there is.
func (c *claimed) agrees(t *testing.T, ctx context.Context, what string, wanted ...phase.Phase) rest {
	t.Helper()
	for {
		at, err := c.compare(ctx, wanted)
		if err == nil {
			return at
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v\n%s", what, err, c.said())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *claimed) compare(ctx context.Context, wanted []phase.Phase) (rest, error) {
	row, err := c.row()
	if err != nil {
		return rest{}, err
	}
	at, err := restOf(ctx, c.Site, c.drivers, c.wish)
	if err != nil {
		return at, fmt.Errorf("the row says %q: %w", row.Phase, err)
	}
	if again, err := c.row(); err != nil || again.Version != row.Version {
		return at, errors.Join(errors.New("the row is being changed"), err)
	}
	fits := row.Phase == phase.Error // what is left then is for a user to delete
	switch row.Phase {
	case "":
		fits = !at.stands
	case phase.Ready:
		fits = at.runs && row.RuntimeIdentity == at.identity
	case phase.Stopped:
		fits = at.stands && !at.runs
	default:
	}
	if !fits || !slices.Contains(wanted, row.Phase) {
		return at, fmt.Errorf("the row says %q of %s, %s, and it is %+v; wanted is %q", row.Phase, row.RuntimeIdentity, row.Message, at, wanted)
	}
	return at, nil
}

// row is what the store has of the sandbox; the zero row when it has none.
func (c *claimed) row() (gateway.Sandbox, error) {
	row, err := c.seats[0].Get(c.wish.GetId())
	if status.Code(err) == codes.NotFound {
		return gateway.Sandbox{}, nil
	}
	return row, err
}
