package runtime

import (
	"context"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/exactjson"
)

// maxGrace is the longest grace of terminate.
const maxGrace = time.Minute

// empty is the body of an answer that says nothing.
type empty struct{}

// agent is the main process, which is started once.
type agent struct {
	mu      sync.Mutex
	command []string
	process *process
}

func startAgent(r *Runtime, _ context.Context, request []byte) (answer, *boundary.Failure) {
	var req boundary.StartAgent
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "start_agent: %v", err)
	}
	a := &r.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.process != nil {
		if !slices.Equal(a.command, req.Command) {
			return answer{}, boundary.Failed(boundary.Invalid, "start_agent: another command was started")
		}
		return answer{body: boundary.Started{ProcessID: a.process.id}}, nil
	}
	p, failure := r.processes.start(command{
		args: req.Command, env: r.material.file.ChildEnv, workdir: req.Workdir, stdout: r.cfg.Output, stderr: r.cfg.Output,
	})
	if failure != nil {
		return answer{}, failure
	}
	a.command, a.process = req.Command, p
	r.cfg.Log.Info().Str("process", p.id).Bool("terminal_wanted", req.TTY).Msg("started the main process, without a terminal")
	return answer{body: boundary.Started{ProcessID: p.id}}, nil
}

func wait(r *Runtime, ctx context.Context, request []byte) (answer, *boundary.Failure) {
	var req boundary.Wait
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "wait: %v", err)
	}
	p, failure := r.processes.find("wait", req.ProcessID)
	if failure != nil {
		return answer{}, failure
	}
	select {
	case <-p.done:
		return answer{body: p.exit}, nil
	case <-ctx.Done():
		return answer{}, boundary.Failed(boundary.Unavailable, "wait: %v", context.Cause(ctx))
	}
}

func signal(r *Runtime, _ context.Context, request []byte) (answer, *boundary.Failure) {
	var req boundary.Signal
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "signal: %v", err)
	}
	if req.Signal < 1 || req.Signal > 64 {
		return answer{}, boundary.Failed(boundary.Invalid, "signal: %d is none", req.Signal)
	}
	p, failure := r.processes.find("signal", req.ProcessID)
	if failure != nil {
		return answer{}, failure
	}
	if failure := p.signal(syscall.Signal(req.Signal)); failure != nil {
		return answer{}, failure
	}
	return answer{body: empty{}}, nil
}

func terminate(r *Runtime, _ context.Context, request []byte) (answer, *boundary.Failure) {
	var req boundary.Terminate
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "terminate: %v", err)
	}
	grace := time.Duration(req.GraceMillis) * time.Millisecond
	if req.GraceMillis < 0 || req.GraceMillis > maxGrace.Milliseconds() {
		return answer{}, boundary.Failed(boundary.Invalid, "terminate: grace_ms: not 0 to %d", maxGrace.Milliseconds())
	}
	p, failure := r.processes.find("terminate", req.ProcessID)
	if failure != nil {
		return answer{}, failure
	}
	return answer{body: p.terminate(grace)}, nil
}

// overlaid returns the environment of an exec.
func (r *Runtime) overlaid(over map[string]string) map[string]string {
	env := maps.Clone(r.material.file.ChildEnv)
	maps.Copy(env, over)
	return env
}
