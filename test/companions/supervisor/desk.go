package supervisor

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
)

const (
	maxJobs    = 128              // operations of the gateway under way
	maxBacklog = 1024             // messages of input that a command did not take yet
	execExpiry = 30 * time.Second // contract 13.5
)

// desk does what the gateway asks in one session.
type desk struct {
	ctx     context.Context // of the session
	link    *link
	workdir string
	now     func() time.Time

	sending sync.Mutex
	client  session.Client

	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[string]*job
}

// job is an operation under way.
type job struct {
	input  chan session.Down
	cancel context.CancelFunc
}

func (d *desk) send(m session.Up) {
	d.sending.Lock()
	defer d.sending.Unlock()
	_ = d.client.Send(m) // a broken session ends in serve
}

func (d *desk) fail(id string, err error) {
	d.send(session.Up{ID: id, Event: session.Failed, Failure: boundary.AsFailure(err)})
}

// tell reports the confirmation and the main process's end, as often as they come.
func (d *desk) tell() {
	var (
		told   *confirmed
		exited bool
	)
	for {
		current, exit, changed := d.link.state()
		if current != nil && current != told {
			told = current
			d.send(session.Up{Event: session.Confirmed, ProcessID: current.main, Confirmation: &current.confirmation})
		}
		if exit != nil && !exited {
			exited = true
			d.send(session.Up{Event: session.MainExited, Exit: exit})
		}
		select {
		case <-changed:
		case <-d.ctx.Done():
			return
		}
	}
}

// serve takes messages until the session ends, and returns why it did. The first sign that the
// gateway accepted the session counts as success.
func (d *desk) serve(succeeded func()) error {
	defer d.wg.Wait()
	defer d.cancelAll()
	if err := d.client.Accepted(); err != nil {
		return err
	}
	succeeded()
	for {
		m, err := d.client.Receive()
		if err != nil {
			return err
		}
		d.take(m)
	}
}

func (d *desk) cancelAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.open {
		j.cancel()
	}
}

func (d *desk) take(m session.Down) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.open[m.ID]
	switch m.Op {
	case session.Stdin, session.StdinClosed:
		if j == nil {
			return // it ended meanwhile
		}
		select {
		case j.input <- m:
		default:
			j.cancel() // who asks for more than the command takes loses the command
		}
		return
	case session.Cancel:
		if j != nil {
			j.cancel()
		}
		return
	default:
	}
	if j != nil || len(d.open) >= maxJobs {
		go d.fail(m.ID, boundary.Failed(boundary.Invalid, "%s: the id is in use, or too much is under way", m.Op))
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	j = &job{input: make(chan session.Down, maxBacklog), cancel: cancel}
	d.open[m.ID] = j
	d.wg.Go(func() {
		d.work(ctx, m, j)
		cancel()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.open, m.ID)
	})
}

// work does one operation and sends what ends it.
func (d *desk) work(ctx context.Context, m session.Down, j *job) {
	current, _, _ := d.link.state()
	if current == nil {
		d.fail(m.ID, boundary.Failed(boundary.Unavailable, "%s: no runtime is confirmed", m.Op))
		return
	}
	var (
		exit boundary.Exit
		err  error
	)
	switch m.Op {
	case session.Wait:
		err = call(ctx, current.cc, boundary.Wait{Operation: boundary.OpWait, ProcessID: m.ProcessID}, &exit)
	case session.Terminate:
		err = call(ctx, current.cc, boundary.Terminate{Operation: boundary.OpTerminate, ProcessID: m.ProcessID, GraceMillis: m.GraceMillis}, &exit)
	case session.Signal:
		err = call(ctx, current.cc, boundary.Signal{Operation: boundary.OpSignal, ProcessID: m.ProcessID, Signal: m.Signal}, &struct{}{})
	case session.Exec:
		exit, err = d.exec(ctx, current, m, j)
	case session.Connect:
		exit, err = d.connect(ctx, current, m, j)
	default:
		err = boundary.Failed(boundary.Invalid, "%q: not an operation", m.Op)
	}
	switch {
	case err != nil:
		d.fail(m.ID, err)
	case m.Op == session.Signal:
		d.send(session.Up{ID: m.ID, Event: session.Done})
	default:
		d.send(session.Up{ID: m.ID, Event: session.Exited, Exit: &exit})
	}
}

func (d *desk) exec(ctx context.Context, c *confirmed, m session.Down, j *job) (boundary.Exit, error) {
	var started boundary.Started
	env := m.Env
	if env == nil {
		env = map[string]string{}
	}
	stream, err := boundary.Ask(ctx, c.cc, boundary.Exec{
		Operation: boundary.OpExec, Command: m.Command, Env: env, Workdir: d.workdir, ExpiresAt: d.now().Add(execExpiry).UnixMilli(),
	}, &started)
	if err != nil {
		return boundary.Exit{}, err
	}
	d.send(session.Up{ID: m.ID, Event: session.Started, ProcessID: started.ProcessID})
	return d.relay(ctx, stream, m.ID, j)
}

func (d *desk) connect(ctx context.Context, c *confirmed, m session.Down, j *job) (boundary.Exit, error) {
	stream, err := boundary.Ask(ctx, c.cc, boundary.LoopbackConnect{Operation: boundary.OpLoopbackConnect, Port: m.Port}, &struct{}{})
	if err != nil {
		return boundary.Exit{}, err
	}
	d.send(session.Up{ID: m.ID, Event: session.Started})
	return d.relay(ctx, stream, m.ID, j)
}

// relay passes input and output until the runtime says how it ended.
func (d *desk) relay(ctx context.Context, stream *boundary.Stream, id string, j *job) (boundary.Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	var feeding sync.WaitGroup
	feeding.Go(func() { feed(ctx, stream, j.input) })
	defer feeding.Wait()
	defer cancel()
	for {
		channel, b, err := boundary.ReadStream(stream)
		if err != nil {
			return boundary.Exit{}, boundary.AsFailure(err)
		}
		switch channel {
		case boundary.Stdout:
			d.send(session.Up{ID: id, Event: session.Stdout, Data: b})
		case boundary.Stderr:
			d.send(session.Up{ID: id, Event: session.Stderr, Data: b})
		case boundary.Exited:
			var exit boundary.Exit
			err := json.Unmarshal(b, &exit)
			return exit, err
		default:
			return boundary.Exit{}, boundary.Failed(boundary.Invalid, "the runtime sent a frame on channel %d", channel)
		}
	}
}

// feed passes input on. A write that fails shows again, with its reason, where the stream is read.
func feed(ctx context.Context, stream *boundary.Stream, input <-chan session.Down) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-input:
			channel := boundary.Stdin
			if m.Op == session.StdinClosed {
				channel = boundary.StdinClosed
			}
			if err := boundary.WriteStream(stream, channel, m.Data); err != nil {
				return
			}
		}
	}
}
