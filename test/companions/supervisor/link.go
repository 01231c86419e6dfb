package supervisor

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// setupLimit bounds attach, confirm and start_agent together.
const setupLimit = 30 * time.Second

// confirmed is a runtime that is connected and confirmed.
type confirmed struct {
	cc           *grpc.ClientConn
	main         string // process id
	confirmation boundary.Confirmation
}

// link is the supervisor's hold on its runtime.
type link struct {
	descriptor bootstrap.Descriptor
	token      secret.Value // the sandbox token
	instance   string
	main       MainProcess
	workdir    string
	health     *health

	mu       sync.Mutex
	current  *confirmed     // nil while there is none
	mainExit *boundary.Exit // nil while it runs
	changed  chan struct{}  // closed at the next change of these
}

func (l *link) change(apply func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	apply()
	close(l.changed)
	l.changed = make(chan struct{})
}

// state returns what there is and a channel that tells when it is out of date.
func (l *link) state() (*confirmed, *boundary.Exit, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.mainExit, l.changed
}

// hold connects, attaches, confirms, starts the main process, and stays until the connection is lost.
func (l *link) hold(ctx context.Context, succeeded func()) error {
	cc, refused, err := dialRuntime(l.descriptor, l.token)
	if err != nil {
		return boundary.Failed(boundary.Invalid, "dial the runtime: %v", err)
	}
	defer func() { _ = cc.Close() }()
	c, err := l.setUp(ctx, cc)
	if err != nil {
		if certificate := refused.get(); certificate != nil {
			err = boundary.Failed(boundary.Denied, "the runtime's certificate: %v", certificate)
		}
		l.health.set(false, err.Error())
		return err
	}
	l.change(func() { l.current = c })
	l.health.set(true, "")
	succeeded()

	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { l.awaitMain(watch, c) })
	for state := cc.GetState(); state == connectivity.Ready; state = cc.GetState() {
		if !cc.WaitForStateChange(ctx, state) {
			break
		}
	}
	err = boundary.Failed(boundary.Unavailable, "the connection to the runtime was lost")
	l.health.set(false, err.Error())
	l.change(func() { l.current = nil })
	if ctx.Err() != nil {
		l.terminateMain(ctx, c)
	}
	stop()
	watching.Wait()
	return err
}

func (l *link) setUp(ctx context.Context, cc *grpc.ClientConn) (*confirmed, error) {
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	var attached boundary.Attached
	err := call(ctx, cc, boundary.Attach{
		Operation: boundary.OpAttach, SupervisorInstanceID: l.instance, Policy: []byte("null"), ResourceClaims: l.descriptor.ResourceClaims,
	}, &attached)
	if err != nil {
		return nil, err
	}
	if attached.SessionID != l.descriptor.SessionID || attached.Generation != l.descriptor.Generation {
		return nil, boundary.Failed(boundary.Denied, "attach: the runtime serves another session")
	}
	var c boundary.Confirmation
	if err := call(ctx, cc, boundary.Confirm{Operation: boundary.OpConfirm}, &c); err != nil {
		return nil, err
	}
	if failure := Verify(c, l.descriptor, l.instance); failure != nil {
		return nil, failure
	}
	var started boundary.Started
	start := boundary.StartAgent{Operation: boundary.OpStartAgent, Command: l.main.Command, TTY: l.main.TTY, Workdir: l.workdir}
	if err := call(ctx, cc, start, &started); err != nil {
		return nil, err
	}
	return &confirmed{cc: cc, main: started.ProcessID, confirmation: c}, nil
}

// awaitMain notes how the main process ended, if it does while the connection holds.
func (l *link) awaitMain(ctx context.Context, c *confirmed) {
	var exit boundary.Exit
	if err := call(ctx, c.cc, boundary.Wait{Operation: boundary.OpWait, ProcessID: c.main}, &exit); err == nil {
		l.change(func() { l.mainExit = &exit })
	}
}

// mainGrace is how long the main process may take to end when the supervisor stops; the Pod has 30 s.
const mainGrace = 10 * time.Second

// terminateMain ends the main process before the supervisor goes (contract 14.3, 3421).
func (l *link) terminateMain(ctx context.Context, c *confirmed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mainGrace+5*time.Second)
	defer cancel()
	var exit boundary.Exit
	_ = call(ctx, c.cc, boundary.Terminate{Operation: boundary.OpTerminate, ProcessID: c.main, GraceMillis: mainGrace.Milliseconds()}, &exit)
}

// call asks and closes the stream.
func call(ctx context.Context, cc *grpc.ClientConn, request, body any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := boundary.Ask(ctx, cc, request, body)
	return err
}
