package runtime

import (
	"context"
	"os/exec"
	goruntime "runtime"
	"syscall"
)

// forker starts all processes from one thread, which lives as long as the runtime: the kernel sends
// the death signal of a child when the thread that made it ends, not when the process does.
type forker struct {
	asked chan fork
	gone  chan struct{}
}

type fork struct {
	cmd  *exec.Cmd
	done chan error
}

func newForker() *forker { return &forker{asked: make(chan fork), gone: make(chan struct{})} }

// run serves until ctx ends. Its thread ends with it, and with that everything it started.
func (f *forker) run(ctx context.Context) {
	goruntime.LockOSThread() // never unlocked
	defer close(f.gone)
	for {
		select {
		case <-ctx.Done():
			return
		case req := <-f.asked:
			req.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			req.done <- req.cmd.Start()
		}
	}
}

// start starts cmd in a process group of its own.
func (f *forker) start(cmd *exec.Cmd) error {
	req := fork{cmd: cmd, done: make(chan error, 1)}
	select {
	case f.asked <- req:
		return <-req.done
	case <-f.gone:
		return context.Canceled
	}
}
