package daemons_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// limit ends a wait for something that will never happen.
const limit = 60 * time.Second

// client opens a connection per request: daemons stop and start under it.
var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// process is a running daemon.
type process struct {
	t      *testing.T
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

// programs remembers what was built, by daemon.
var programs struct {
	sync.Mutex
	paths map[string]string
}

func program(t *testing.T, daemon string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if programs.paths[daemon] == "" {
		if programs.paths == nil {
			programs.paths = map[string]string{}
		}
		programs.paths[daemon] = cluster.Build(t, daemon, "services/"+daemon, "./cmd/"+daemon)
	}
	return programs.paths[daemon]
}

func settings(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command is the daemon with nothing of this machine's environment that it could read.
func command(t *testing.T, daemon string, args ...string) *exec.Cmd {
	t.Helper()
	// What should end by itself must not hang the test when it does not.
	ctx, cancel := context.WithTimeout(t.Context(), 5*limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program(t, daemon), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	return cmd
}

// start runs the daemon with the settings; it is killed when the test ends.
func start(t *testing.T, daemon, text string) *process {
	t.Helper()
	cmd := command(t, daemon, "--config", settings(t, text))
	p := &process{t: t, name: daemon, cmd: cmd, stderr: &transcript{}, done: make(chan struct{})}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s wrote:\n%s", daemon, p.stderr)
		}
	})
	return p
}

// logged waits for a log line with the message and returns the value of one of its keys.
func (p *process) logged(message, key string) string {
	p.t.Helper()
	var value string
	cluster.Eventually(p.t, fmt.Sprintf("%s logs %q", p.name, message), func(context.Context) error {
		for line := range strings.Lines(p.stderr.String()) {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) == nil && entry["message"] == message {
				value, _ = entry[key].(string)
				return nil
			}
		}
		select {
		case <-p.done:
			p.t.Fatalf("%s ended: %v\n%s", p.name, p.cmd.ProcessState, p.stderr)
		default:
		}
		return errors.New("not yet")
	})
	return value
}

// readiness asks the admin listener.
func (p *process) readiness(ctx context.Context) (status int, body string, err error) {
	url := "http://" + p.logged("starting", "address") + "/readyz?verbose"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (p *process) awaitReady() {
	p.t.Helper()
	cluster.Eventually(p.t, p.name+" ready", func(ctx context.Context) error {
		status, body, err := p.readiness(ctx)
		if err == nil && status != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
}

// awaitNotReady waits until readiness is denied with a reason that contains want.
func (p *process) awaitNotReady(want string) {
	p.t.Helper()
	cluster.Eventually(p.t, p.name+" not ready: "+want, func(ctx context.Context) error {
		status, body, err := p.readiness(ctx)
		if err == nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, want)) {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

// stop asks the daemon to stop and demands that it does so with exit code 0.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("%s does not stop", p.name)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s exits with %d after a requested stop:\n%s", p.name, code, p.stderr)
	}
}
