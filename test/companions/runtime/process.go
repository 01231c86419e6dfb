package runtime

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// maxProcesses is how many processes one runtime ever starts; how each ended is kept.
const maxProcesses = 4096

// outputDelay is how long a pipe is read that a program outside of the ended group still holds.
const outputDelay = 5 * time.Second

// command is what to run.
type command struct {
	args    []string
	env     map[string]string // all of it
	workdir string
	stdin   io.ReadCloser // closed when the leader ends; may be nil
	stdout  io.Writer
	stderr  io.Writer
}

// process is a process group that the runtime made. Its leader's end ends the group.
type process struct {
	id   string
	done chan struct{} // closed when exit is known and the group is gone
	exit boundary.Exit

	mu     sync.Mutex
	cmd    *exec.Cmd
	stdin  io.Closer
	reaped bool // the group's id may be another's from now on
}

// processes are all that the runtime started.
type processes struct {
	forker *forker
	wg     sync.WaitGroup
	mu     sync.Mutex
	closed bool
	byID   map[string]*process
}

func newProcesses(f *forker) *processes {
	return &processes{forker: f, byID: map[string]*process{}}
}

// start runs c.
func (t *processes) start(c command) (*process, *boundary.Failure) {
	if len(c.args) == 0 || c.args[0] == "" {
		return nil, boundary.Failed(boundary.Invalid, "command: empty")
	}
	path, err := lookUp(c.args[0], c.env["PATH"])
	if err != nil {
		return nil, boundary.Failed(boundary.Process, "run %s: %v", c.args[0], err)
	}
	if info, err := os.Stat(c.workdir); err != nil || !info.IsDir() {
		return nil, boundary.Failed(boundary.Process, "run %s: workdir: %q is no directory", c.args[0], c.workdir)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, boundary.Failed(boundary.Terminated, "run %s: the runtime is ending", c.args[0])
	case len(t.byID) >= maxProcesses:
		return nil, boundary.Failed(boundary.Unavailable, "run %s: %d processes were started, and no more will be", c.args[0], maxProcesses)
	}
	env := make([]string, 0, len(c.env)) // never nil: that would be the runtime's own
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		env = append(env, name+"="+c.env[name])
	}
	p := &process{id: boundary.NewUUID(), done: make(chan struct{}), cmd: &exec.Cmd{
		Path: path, Args: c.args, Env: env, Dir: c.workdir, Stdout: c.stdout, Stderr: c.stderr, WaitDelay: outputDelay,
	}}
	if c.stdin != nil {
		p.cmd.Stdin, p.stdin = c.stdin, c.stdin
	}
	if err := t.forker.start(p.cmd); err != nil {
		return nil, boundary.Failed(boundary.Process, "run %s: %v", c.args[0], err)
	}
	t.byID[p.id] = p
	t.wg.Go(p.await)
	return p, nil
}

func (t *processes) find(operation, id string) (*process, *boundary.Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.byID[id]; ok {
		return p, nil
	}
	return nil, boundary.Failed(boundary.Invalid, "%s: no such process", operation)
}

// end kills everything and waits for it.
func (t *processes) end() {
	t.mu.Lock()
	t.closed = true
	for _, p := range t.byID {
		_ = p.signal(syscall.SIGKILL)
	}
	t.mu.Unlock()
	t.wg.Wait()
}

// await waits for the leader, kills what is left of its group while the leader still holds the
// group's id, and only then reaps it.
func (p *process) await() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.reaped = true
	p.mu.Unlock()
	if p.stdin != nil {
		_ = p.stdin.Close() // or else Wait would wait for input that nobody reads
	}
	_ = p.cmd.Wait() // how it ended is in the state
	p.exit = boundary.Exit{Code: p.cmd.ProcessState.ExitCode()}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Signal = int(status.Signal())
	}
	close(p.done)
}

// signal sends to the whole group.
func (p *process) signal(s syscall.Signal) *boundary.Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return boundary.Failed(boundary.Terminated, "signal: the process has ended")
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
		return boundary.Failed(boundary.Process, "signal: %v", err)
	}
	return nil
}

// terminate asks the group to end, kills it after the grace, and waits for the leader's end.
func (p *process) terminate(grace time.Duration) boundary.Exit {
	_ = p.signal(syscall.SIGTERM) // an ended process is what we want
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.signal(syscall.SIGKILL)
		<-p.done
	}
	return p.exit
}

// lookUp finds a program the way a shell in the command's environment would.
func lookUp(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", exec.ErrNotFound
}
