package commandtest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/command"
)

// Patience ends a wait for something that will never happen.
const Patience = 60 * time.Second

// Transcript is a buffer that may be written to while the test reads it.
type Transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends.
func (w *Transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

// String is all that was written so far.
func (w *Transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// Result is what one run of a program left behind.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Program is that of a daemon.
type Program struct {
	main      func(ctx context.Context, env command.Environment) int
	variables map[string]string
}

// Of is the program of the daemon that describe gives, once for each run.
func Of[S command.Settings](describe func() command.Daemon[S]) Program {
	return Program{main: func(ctx context.Context, env command.Environment) int { return command.Main(ctx, describe(), env) }}
}

// With is the program with these environment variables alone.
func (p Program) With(variables map[string]string) Program {
	p.variables = variables
	return p
}

func (p Program) lookup(name string) (string, bool) {
	value, ok := p.variables[name]
	return value, ok
}

func (p Program) run(ctx context.Context, stdout, stderr *Transcript, args []string) int {
	return p.main(ctx, command.Environment{
		Args: args, LookupEnv: p.lookup, Stdout: stdout, Stderr: stderr, Exit: func(int) {},
	})
}

// Run runs the program to its end, which comes at the latest when ctx ends.
func (p Program) Run(ctx context.Context, args ...string) Result {
	var stdout, stderr Transcript
	code := p.run(ctx, &stdout, &stderr, args)
	return Result{code, stdout.String(), stderr.String()}
}

// Start runs the program until the test ends, or Stop.
func (p Program) Start(t testing.TB, args ...string) *Process {
	t.Helper()
	process := &Process{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- p.run(ctx, &process.Stdout, &process.Stderr, args) }()
	process.Stop = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { process.Stop() })
	return process
}

// WriteFile makes a file that is the owner's alone, and returns its path.
func WriteFile(t testing.TB, directory, name, text string) string {
	t.Helper()
	path := filepath.Join(directory, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Eventually repeats a look until it is true.
func Eventually(t testing.TB, what string, look func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !look(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
