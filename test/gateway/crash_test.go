package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

var errDead = errors.New("the process is dead")

// fate kills a gateway before one of its steps: a write, or a call to the driver. What is dead writes and calls nothing more.
type fate struct {
	mu    sync.Mutex
	armed bool
	left  int
	dead  chan struct{}
	died  func() // once
}

func newFate(steps int) *fate {
	f := &fate{left: steps, dead: make(chan struct{})}
	f.died = sync.OnceFunc(func() { close(f.dead) })
	return f
}

func (f *fate) step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return nil
	}
	if f.left--; f.left < 0 {
		f.died()
		return errDead
	}
	return nil
}

func (f *fate) arm(armed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = armed
}

func (f *fate) call(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := f.step(); err != nil {
		return err
	}
	return invoke(ctx, method, request, answer, cc, opts...)
}

// mortal are records that end with their gateway.
type mortal struct {
	gateway.Records
	fate *fate
}

func (m mortal) Create(row record.Row, finish func(*record.Row)) (record.Row, error) {
	if err := m.fate.step(); err != nil {
		return row, err
	}
	return m.Records.Create(row, finish)
}

func (m mortal) Swap(row record.Row) (record.Row, error) {
	if err := m.fate.step(); err != nil {
		return row, err
	}
	return m.Records.Swap(row)
}

func (m mortal) Remove(id string, version uint64) error {
	if err := m.fate.step(); err != nil {
		return err
	}
	return m.Records.Remove(id, version)
}

// life is everything that a user does with one sandbox.
func (s *site) life(ctx context.Context, id string) error {
	w := wish("box")
	w.ID = id
	if _, err := s.g.Create(ctx, w); err != nil {
		return err
	}
	if err := s.becomeReady(ctx, id); err != nil {
		return err
	}
	if err := s.g.Stop(ctx, id); err != nil {
		return err
	}
	if _, err := s.g.Start(ctx, id); err != nil {
		return err
	}
	if err := s.becomeReady(ctx, id); err != nil {
		return err
	}
	if err := s.g.Delete(ctx, id); err != nil {
		return err
	}
	return s.g.AwaitRemoved(ctx, id)
}

func (s *site) becomeReady(ctx context.Context, id string) error {
	if err := s.backendReady(ctx, id); err != nil {
		return err
	}
	token, err := s.exchange(scripted.Bearer(id), id)
	if err != nil {
		return err
	}
	v, err := s.open(token)
	if err != nil {
		return err
	}
	v.confirm()
	_, err = s.g.AwaitPhase(ctx, id, phase.Ready)
	return err
}

// TestCrash kills the gateway before every step of a life. Whatever it was: nothing is in the driver that no row knows, a new
// gateway brings the row to rest by the rules of contract 2.6, and a user gets rid of it.
func TestCrash(t *testing.T) {
	t.Parallel()
	const most = 100
	for steps := 0; ; steps++ {
		survived := false
		t.Run(fmt.Sprintf("before step %d", steps), func(t *testing.T) {
			survived = crash(t, steps)
		})
		if survived {
			if steps < 10 {
				t.Errorf("a life of %d steps", steps)
			}
			return
		}
		if steps == most || t.Failed() {
			t.Fatalf("a life is not over at step %d, or it failed", steps)
		}
	}
}

func crash(t *testing.T, steps int) (survived bool) {
	const id = "0a1b2c3d-0000-4000-8000-000000000001"
	f := newFate(steps)
	s := unstarted(t, onDemand, func(c *gateway.Config) { c.DriverOptions = []grpc.DialOption{grpc.WithUnaryInterceptor(f.call)} })
	s.records = func(r gateway.Records) gateway.Records { return mortal{r, f} }
	s.start()
	f.arm(true)
	ctx, cancel := context.WithCancel(s.ctx)
	go func() {
		select {
		case <-f.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := s.life(ctx, id)
	cancel()
	select {
	case <-f.dead:
	default:
		if err != nil {
			t.Errorf("it lives, and failed: %v", err)
		}
		return true
	}
	s.stop()
	f.arm(false)
	s.records = func(r gateway.Records) gateway.Records { return r }
	s.start()

	row, known := gateway.Sandbox{}, false
	if all, err := s.g.List(); err != nil || len(all) > 1 {
		t.Fatalf("%d rows, %v", len(all), err)
	} else if len(all) == 1 {
		row, known = all[0], true
	}
	if s.driver.Has(id) && !known {
		t.Fatal("the driver has what no row knows")
	}
	t.Logf("found %s, identity %q, the driver's %q", row.Phase, row.RuntimeIdentity, s.driver.Identity(id))
	if !known {
		return false
	}
	s.settle(row)
	if t.Failed() {
		return false
	}
	if _, err := s.g.Get(id); err == nil {
		if err := s.g.Delete(s.ctx, id); err != nil {
			t.Error(err)
		}
		if err := s.g.AwaitRemoved(s.ctx, id); err != nil {
			t.Error(err)
		}
	}
	if s.driver.Has(id) {
		t.Error("the driver still has it")
	}
	return false
}

// settle brings what a restart found to rest, as the contract has it.
func (s *site) settle(row gateway.Sandbox) {
	s.t.Helper()
	switch row.Phase {
	case phase.Deleting: // without a user; the sweep finds what ended before the watch was open
		s.clock.Advance(gateway.DefaultTiming().OrphanGrace + 1)
		_ = s.g.Sweep() // the row may go meanwhile
		if err := s.g.AwaitRemoved(s.ctx, row.ID); err != nil {
			s.t.Error(err)
		}
	case phase.Stopping: // without a user
		s.in(row.ID, phase.Stopped)
	case phase.Starting: // waits for a user
		s.hears("StartRecoveryRefused", "FailedPrecondition")
		if _, err := s.g.Start(s.ctx, row.ID); err != nil {
			s.t.Fatal(err)
		}
		s.ready(row.ID)
	case phase.Provisioning:
		if row.RuntimeIdentity != "" {
			s.ready(row.ID)
			return
		}
		// Nobody knows what runs there; the window ends it.
		if s.driver.Has(row.ID) {
			if _, err := s.exchange(scripted.Bearer(row.ID), row.ID); err == nil {
				s.t.Error("a token for what is not bound")
			}
		}
		s.advance(5 * time.Minute)
		s.hears("Reclaimed", "")
	case phase.Ready:
		s.ready(row.ID)
	case phase.Stopped:
	default:
		s.t.Errorf("found %s", row.Phase)
	}
}

func (s *site) ready(id string) {
	s.t.Helper()
	if err := s.becomeReady(s.ctx, id); err != nil {
		s.t.Fatal(err)
	}
}

// TestRestart: rows at rest are left alone, Terminating workspaces are gone on with, and sessions come back.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := begin(t)
	running, _ := s.running("running")
	stopped := s.stopped("stopped")
	s.driver.Script("DeleteWorkspace", scripted.Fail(codes.Unavailable, "no"))
	if err := s.g.EnsureWorkspace(s.ctx, "team-b"); err != nil {
		t.Fatal(err)
	}
	refused(t, s.g.DeleteWorkspace(s.ctx, "team-b"), codes.Unavailable, "")
	s.again()
	s.hears("WorkspaceDeleted", "")
	s.is(stopped.ID, phase.Stopped)
	s.ready(running.ID)
	if _, err := s.g.Start(s.ctx, stopped.ID); err != nil {
		t.Error(err)
	}
}

// TestStartIsRecovered: a driver that needs no bundle goes on by itself.
func TestStartIsRecovered(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.stopped("box")
	s.driver.Lose("StartSandbox", codes.Unavailable)
	_, err := s.g.Start(s.ctx, box.ID)
	refused(t, err, codes.Internal, "")
	s.driver.Script("StartSandbox", scripted.Answer(&computev1.StartSandboxResponse{RuntimeIdentity: s.driver.Identity(box.ID)}))
	s.again()
	s.hears("Bound", "")
	calls := s.driver.Calls("StartSandbox")
	if last := calls[len(calls)-1].(*computev1.StartSandboxRequest); len(last.GetLaunchAuthentication()) != 0 || last.GetGenerationId() != box.Run.Generation {
		t.Errorf("recovered with %d bytes for %q", len(last.GetLaunchAuthentication()), last.GetGenerationId())
	}
	s.ready(box.ID)
}
