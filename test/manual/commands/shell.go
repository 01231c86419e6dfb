package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Shell is a place in which commands are typed.
type Shell struct {
	// Dir is where they are typed, Env all of their environment.
	Dir string
	Env []string
	// Here are the names and addresses of the place instead of those of the documents.
	Here *strings.Replacer
}

// Run types a piece of a document, and returns what it printed.
func (s *Shell) Run(ctx context.Context, text string) (string, error) {
	out, err := s.command(ctx, text).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w\n%s\n%s", err, s.Here.Replace(text), out)
	}
	return string(out), nil
}

// Follow types one command, and interrupts it as soon as it has written something. It is an error when it ends without.
func (s *Shell) Follow(ctx context.Context, line string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := s.command(ctx, line)
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	c.Stdout, c.Stderr = write, write
	if err := errors.Join(c.Start(), write.Close()); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Here.Replace(line))
	}
	const most = 4096
	said := make([]byte, most)
	n, err := read.Read(said)
	// One that says why it cannot, says so and ends: then all of it is there to read.
	cancel()
	ended := c.Wait()
	if err != nil {
		return fmt.Errorf("it writes nothing: %w\n%s", errors.Join(err, ended), s.Here.Replace(line))
	}
	if text := said[:n]; bytes.Contains(bytes.ToLower(text), []byte("error")) {
		return fmt.Errorf("it writes of an error:\n%s\n%s", s.Here.Replace(line), text)
	}
	return nil
}

func (s *Shell) command(ctx context.Context, text string) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", s.Here.Replace(text))
	c.Dir, c.Env = s.Dir, s.Env
	// With all that it has started.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}
