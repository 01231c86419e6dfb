package program

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// Limit ends a wait for something that will never happen.
const Limit = 60 * time.Second

// built remembers what was built, by daemon.
var built struct {
	sync.Mutex
	paths map[string]string
}

// Path builds the daemon if this test binary has not done so, and returns its path.
func Path(t testing.TB, daemon string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.paths[daemon] == "" {
		if built.paths == nil {
			built.paths = map[string]string{}
		}
		built.paths[daemon] = cluster.Build(t, daemon, "services/"+daemon, "./cmd/"+daemon)
	}
	return built.paths[daemon]
}

// Settings writes a settings file and returns its path.
func Settings(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Command is the daemon with nothing of this machine's environment that it could read, killed after five Limits: what
// should end by itself must not hang the test when it does not.
func Command(t testing.TB, daemon string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*Limit)
	t.Cleanup(cancel)
	return command(ctx, t, daemon, args...)
}

func command(ctx context.Context, t testing.TB, daemon string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, Path(t, daemon), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	return cmd
}

// Process is a running daemon. Its methods belong to the test's goroutine.
type Process struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	stderr *transcript
	done   chan struct{}
}

// transcript collects what a process writes while the test reads it.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// Start runs the daemon with the settings, and with these variables, KEY=value, beside those that all have; it is killed when the test
// ends, and its log is shown if the test failed. A command of a daemon's that runs on comes after its name: "lifecycle relay".
func Start(t testing.TB, daemon, settings string, variables ...string) *Process {
	t.Helper()
	words := strings.Fields(daemon)
	cmd := command(t.Context(), t, words[0], append(words[1:], "--config", Settings(t, settings))...) // it lives as long as the test, which may wait for its turn
	cmd.Env = append(cmd.Env, variables...)
	p := &Process{t: t, name: daemon, cmd: cmd, stderr: &transcript{}, done: make(chan struct{})}
	cmd.Stderr = p.stderr
	// A test binary that is ended for its time limit cleans nothing up: what it has started must not outlive it, and hold what it has
	// inherited.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The kernel means the thread that started it when it says parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s wrote:\n%s", daemon, p.stderr)
		}
	})
	return p
}

// Output is everything that the process has written to standard error.
func (p *Process) Output() string { return p.stderr.String() }

// SettingsFile is where the process reads its settings.
func (p *Process) SettingsFile() string { return p.cmd.Args[len(p.cmd.Args)-1] }

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// ExitCode is that of a process that has ended; -1 before, and after a signal.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Stop asks the daemon to stop and demands that it does so with exit code 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.AwaitEnd()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s exits with %d after a requested stop:\n%s", p.name, code, p.stderr)
	}
}

// Kill ends the process without a word (SIGKILL) and waits for its end.
func (p *Process) Kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.AwaitEnd()
}

// Pause stops the process where it is (SIGSTOP), until Resume.
func (p *Process) Pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
}

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

// AwaitEnd waits for the end of the process.
func (p *Process) AwaitEnd() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(Limit):
		p.t.Fatalf("%s does not end:\n%s", p.name, p.stderr)
	}
}

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %s to %s: %v", s, p.name, err)
	}
}
