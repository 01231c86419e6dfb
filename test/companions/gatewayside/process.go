package gatewayside

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
)

// Output is what a command said and how it ended.
type Output struct {
	Stdout, Stderr []byte
	Exit           boundary.Exit
}

// Process is a command or a connection in the sandbox.
type Process struct {
	session *Session
	id      string
	started chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	remote string
	out    Output
	err    error
	done   bool
	more   chan struct{} // closed at the next output
}

// ID returns the process's id in the runtime, once it was started; "" for a connection.
func (p *Process) ID(ctx context.Context) (string, error) {
	select {
	case <-p.started:
	case <-p.ended:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remote, p.err
}

// maxPart is how much input goes into one message.
const maxPart = 32 << 10

// Write sends input.
func (p *Process) Write(b []byte) error {
	for part := range slices.Chunk(b, maxPart) {
		if err := p.session.send(session.Down{ID: p.id, Op: session.Stdin, Data: part}); err != nil {
			return err
		}
	}
	return nil
}

// CloseStdin ends the input.
func (p *Process) CloseStdin() error {
	return p.session.send(session.Down{ID: p.id, Op: session.StdinClosed})
}

// Cancel drops the command, which kills it.
func (p *Process) Cancel() error {
	return p.session.send(session.Down{ID: p.id, Op: session.Cancel})
}

// Wait returns what the command said once it has ended.
func (p *Process) Wait(ctx context.Context) (Output, error) {
	select {
	case <-p.ended:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.out, p.err
	case <-ctx.Done():
		return Output{}, errors.Join(ctx.Err(), p.Cancel())
	}
}

// AwaitOutput returns when the standard output contains want, with an error when the command ends
// before that.
func (p *Process) AwaitOutput(ctx context.Context, want string) error {
	for {
		p.mu.Lock()
		found, done, more := bytes.Contains(p.out.Stdout, []byte(want)), p.done, p.more
		p.mu.Unlock()
		switch {
		case found:
			return nil
		case done:
			return errors.New("the command has ended without saying " + want)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stdout returns the standard output so far.
func (p *Process) Stdout() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.out.Stdout)
}

func (p *Process) begin(remote string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remote = remote
	close(p.started)
}

func (p *Process) output(to *[]byte, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, b[:min(len(b), max(0, maxOutput-len(*to)))]...)
	p.news()
}

func (p *Process) end(exit *boundary.Exit, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	if exit != nil {
		p.out.Exit = *exit
	}
	p.err, p.done = err, true
	p.news()
	close(p.ended)
}

// news wakes who waits for output.
func (p *Process) news() {
	close(p.more)
	p.more = make(chan struct{})
}
