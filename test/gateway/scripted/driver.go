package scripted

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// Step is the answer to one call. A nil message and a nil error let the model answer after all, which a step that only waits
// uses.
type Step func(ctx context.Context, request proto.Message) (proto.Message, error)

// Driver is the server and its script.
type Driver struct {
	computev1.UnimplementedComputeDriverServer

	t      testing.TB
	socket string

	mu      sync.Mutex
	stop    func()
	scripts map[string][]Step
	calls   map[string][]proto.Message
	changed chan struct{} // closed at the next call or beginning of a watch
	model   model
	streams map[*stream]bool
	watches int // how many have begun
}

// Start starts a driver that ends with the test.
func Start(t testing.TB) *Driver {
	t.Helper()
	dir, err := os.MkdirTemp("", "drv") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{
		t: t, socket: filepath.Join(dir, "d.sock"), scripts: map[string][]Step{}, calls: map[string][]proto.Message{},
		changed: make(chan struct{}), model: newModel(), streams: map[*stream]bool{},
	}
	d.Serve()
	t.Cleanup(func() {
		d.Kill()
		_ = os.RemoveAll(dir)
	})
	return d
}

// Socket is where it listens.
func (d *Driver) Socket() string { return d.socket }

// Serve begins to listen, again after Kill.
func (d *Driver) Serve() {
	d.t.Helper()
	l, err := udsock.Listen(context.Background(), d.socket, udsock.Options{Log: zerolog.Nop()})
	if err != nil {
		d.t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(udsock.Credentials()), grpc.WaitForHandlers(true))
	if err := contract.Register(server, d, contract.WithPrefixes(contract.Prefixes()...)); err != nil {
		d.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop = sync.OnceFunc(func() {
		server.Stop()
		_ = l.Close()
		<-served
	})
}

// Kill ends the server and everything that is under way in it. The model stays.
func (d *Driver) Kill() {
	d.mu.Lock()
	stop := d.stop
	d.mu.Unlock()
	stop()
}

// Script sets the answers to the next calls of a method. A nil Step leaves one to the model.
func (d *Driver) Script(method string, steps ...Step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scripts[method] = append(d.scripts[method], steps...)
}

// Unscript forgets every answer that was not given yet.
func (d *Driver) Unscript() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.scripts)
}

// Calls returns the requests of a method so far.
func (d *Driver) Calls(method string) []proto.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]proto.Message(nil), d.calls[method]...)
}

// AwaitCalls waits until a method was called n times.
func (d *Driver) AwaitCalls(ctx context.Context, method string, n int) []proto.Message {
	d.t.Helper()
	for {
		d.mu.Lock()
		calls, changed := append([]proto.Message(nil), d.calls[method]...), d.changed
		d.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.t.Fatalf("%s was called %d times, not %d", method, len(calls), n)
		}
	}
}

// AwaitWatches waits until n watches have begun, in the life of the driver: from then on the newest misses nothing.
func (d *Driver) AwaitWatches(ctx context.Context, n int) {
	d.t.Helper()
	for {
		d.mu.Lock()
		begun, changed := d.watches, d.changed
		d.mu.Unlock()
		if begun >= n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.t.Fatalf("%d watches have begun, not %d", begun, n)
		}
	}
}

// Watches returns how many watches have begun.
func (d *Driver) Watches() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watches
}

// take notes a call and returns its step, nil for the model.
func (d *Driver) take(method string, request proto.Message) Step {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[method] = append(d.calls[method], proto.Clone(request))
	d.news()
	if steps := d.scripts[method]; len(steps) > 0 {
		d.scripts[method] = steps[1:]
		return steps[0]
	}
	return nil
}

// news wakes who waits for calls.
func (d *Driver) news() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// play answers a call by the script, or else by the model.
func play[Answer proto.Message](ctx context.Context, d *Driver, method string, request proto.Message, fallback func() (Answer, error)) (Answer, error) {
	var none Answer
	if step := d.take(method, request); step != nil {
		answer, err := step(ctx, request)
		if err != nil {
			return none, err
		}
		if answer != nil {
			typed, ok := answer.(Answer)
			if !ok {
				return none, fmt.Errorf("the script answers %s with %T", method, answer)
			}
			return typed, nil
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fallback()
}
