package supervisor_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

// connected starts everything and returns the session.
func connected(t *testing.T, main ...string) (*site, *gatewayside.Session) {
	t.Helper()
	s := newSite(t, companionstest.Command(t, main...), nil)
	s.startRuntime()
	g, _ := s.startGateway()
	s.startSupervisor()
	session, err := g.Await(companionstest.Limit(t), materialtest.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	return s, session
}

// kind checks that the sandbox refused.
func kind(t *testing.T, err error, want boundary.Kind, about string) {
	t.Helper()
	var f *boundary.Failure
	if !errors.As(err, &f) || f.Kind != want || !strings.Contains(f.Message, about) {
		t.Errorf("error %v, want %s for %q", err, want, about)
	}
}

func TestCommandsThroughTheChannel(t *testing.T) {
	t.Parallel()
	s, session := connected(t, "sleep")
	ctx := companionstest.Limit(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for name, tc := range map[string]struct {
		args          []string
		stdin, stdout []byte
		stderr        string
		exit          boundary.Exit
	}{
		"output":      {args: []string{"echo", "hello"}, stdout: []byte("hello\n")},
		"input":       {args: []string{"cat"}, stdin: big, stdout: big},
		"exit code":   {args: []string{"exit", "7"}, exit: boundary.Exit{Code: 7}},
		"error":       {args: []string{"dance"}, stderr: "not known", exit: boundary.Exit{Code: 1}},
		"environment": {args: []string{"env"}, stdout: []byte("GREETING=hello\nPATH=/usr/bin:/bin\n")},
		"workspace":   {args: []string{"write", "made", "here"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := session.Run(ctx, companionstest.Command(t, tc.args...), tc.stdin)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Stdout, tc.stdout) || !bytes.Contains(out.Stderr, []byte(tc.stderr)) || out.Exit != tc.exit {
				t.Errorf("%d bytes %.60q, %q, %+v", len(out.Stdout), out.Stdout, out.Stderr, out.Exit)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(s.settings.Workdir, "made")); err != nil || string(b) != "here" {
		t.Errorf("the workspace's file holds %q, %v", b, err)
	}
	_, err := session.Run(ctx, []string{"/no/such"}, nil)
	kind(t, err, boundary.Process, "/no/such")
	_, err = session.Wait(ctx, "none")
	kind(t, err, boundary.Invalid, "no such process")
	if err := s.health(ctx); err != nil {
		t.Errorf("not ready: %v", err)
	}
}

func TestProcessesAreSignalled(t *testing.T) {
	t.Parallel()
	_, session := connected(t, "sleep")
	ctx := companionstest.Limit(t)
	p, err := session.Start(companionstest.Command(t, "sleep"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitOutput(ctx, "sleeping"); err != nil {
		t.Fatal(err)
	}
	id, err := p.ID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Signal(ctx, id, int(syscall.SIGINT)); err != nil {
		t.Fatal(err)
	}
	want := boundary.Exit{Code: -1, Signal: int(syscall.SIGINT)}
	if out, err := p.Wait(ctx); err != nil || out.Exit != want {
		t.Errorf("exit %+v, %v", out.Exit, err)
	}
	if exit, err := session.Wait(ctx, id); err != nil || exit != want {
		t.Errorf("waited for %+v, %v", exit, err)
	}
	kind(t, session.Signal(ctx, id, int(syscall.SIGINT)), boundary.Terminated, "ended")
	// The main process, by the gateway's wish.
	exit, err := session.Terminate(ctx, session.MainProcess(), 30_000)
	if err != nil || exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("terminated with %+v, %v", exit, err)
	}
	if exit, err := session.AwaitMain(ctx); err != nil || exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("told %+v, %v", exit, err)
	}
}

func TestLoopbackThroughTheChannel(t *testing.T) {
	t.Parallel()
	_, session := connected(t, "sleep")
	ctx := companionstest.Limit(t)
	server, err := session.Start(companionstest.Command(t, "serve", "127.0.0.1:0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.AwaitOutput(ctx, "is open"); err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(strings.Fields(string(server.Stdout()))[1])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := session.Connect(uint16(port))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Write([]byte("ping")), conn.CloseStdin()); err != nil {
		t.Fatal(err)
	}
	if said, err := conn.Wait(ctx); err != nil || string(said.Stdout) != "ping" {
		t.Errorf("the port said %q, %v", said.Stdout, err)
	}
	id, err := server.ID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Cancel(); err != nil {
		t.Fatal(err)
	}
	if out, err := server.Wait(ctx); err == nil {
		t.Errorf("a cancelled command ended with %+v", out.Exit)
	}
	if exit, err := session.Wait(ctx, id); err != nil || exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("a cancelled command ended with %+v, %v", exit, err)
	}
}
