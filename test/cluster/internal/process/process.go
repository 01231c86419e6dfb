package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spec describes one program.
type Spec struct {
	Name string // log file name and name in errors
	Path string
	Args []string
}

// Process is a running program.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once the program has ended
}

// Starter starts programs from one operating system thread that lives as long as the Starter. The
// kernel sends the parent-death signal when the *thread* that forked ends, so an ordinary goroutine
// is not enough; and a thread can be inside another network namespace than the rest of the process.
type Starter struct {
	dir   string // of the log files
	calls chan func()
	once  sync.Once
}

// NewStarter returns a Starter whose programs log below dir. With netns not empty, they run in the
// network namespace mounted at that path. Close ends the thread, and with it whatever still runs.
func NewStarter(dir, netns string) (*Starter, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the log directory: %w", err)
	}
	s := &Starter{dir: dir, calls: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if netns != "" {
			if err := enter(netns); err != nil {
				ready <- err
				return
			}
		}
		ready <- nil
		for f := range s.calls {
			f()
		}
	}()
	return s, <-ready
}

func enter(netns string) error {
	f, err := os.Open(netns)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", netns, err)
	}
	return nil
}

// Close ends the Starter's thread. Programs that were not stopped are killed by the kernel.
func (s *Starter) Close() { s.once.Do(func() { close(s.calls) }) }

// Start runs a program. It returns once it is running, which says nothing about its readiness.
func (s *Starter) Start(spec Spec) (*Process, error) {
	path := filepath.Join(s.dir, spec.Name+".log")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own keeps a terminal's Ctrl-C away: the owner decides the order of stopping.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{Name: spec.Name, cmd: cmd, log: path, done: make(chan struct{})}
	started := make(chan error, 1)
	s.calls <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.done)
	}()
	return p, nil
}

// Run runs a program to its end and returns its combined output in the error if it fails.
func (s *Starter) Run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	result := make(chan error, 1)
	s.calls <- func() { result <- cmd.Run() }
	if err := <-result; err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// PID returns the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the program.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop asks with SIGTERM, then, after grace, kills. It returns when the program is gone.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the program at once, as kill -9 does, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Await polls ready until it returns nil. A program that ends first, or ctx, ends the wait with an
// error that carries the end of the program's log.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("never asked")
	for {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready (%s); its log ends:\n%s", p.Name, p.cmd.ProcessState, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log ends:\n%s", p.Name, last, p.Tail())
		case <-tick.C:
			if last = ready(ctx); last == nil {
				return nil
			}
		}
	}
}

// Tail returns the last few KiB of the program's log.
func (p *Process) Tail() string {
	body, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	if len(body) > most {
		body = body[len(body)-most:]
	}
	return string(body)
}
