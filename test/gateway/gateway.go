package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// Gateway drives one compute driver. Its methods are safe for concurrent use; those that need the driver answer UNAVAILABLE
// before Ready and after Run. All errors of methods are gRPC statuses, as a client of the public API would see them.
type Gateway struct {
	config  Config
	records Records
	events  *hub
	gates   *gates
	side    *gatewayside.Gateway

	authority atomic.Pointer[credentials.Authority]
	rotating  sync.Mutex

	commit sync.Mutex // held over a write and its event, so that events come in the order of writes

	mu       sync.Mutex
	live     *life // nil while Run does not run
	ran      bool
	ready    chan struct{}
	sessions map[string]liveSession
	reclaims map[string]bool // sandboxes whose reclaim is under way
}

// life is what exists while Run runs.
type life struct {
	ctx    context.Context
	driver *driver.Driver
	tasks  sync.WaitGroup
}

// New makes a gateway on records, which the caller closes when Run has returned. It makes the first signing key when there is
// none, and starts nothing.
func New(c Config, records Records) (*Gateway, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	g := &Gateway{
		config: c, records: records, events: newHub(), gates: newGates(), ready: make(chan struct{}),
		sessions: map[string]liveSession{}, reclaims: map[string]bool{},
	}
	g.side = gatewayside.NewWithDesk(desk{g})
	raw, err := records.Ring()
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	ring, err := credentials.Decode(raw)
	if err != nil {
		return nil, err
	}
	if ring.Len() == 0 {
		return g, g.rotate(ring)
	}
	return g, g.use(ring)
}

// RotateKeys makes a new signing key. What the former ones signed stays good.
func (g *Gateway) RotateKeys() error {
	g.rotating.Lock()
	defer g.rotating.Unlock()
	raw, err := g.records.Ring()
	if err != nil {
		return err
	}
	defer clear(raw)
	ring, err := credentials.Decode(raw)
	if err != nil {
		return err
	}
	return g.rotate(ring)
}

// rotate keeps the new ring before it signs anything.
func (g *Gateway) rotate(ring credentials.Ring) error {
	ring, err := ring.Rotated()
	if err != nil {
		return err
	}
	encoded, err := ring.Encode()
	if err != nil {
		return fmt.Errorf("encode the signing keys: %w", err)
	}
	defer encoded.Wipe()
	raw := encoded.Expose() // for the file that keeps them
	defer clear(raw)
	if err := g.records.PutRing(raw); err != nil {
		return err
	}
	return g.use(ring)
}

func (g *Gateway) use(ring credentials.Ring) error {
	authority, err := credentials.New(g.config.GatewayID, ring, g.config.Clock.Now)
	if err != nil {
		return err
	}
	g.authority.Store(authority)
	return nil
}

// Run connects, shakes hands, finishes what a former process left, and then watches, sweeps and minds deadlines until ctx ends,
// which is no error. It returns when everything that it owns has ended. It runs once.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.mu.Lock()
	if g.ran {
		g.mu.Unlock()
		return errors.New("gateway: Run was called before; make a new gateway")
	}
	g.ran = true
	g.mu.Unlock()

	c := g.config
	d, err := driver.Connect(ctx, driver.Config{
		Socket: c.Socket, Prefix: c.Prefix, Policy: c.Policy, Version: c.Version, Retry: c.Timing.ConnectRetry,
		Patience: c.Timing.ConnectDeadline, Clock: c.Clock, Options: c.DriverOptions,
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was given up because we are asked to stop
		}
		return err
	}
	l := &life{ctx: ctx, driver: d}
	g.mu.Lock()
	g.live = l
	g.mu.Unlock()
	loops := []func(*life){g.recover, g.watch, g.sweepLoop, g.deadlineLoop}
	if c.Standby {
		loops = nil
	}
	for _, loop := range loops {
		l.tasks.Go(func() { loop(l) })
	}
	close(g.ready)
	g.emit(Event{Kind: Connected, Message: d.Capabilities().GetExtension().GetImplementationName()})

	<-ctx.Done()
	g.mu.Lock()
	g.live = nil // from here on nobody enters
	g.mu.Unlock()
	l.tasks.Wait()
	return d.Close()
}

// Ready is closed when the driver was reached and the handshake done. The first watch opens about then; an event that it missed
// is found by the sweep.
func (g *Gateway) Ready() <-chan struct{} { return g.ready }

// enter begins an operation. leave must be called when it ends; Run waits for it.
func (g *Gateway) enter() (l *life, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live == nil {
		return nil, nil, status.Error(codes.Unavailable, "the gateway has no driver: it is not running, or still connecting")
	}
	g.live.tasks.Add(1)
	return g.live, g.live.tasks.Done, nil
}

// own lets work go on when who asked for it goes away (contract 2.6, StopSandbox), and gives its result to who still waits.
func own(ctx context.Context, l *life, work func(ctx context.Context) error) error {
	done := make(chan error, 1)
	l.tasks.Go(func() { done <- work(l.ctx) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// during returns ctx, ended at the latest when the gateway ends.
func during(ctx context.Context, l *life) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(errors.New("the gateway stops")) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// rejected turns an error of the records into a status.
func rejected(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrNotFound):
		return status.Error(codes.NotFound, "sandbox not found")
	case errors.Is(err, record.ErrExists):
		return status.Error(codes.AlreadyExists, "sandbox already exists")
	case errors.Is(err, record.ErrConflict):
		return status.Error(codes.Aborted, "the sandbox was changed by somebody else at the same time; try again")
	}
	if _, is := status.FromError(err); is {
		return err
	}
	return status.Error(codes.Internal, err.Error())
}
