package gatewayside

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
)

// maxOutput is how much output of one command is kept.
const maxOutput = 8 << 20

// errOver is what operations get when the session has ended.
var errOver = errors.New("the session has ended")

// Session is one supervisor's session.
type Session struct {
	stream  grpc.ServerStream
	changed func()
	over    chan struct{}
	dropped chan struct{}
	drop    func() // closes dropped, once

	sending sync.Mutex

	mu           sync.Mutex
	next         int
	open         map[string]*Process
	main         string
	confirmation *boundary.Confirmation
	mainExit     *boundary.Exit
	mainExited   chan struct{}
}

func newSession(stream grpc.ServerStream, changed func()) *Session {
	s := &Session{
		stream: stream, changed: changed, over: make(chan struct{}), dropped: make(chan struct{}), open: map[string]*Process{},
		mainExited: make(chan struct{}),
	}
	s.drop = sync.OnceFunc(func() { close(s.dropped) })
	return s
}

// Confirmation returns what the runtime measured, nil before it was confirmed.
func (s *Session) Confirmation() *boundary.Confirmation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmation
}

// MainProcess returns the main process's id, "" before it was started.
func (s *Session) MainProcess() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.main
}

// Over is closed when the session has ended.
func (s *Session) Over() <-chan struct{} { return s.over }

// AwaitMain returns how the main process ended.
func (s *Session) AwaitMain(ctx context.Context) (boundary.Exit, error) {
	select {
	case <-s.mainExited:
		s.mu.Lock()
		defer s.mu.Unlock()
		return *s.mainExit, nil
	case <-s.over:
		return boundary.Exit{}, errOver
	case <-ctx.Done():
		return boundary.Exit{}, ctx.Err()
	}
}

func (s *Session) send(m session.Down) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.SendMsg(&m)
}

// Drop ends the session.
func (s *Session) Drop() { s.drop() }

// MainExit returns how the main process ended, nil while it runs as far as is known.
func (s *Session) MainExit() *boundary.Exit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mainExit
}

// receive takes messages until the session ends.
func (s *Session) receive() error {
	messages, failed := make(chan session.Up), make(chan error, 1)
	go func() {
		for {
			var m session.Up
			if err := s.stream.RecvMsg(&m); err != nil { // at the latest when the stream's handler has returned
				failed <- err
				return
			}
			select {
			case messages <- m:
			case <-s.dropped:
				return
			}
		}
	}()
	for {
		select {
		case m := <-messages:
			if s.take(m) {
				s.changed()
			}
		case err := <-failed:
			return err
		case <-s.dropped:
			return status.Error(codes.Unavailable, "the gateway ended the session")
		}
	}
}

// finish ends everything that is under way.
func (s *Session) finish() {
	close(s.over)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.open {
		p.end(nil, errOver)
	}
}

// take handles a message and reports whether the session itself changed.
func (s *Session) take(m session.Up) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Event {
	case session.Confirmed:
		s.main, s.confirmation = m.ProcessID, m.Confirmation
		return true
	case session.MainExited:
		if s.mainExit == nil && m.Exit != nil {
			s.mainExit = m.Exit
			close(s.mainExited)
		}
		return true
	default:
	}
	p := s.open[m.ID]
	if p == nil {
		return false
	}
	switch m.Event {
	case session.Started:
		p.begin(m.ProcessID)
	case session.Stdout:
		p.output(&p.out.Stdout, m.Data)
	case session.Stderr:
		p.output(&p.out.Stderr, m.Data)
	case session.Exited:
		delete(s.open, m.ID)
		p.end(m.Exit, nil)
	case session.Done:
		delete(s.open, m.ID)
		p.end(&boundary.Exit{}, nil)
	case session.Failed:
		delete(s.open, m.ID)
		p.end(nil, failed(m.Failure))
	default:
	}
	return false
}

func failed(f *boundary.Failure) error {
	if f == nil {
		return errors.New("it failed, and the supervisor did not say why")
	}
	return f
}

// begin opens an operation.
func (s *Session) begin(m session.Down) (*Process, error) {
	s.mu.Lock()
	select {
	case <-s.over:
		s.mu.Unlock()
		return nil, errOver
	default:
	}
	s.next++
	m.ID = fmt.Sprintf("%d", s.next)
	p := &Process{session: s, id: m.ID, started: make(chan struct{}), ended: make(chan struct{}), more: make(chan struct{})}
	s.open[m.ID] = p
	s.mu.Unlock()
	if err := s.send(m); err != nil {
		s.mu.Lock()
		delete(s.open, m.ID)
		s.mu.Unlock()
		return nil, err
	}
	return p, nil
}

// do runs an operation that has no output.
func (s *Session) do(ctx context.Context, m session.Down) (boundary.Exit, error) {
	p, err := s.begin(m)
	if err != nil {
		return boundary.Exit{}, err
	}
	out, err := p.Wait(ctx)
	return out.Exit, err
}

// Wait waits for the end of a process that the runtime started.
func (s *Session) Wait(ctx context.Context, processID string) (boundary.Exit, error) {
	return s.do(ctx, session.Down{Op: session.Wait, ProcessID: processID})
}

// Signal sends a signal to a process's group.
func (s *Session) Signal(ctx context.Context, processID string, signal int) error {
	_, err := s.do(ctx, session.Down{Op: session.Signal, ProcessID: processID, Signal: signal})
	return err
}

// Terminate asks a process's group to end, and has it killed after the grace.
func (s *Session) Terminate(ctx context.Context, processID string, graceMillis int64) (boundary.Exit, error) {
	return s.do(ctx, session.Down{Op: session.Terminate, ProcessID: processID, GraceMillis: graceMillis})
}

// Start runs a command with env on top of its environment.
func (s *Session) Start(command []string, env map[string]string) (*Process, error) {
	return s.begin(session.Down{Op: session.Exec, Command: command, Env: env})
}

// Connect connects to a port on the workload's loopback. What the port says is the Process's Stdout.
func (s *Session) Connect(port uint16) (*Process, error) {
	return s.begin(session.Down{Op: session.Connect, Port: port})
}

// Run runs a command to its end. The error is a *boundary.Failure when the sandbox refused.
func (s *Session) Run(ctx context.Context, command []string, stdin []byte) (Output, error) {
	p, err := s.Start(command, nil)
	if err != nil {
		return Output{}, err
	}
	if err := errors.Join(p.Write(stdin), p.CloseStdin()); err != nil {
		return Output{}, err
	}
	return p.Wait(ctx)
}
