//go:build linux

package udsock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/rs/zerolog"
)

// childPath names the environment variable that turns the test binary into a child
// process that serves the socket path in it.
const childPath = "UDSOCK_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		os.Exit(serveChild(path))
	}
	os.Exit(m.Run())
}

// serveChild listens, says so, greets every peer and stops when stdin ends.
func serveChild(path string) int {
	l, err := Listen(context.Background(), path, Options{Log: zerolog.Nop()})
	if err != nil {
		fmt.Println("error:", err)
		return 0
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hello"))
			_ = conn.Close()
		}
	}()
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Close(); err != nil {
		fmt.Println("error:", err)
	}
	return 0
}

type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

// startChild runs the test binary as a server of path.
func startChild(t *testing.T, path string) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childPath+"="+path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start child: %v", err)
	}
	c := &child{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return c
}

// line is the child's next line, or empty when it has ended.
func (c *child) line() string {
	if !c.lines.Scan() {
		return ""
	}
	return c.lines.Text()
}

// stop ends a serving child in order.
func (c *child) stop(t *testing.T) {
	t.Helper()
	_ = c.stdin.Close()
	for line := c.line(); line != ""; line = c.line() {
		t.Errorf("child said on exit: %s", line)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// kill is kill -9.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
}
