package conformance_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// exemplar is a driver that keeps the contract: package scripted's model behind what a driver decides before it acts. A flaw is planted
// between it and its callers.
type exemplar struct {
	*scripted.Driver

	flaw      flaw
	config    bool // driver_config is taken
	authority *credentials.Authority
	conn      *grpc.ClientConn
	socket    string
	patience  time.Duration
	t         testing.TB

	mu     sync.Mutex // also orders what the watch is told
	boxes  map[string]*made
	gates  map[string]*sync.Mutex
	leaked map[string]bool // objects that a flaw has left at the platform
	runs   map[string]bool // runs that a flaw lets go on
	server *grpc.Server
	ended  chan struct{}
}

// made is a sandbox.
type made struct {
	name, workspace    string
	identity, bundle   string
	credential, former string
}

// flaw is what a driver does wrong. Each part may be nil.
type flaw struct {
	// around is between a call and its handler.
	around func(ctx context.Context, e *exemplar, method string, request any, next grpc.UnaryHandler) (any, error)
	// tell makes what a watch tells of one event; last is what it told of the same sandbox before.
	tell func(e *exemplar, event, last *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent
	// most is how many events a watch tells before it loses the others; 0 is that it loses none.
	most int
	// watch is asked before a watch begins.
	watch func(e *exemplar) error
	// silent: nothing is republished and no events of the platform are told.
	silent bool
	// prefixes, if not the usual.
	prefixes []contract.Prefix
	// restarts: every start begins a new run.
	restarts bool
	// deafFrom is the step of a create, of 20, from which the driver does not hear any more that its caller has gone; 0 is none.
	deafFrom int
	// reads: messages of any size are read, also those with bytes that are no text.
	reads bool
	// reborn is done when the driver comes up again.
	reborn func(e *exemplar)
}

func newExemplar(t testing.TB, config bool, patience time.Duration, f flaw) *exemplar {
	t.Helper()
	dir, err := os.MkdirTemp("", "cf") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	var ring credentials.Ring
	if ring, err = ring.Rotated(); err != nil {
		t.Fatal(err)
	}
	authority, err := credentials.New("gw", ring, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	e := &exemplar{
		Driver: scripted.Start(t), flaw: f, config: config, authority: authority, socket: filepath.Join(dir, "d.sock"), t: t, patience: patience,
		boxes: map[string]*made{}, gates: map[string]*sync.Mutex{}, leaked: map[string]bool{}, runs: map[string]bool{},
	}
	if config {
		e.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) {
			c.ResourceAdmissionPolicy = strings.Replace(c.ResourceAdmissionPolicy, `"allow_driver_config":false`, `"allow_driver_config":true`, 1)
		})
	}
	e.serve()
	e.conn, err = udsock.NewClient(e.socket, grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)), grpc.WithConnectParams(grpc.ConnectParams{
		MinConnectTimeout: time.Second, Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: 5 * time.Millisecond},
	}))
	if err != nil {
		t.Fatal(err)
	}
	republishing, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go e.republish(republishing, ended)
	t.Cleanup(func() {
		_ = e.conn.Close()
		stop()
		<-ended
		e.kill()
		_ = os.RemoveAll(dir)
	})
	return e
}

func (e *exemplar) serve() {
	l, err := udsock.Listen(context.Background(), e.socket, udsock.Options{Log: zerolog.Nop()})
	if err != nil {
		e.t.Fatal(err)
	}
	options := []grpc.ServerOption{
		grpc.Creds(udsock.Credentials()), grpc.WaitForHandlers(true), grpc.UnaryInterceptor(e.unary), grpc.StreamInterceptor(e.stream),
	}
	if e.flaw.reads {
		options = append(options, grpc.MaxRecvMsgSize(64<<20), grpc.ForceServerCodec(mending{}))
	}
	server := grpc.NewServer(options...)
	prefixes := contract.Prefixes()
	if e.flaw.prefixes != nil {
		prefixes = e.flaw.prefixes
	}
	if err := contract.Register(server, e, contract.WithPrefixes(prefixes...)); err != nil {
		e.t.Fatal(err)
	}
	e.server, e.ended = server, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = server.Serve(l)
		_ = l.Close()
	}(e.ended)
}

// mending reads bytes that are no text as some that are.
type mending struct{}

func (mending) Name() string { return "proto" }

func (mending) Marshal(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }

func (mending) Unmarshal(data []byte, v any) error {
	noText := []byte("\xff\xfe\x80\xc0\xaf\xed\xa0\x80\xff")
	return proto.Unmarshal(bytes.ReplaceAll(data, noText, []byte("?????????")), v.(proto.Message))
}

func (e *exemplar) kill() {
	e.server.Stop()
	<-e.ended
}

func (e *exemplar) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if e.flaw.around == nil {
		return next(ctx, request)
	}
	return e.flaw.around(ctx, e, filepath.Base(info.FullMethod), request, next)
}

func (e *exemplar) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if e.flaw.watch != nil {
		if err := e.flaw.watch(e); err != nil {
			return err
		}
	}
	return next(srv, &telling{ServerStream: ss, e: e, last: map[string]*computev1.WatchSandboxesEvent{}})
}

// telling is a watch that a flaw may change.
type telling struct {
	grpc.ServerStream
	e    *exemplar
	sent int
	last map[string]*computev1.WatchSandboxesEvent
}

func (s *telling) SendMsg(m any) error {
	event, ok := m.(*computev1.WatchSandboxesEvent)
	if s.sent++; s.e.flaw.most > 0 && s.sent > s.e.flaw.most {
		return nil
	}
	if !ok || s.e.flaw.tell == nil {
		return s.ServerStream.SendMsg(m)
	}
	id := event.GetSandbox().GetSandbox().GetId() + event.GetDeleted().GetSandboxId() + event.GetPlatformEvent().GetSandboxId()
	for _, one := range s.e.flaw.tell(s.e, event, s.last[id]) {
		if err := s.ServerStream.SendMsg(one); err != nil {
			return err
		}
	}
	s.last[id] = event
	return nil
}

// republish tells every sandbox again and again.
func (e *exemplar) republish(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	const pause = 100 * time.Millisecond
	for !e.flaw.silent {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		e.mu.Lock()
		for id := range e.boxes {
			if e.Has(id) {
				e.TellOf(e.Seen(id))
			}
		}
		e.mu.Unlock()
	}
}

// show sets what is seen of a sandbox.
func (e *exemplar) show(id string, conditions ...*computev1.DriverCondition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ShowIfAny(id, conditions...)
}

// enter waits for a sandbox's turn.
func (e *exemplar) enter(id string) (leave func()) {
	e.mu.Lock()
	gate := e.gates[id]
	if gate == nil {
		gate = new(sync.Mutex)
		e.gates[id] = gate
	}
	e.mu.Unlock()
	gate.Lock()
	return gate.Unlock
}

// box is what is known of a sandbox now, nil for none.
func (e *exemplar) box(id string) *made {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b := e.boxes[id]; b != nil {
		known := *b
		return &known
	}
	return nil
}
