package mesh

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
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one program that runs. Its methods are safe for concurrent use.
type Process struct {
	// Name of the program, LogFile what it writes.
	Name, LogFile string

	command *exec.Cmd
	ended   chan struct{}
	begin   int64 // of what this process wrote, in a file that former ones wrote too
	mu      sync.Mutex
	err     error
}

// spawn starts a program with an environment of its own; all that it writes goes into a file of dir. It is killed when we are.
func spawn(dir, name, path string, args ...string) (*Process, error) {
	p := &Process{Name: name, LogFile: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if info, err := log.Stat(); err == nil {
		p.begin = info.Size()
	}
	p.command = exec.Command(path, args...)
	p.command.Stdout, p.command.Stderr, p.command.Dir = log, log, dir
	p.command.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
	// A signal to the terminal is for whoever runs the mesh.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The kernel means the thread that started it when it says parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err != nil {
			return
		}
		err = p.command.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		_ = log.Close()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends it as a crash does, and waits for its end.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// grace is how long a process may take to stop, more than the daemons' own.
const grace = 30 * time.Second

// Stop asks it to stop and waits. An error says that it did not stop well.
func (p *Process) Stop() error {
	select {
	case <-p.ended:
		return p.failure()
	default:
	}
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.failure()
	case <-time.After(grace):
		p.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed; its log is %s", p.Name, grace, p.LogFile)
	}
}

func (p *Process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("%s ended: %w; its last words:\n%s", p.Name, p.err, p.tail())
}

// tail is the end of the log.
func (p *Process) tail() string {
	const lines = 8
	text, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Logged waits until the process has written a line with the message and returns the value of one of its keys.
func (p *Process) Logged(ctx context.Context, message, key string) (string, error) {
	for {
		if value, ok := p.look(message, key); ok {
			return value, nil
		}
		select {
		case <-p.ended:
			if value, ok := p.look(message, key); ok {
				return value, nil
			}
			return "", errors.Join(fmt.Errorf("%s never wrote %q", p.Name, message), p.failure())
		case <-ctx.Done():
			return "", fmt.Errorf("%s has not written %q: %w; its last words:\n%s", p.Name, message, context.Cause(ctx), p.tail())
		case <-time.After(lookAgain):
		}
	}
}

const lookAgain = 20 * time.Millisecond

func (p *Process) look(message, key string) (string, bool) {
	entries := p.Said(message)
	if len(entries) == 0 {
		return "", false
	}
	last, _ := entries[len(entries)-1][key].(string)
	return last, true
}

// Entries are the lines of the log that fit, as objects, in their order.
func (p *Process) Entries(fits func(map[string]any) bool) []map[string]any { return p.lines("", fits) }

// Said are the lines of the log with a message, as objects, in their order. It is cheaper than Entries.
func (p *Process) Said(message string) []map[string]any {
	return p.lines(strconv.Quote(message), func(entry map[string]any) bool { return entry["message"] == message })
}

// lines reads those lines that have a text in them, and keeps those that fit.
func (p *Process) lines(with string, fits func(map[string]any) bool) []map[string]any {
	text, err := os.ReadFile(p.LogFile)
	if err != nil || int64(len(text)) < p.begin {
		return nil
	}
	text = text[p.begin:]
	var entries []map[string]any
	for line := range bytes.Lines(text) {
		entry := map[string]any{}
		if bytes.Contains(line, []byte(with)) && json.Unmarshal(line, &entry) == nil && fits(entry) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// ready waits until the process says that it is ready at its admin address.
func (p *Process) ready(ctx context.Context, address string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var last string
	for {
		status, body, err := get(ctx, client, "http://"+address+"/readyz?verbose")
		switch {
		case err != nil:
			last = err.Error()
		case status == http.StatusOK:
			return nil
		default:
			last = body
		}
		select {
		case <-p.ended:
			return errors.Join(fmt.Errorf("%s was never ready", p.Name), p.failure())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.Name, context.Cause(ctx), strings.TrimSpace(last))
		case <-time.After(lookAgain):
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, string(text), err
}
