package gateway_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

func TestMain(m *testing.M) {
	companionstest.PlayWorkload()
	goleak.VerifyTestMain(m)
}

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// site is a gateway, its driver, and time that stands still.
type site struct {
	t       *testing.T
	ctx     context.Context
	driver  *scripted.Driver
	clock   *clock.Manual
	config  gateway.Config
	path    string
	store   *record.Store
	records func(gateway.Records) gateway.Records // what stands before the store
	g       *gateway.Gateway
	events  *gateway.Subscription
	address string           // where supervisors find it
	dial    *grpc.ClientConn // as they do
	stop    func()
}

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func policy() driverconf.AdmissionPolicy {
	return driverconf.AdmissionPolicy{ResourceAdmission: driverconf.ResourceAdmission{Enabled: true, RequiredLabels: map[string]string{
		"openshell.ai/sandbox-attachable": "true", "openshell.ai/sandbox-attachable-workspace": "${workspace}",
	}}}
}

// unstarted is a site whose gateway does not run yet.
func unstarted(t *testing.T, edits ...func(*gateway.Config)) *site {
	t.Helper()
	s := &site{
		t: t, ctx: limit(t), driver: scripted.Start(t), clock: clock.NewManual(epoch), path: filepath.Join(t.TempDir(), "records.db"),
		records: func(r gateway.Records) gateway.Records { return r },
	}
	s.config = gateway.Config{Socket: s.driver.Socket(), Policy: policy(), Clock: s.clock, Log: zerolog.Nop()}
	for _, edit := range edits {
		edit(&s.config)
	}
	t.Cleanup(func() {
		if s.stop != nil {
			s.stop()
		}
	})
	return s
}

// begin is a site whose gateway watches.
func begin(t *testing.T, edits ...func(*gateway.Config)) *site {
	t.Helper()
	s := unstarted(t, edits...)
	s.start()
	return s
}

// start starts a gateway on the records as they are.
func (s *site) start() {
	s.t.Helper()
	watches := s.driver.Watches()
	var err error
	if s.store, err = record.Open(s.path, record.Options{Patience: time.Minute, NoSync: true}); err != nil {
		s.t.Fatal(err)
	}
	if s.g, err = gateway.New(s.config, s.records(s.store)); err != nil {
		s.t.Fatal(err)
	}
	s.events = s.g.Subscribe()
	server := grpc.NewServer(gateway.ServerOption()...)
	s.g.Register(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = l.Addr().String()
	if s.dial, err = grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(l) })
	work.Go(func() {
		if err := s.g.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
	s.stop = sync.OnceFunc(func() {
		_ = s.dial.Close()
		server.Stop()
		cancel()
		work.Wait()
		s.events.Close()
		if err := s.store.Check(); err != nil {
			s.t.Error(err)
		}
		if err := s.store.Close(); err != nil {
			s.t.Error(err)
		}
	})
	select {
	case <-s.g.Ready():
	case <-s.ctx.Done():
		s.t.Fatal("not ready")
	}
	s.driver.AwaitWatches(s.ctx, watches+1)
}

// again ends the gateway and starts another on the same records.
func (s *site) again() {
	s.t.Helper()
	s.stop()
	s.start()
}

func wish(name string) gateway.Wish {
	return gateway.Wish{Workspace: "team-a", Name: name, Spec: &computev1.DriverSandboxSpec{Command: []string{"/tool"}}}
}

// created is a sandbox that the driver has and whose identity is stored.
func (s *site) created(name string) gateway.Sandbox {
	s.t.Helper()
	box, err := s.g.Create(s.ctx, wish(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return box
}

// running is a Ready one, with its supervisor.
func (s *site) running(name string) (gateway.Sandbox, *supervisor) {
	s.t.Helper()
	box := s.created(name)
	if err := s.backendReady(s.ctx, box.ID); err != nil {
		s.t.Fatal(err)
	}
	v := s.supervise(box.ID)
	v.confirm()
	return s.in(box.ID, phase.Ready), v
}

// backendReady lets the driver show readiness and waits until the gateway has seen it. What the watch told before is then behind
// us: a snapshot of a beginning that comes behind a stop would move the row again (contract 2.11).
func (s *site) backendReady(ctx context.Context, id string) error {
	s.driver.Show(id, scripted.Ready()...)
	_, err := s.g.Await(ctx, id, func(box gateway.Sandbox) bool {
		ready := phase.Status{Conditions: box.Conditions}.Find("Ready")
		return ready.Reason == "SupervisorNotConnected" || box.Phase == phase.Ready
	})
	return err
}

// stopped is one that ran and was stopped.
func (s *site) stopped(name string) gateway.Sandbox {
	s.t.Helper()
	box, v := s.running(name)
	if err := s.g.Stop(s.ctx, box.ID); err != nil {
		s.t.Fatal(err)
	}
	v.ended()
	return s.in(box.ID, phase.Stopped)
}

// in waits until the sandbox is in a phase.
func (s *site) in(id string, wanted phase.Phase) gateway.Sandbox {
	s.t.Helper()
	box, err := s.g.AwaitPhase(s.ctx, id, wanted)
	if err != nil {
		s.t.Fatal(err)
	}
	return box
}

// is checks the phase that a sandbox has now; phase.Unspecified is that there is no row.
func (s *site) is(id string, wanted phase.Phase) gateway.Sandbox {
	s.t.Helper()
	box, err := s.g.Get(id)
	if (status.Code(err) == codes.NotFound) != (wanted == phase.Unspecified) || box.Phase != wanted {
		s.t.Errorf("the row is %q (%s %s), %v; want %q", box.Phase, box.Cause, box.Message, err, wanted)
	}
	return box
}

// hears waits for an event.
func (s *site) hears(kind gateway.Kind, reason string) gateway.Event {
	s.t.Helper()
	e, err := s.events.Await(s.ctx, func(e gateway.Event) bool { return e.Kind == kind && (reason == "" || e.Reason == reason) })
	if err != nil {
		s.t.Fatalf("no event %s %s: %v", kind, reason, err)
	}
	return e
}

// refused checks an error's code and text.
func refused(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("error %v, want %s with %q", err, code, text)
	}
}

// supervisor is one's end of a session.
type supervisor struct {
	s      *site
	client session.Client
	cancel context.CancelFunc
}

func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func (s *site) exchange(bearer, id string) (string, error) {
	issued, err := session.Issue(bearing(s.ctx, bearer), s.dial, session.IssueRequest{SandboxID: id})
	return issued.Token, err
}

func (s *site) open(token string) (*supervisor, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	client, err := session.Open(bearing(ctx, token), s.dial)
	if err == nil {
		err = client.Accepted()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.t.Cleanup(cancel)
	return &supervisor{s: s, client: client, cancel: cancel}, nil
}

// supervise opens a session as the sandbox's supervisor does.
func (s *site) supervise(id string) *supervisor {
	s.t.Helper()
	token, err := s.exchange(scripted.Bearer(id), id)
	if err != nil {
		s.t.Fatal(err)
	}
	v, err := s.open(token)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (v *supervisor) send(m session.Up) {
	v.s.t.Helper()
	if err := v.client.Send(m); err != nil {
		v.s.t.Fatal(err)
	}
}

func (v *supervisor) confirm() {
	v.s.t.Helper()
	v.send(session.Up{Event: session.Confirmed, ProcessID: "main", Confirmation: &boundary.Confirmation{Generation: "g"}})
}

// ended waits until the gateway has ended the session.
func (v *supervisor) ended() {
	v.s.t.Helper()
	for {
		if _, err := v.client.Receive(); err != nil {
			refused(v.s.t, err, codes.Unavailable, "")
			return
		}
	}
}

// advance moves the time, and lets the deadlines be looked at once at its end, d from now.
func (s *site) advance(d time.Duration) {
	s.t.Helper()
	const tick = time.Second
	for _, part := range []time.Duration{d - tick, tick} {
		if err := s.clock.AwaitTimer(s.ctx, tick); err != nil {
			s.t.Fatal(err)
		}
		s.clock.Advance(part)
	}
	if err := s.clock.AwaitTimer(s.ctx, tick); err != nil {
		s.t.Fatal(err)
	}
}

// confirmIfOpen is confirm for a session that may have been ended meanwhile.
func (v *supervisor) confirmIfOpen() {
	_ = v.client.Send(session.Up{Event: session.Confirmed, ProcessID: "main", Confirmation: &boundary.Confirmation{Generation: "g"}})
}
