package runtime_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

func TestExec(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	big := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB, many stream frames in each direction
	for name, tc := range map[string]struct {
		args         []string
		stdin        string
		stdout, exit string
		stderr       string
	}{
		"output":      {args: []string{"echo", "a", "b"}, stdout: "a b\n", exit: `{"code":0,"signal":0}`},
		"input":       {args: []string{"cat"}, stdin: "typed", stdout: "typed", exit: `{"code":0,"signal":0}`},
		"much of it":  {args: []string{"cat"}, stdin: big, stdout: big, exit: `{"code":0,"signal":0}`},
		"exit code":   {args: []string{"exit", "42"}, exit: `{"code":42,"signal":0}`},
		"input left":  {args: []string{"exit", "0"}, stdin: big, exit: `{"code":0,"signal":0}`},
		"error":       {args: []string{"dance"}, stderr: "not known", exit: `{"code":1,"signal":0}`},
		"environment": {args: []string{"env"}, stdout: "GREETING=hello\nPATH=/usr/bin:/bin\n", exit: `{"code":0,"signal":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The process is told nothing of its parent's environment.
			out, stderr, exit := executeLong(ctx, t, cc, exec(t, tc.args...), tc.stdin)
			if out != tc.stdout || exit != tc.exit || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("stdout %.80q, stderr %.80q, exit %s; want %.80q, %q, %s", out, stderr, exit, tc.stdout, tc.stderr, tc.exit)
			}
		})
	}
	t.Run("overlay", func(t *testing.T) {
		t.Parallel()
		req := exec(t, "env")
		req.Env = map[string]string{"GREETING": "bye", "MORE": "x"}
		if out, _, _ := execute(ctx, t, cc, req, ""); out != "GREETING=bye\nMORE=x\nPATH=/usr/bin:/bin\n" {
			t.Errorf("environment %q", out)
		}
	})
}

// executeLong is execute with input that does not fit into buffers: it is written beside reading.
func executeLong(ctx context.Context, t *testing.T, cc *grpc.ClientConn, req boundary.Exec, stdin string) (stdout, stderr, exit string) {
	t.Helper()
	stream, err := boundary.Ask(ctx, cc, req, new(boundary.Started))
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = boundary.WriteStream(stream, boundary.Stdin, []byte(stdin)) // who does not read loses it
		_ = boundary.WriteStream(stream, boundary.StdinClosed, nil)
	}()
	defer func() { <-written }()
	for {
		channel, b, err := boundary.ReadStream(stream)
		if err != nil {
			t.Errorf("exec: %v", err)
			return
		}
		switch channel {
		case boundary.Stdout:
			stdout += string(b)
		case boundary.Stderr:
			stderr += string(b)
		case boundary.Exited:
			return stdout, stderr, string(b)
		default:
			t.Errorf("exec: a frame on channel %d", channel)
		}
	}
}

func TestExecIsRefused(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	for name, tc := range map[string]struct {
		change func(*boundary.Exec)
		kind   boundary.Kind
		want   string
	}{
		"expired":         {func(e *boundary.Exec) { e.ExpiresAt = time.Now().Add(-time.Second).UnixMilli() }, boundary.Denied, "expired"},
		"no expiry":       {func(e *boundary.Exec) { e.ExpiresAt = 0 }, boundary.Denied, "expired"},
		"far expiry":      {func(e *boundary.Exec) { e.ExpiresAt = time.Now().Add(time.Hour).UnixMilli() }, boundary.Invalid, "expires_at_ms"},
		"no command":      {func(e *boundary.Exec) { e.Command = []string{} }, boundary.Invalid, "command: empty"},
		"no such program": {func(e *boundary.Exec) { e.Command = []string{"/no/such"} }, boundary.Process, "/no/such"},
		"none in PATH":    {func(e *boundary.Exec) { e.Command = []string{"no-such-program"} }, boundary.Process, "not found"},
		"no directory":    {func(e *boundary.Exec) { e.Workdir = "/no/such" }, boundary.Process, "/no/such"},
	} {
		req := exec(t, "echo")
		tc.change(&req)
		t.Log(name)
		refused(t, ask(ctx, cc, req, new(boundary.Started)), tc.kind, tc.want)
	}
}

func TestMainProcess(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	dir := t.TempDir()
	start := boundary.StartAgent{Operation: boundary.OpStartAgent, Command: companionstest.Command(t, "echo", "main"), TTY: true, Workdir: dir}
	var first, again boundary.Started
	must(ctx, t, cc, start, &first)
	must(ctx, t, cc, start, &again)
	if first != again {
		t.Errorf("started twice: %v, %v", first, again)
	}
	other := start
	other.Command = companionstest.Command(t, "echo", "other")
	refused(t, ask(ctx, cc, other, new(boundary.Started)), boundary.Invalid, "another command")
	var exit boundary.Exit
	must(ctx, t, cc, boundary.Wait{Operation: boundary.OpWait, ProcessID: first.ProcessID}, &exit)
	if got := s.output.Await(ctx, t, "\n"); exit != (boundary.Exit{}) || got != "main\n" {
		t.Errorf("exit %v, output %q", exit, got)
	}
	refused(t, ask(ctx, cc, boundary.Signal{Operation: boundary.OpSignal, ProcessID: first.ProcessID, Signal: 15}, new(struct{})), boundary.Terminated, "ended")
	refused(t, ask(ctx, cc, boundary.Wait{Operation: boundary.OpWait, ProcessID: "x"}, new(boundary.Exit)), boundary.Invalid, "no such process")
	refused(t, ask(ctx, cc, boundary.Signal{Operation: boundary.OpSignal, ProcessID: first.ProcessID, Signal: 65}, new(struct{})), boundary.Invalid, "65")
	refused(t, ask(ctx, cc, boundary.Terminate{Operation: boundary.OpTerminate, ProcessID: first.ProcessID, GraceMillis: -1}, new(boundary.Exit)), boundary.Invalid, "grace_ms")
	refused(t, ask(ctx, cc, boundary.Operation{Operation: "open_mediation"}, new(struct{})), boundary.Invalid, "operation")
}

// family starts a main process that has a child, and returns the ids.
func family(ctx context.Context, t *testing.T, s *site, cc *grpc.ClientConn) (process string, child int) {
	t.Helper()
	var started boundary.Started
	must(ctx, t, cc, boundary.StartAgent{Operation: boundary.OpStartAgent, Command: companionstest.Command(t, "family"), Workdir: t.TempDir()}, &started)
	return started.ProcessID, s.output.Child(ctx, t)
}

func TestTerminateEndsTheGroup(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	process, child := family(ctx, t, s, cc)
	var exit boundary.Exit
	// The child ignores SIGTERM.
	must(ctx, t, cc, boundary.Terminate{Operation: boundary.OpTerminate, ProcessID: process, GraceMillis: 60_000}, &exit)
	if exit != (boundary.Exit{Code: -1, Signal: int(syscall.SIGTERM)}) {
		t.Errorf("exit %+v", exit)
	}
	companionstest.AwaitGone(ctx, t, child)
}

func TestSignalReachesTheGroup(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	process, child := family(ctx, t, s, cc)
	must(ctx, t, cc, boundary.Signal{Operation: boundary.OpSignal, ProcessID: process, Signal: int(syscall.SIGSTOP)}, new(struct{}))
	companionstest.AwaitStopped(ctx, t, child)
}

func TestTerminateKillsInTheEnd(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	var started boundary.Started
	must(ctx, t, cc, boundary.StartAgent{Operation: boundary.OpStartAgent, Command: companionstest.Command(t, "stubborn"), Workdir: "/"}, &started)
	s.output.Await(ctx, t, "sleeping")
	must(ctx, t, cc, boundary.Signal{Operation: boundary.OpSignal, ProcessID: started.ProcessID, Signal: int(syscall.SIGTERM)}, new(struct{}))
	var exit boundary.Exit
	must(ctx, t, cc, boundary.Terminate{Operation: boundary.OpTerminate, ProcessID: started.ProcessID, GraceMillis: 20}, &exit)
	if exit != (boundary.Exit{Code: -1, Signal: int(syscall.SIGKILL)}) {
		t.Errorf("exit %+v", exit)
	}
}

func TestRuntimeTakesTheWorkloadWithIt(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	_, child := family(ctx, t, s, cc)
	waiting := make(chan error, 1)
	go func() {
		_, err := boundary.Ask(ctx, cc, exec(t, "sleep"), new(boundary.Started))
		waiting <- err
	}()
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	s.stop()
	companionstest.AwaitGone(ctx, t, child)
}

func TestExecRefusesWrongFrames(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	for name, tc := range map[string]struct {
		wire []byte
		want string
	}{
		"too long":        {[]byte{byte(boundary.Stdin), 0, 1, 0, 1}, "stream frame of 65537 bytes"},
		"no channel":      {[]byte{6, 0, 0, 0, 0}, "channel 6"},
		"another's frame": {[]byte{byte(boundary.Exited), 0, 0, 0, 0}, "only input"},
	} {
		var started boundary.Started
		stream, err := boundary.Ask(ctx, cc, exec(t, "stubborn"), &started)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Write(tc.wire); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, _, err = boundary.ReadStream(stream) // it may say something before it is killed
		}
		t.Log(name)
		refused(t, boundary.AsFailure(err), boundary.Invalid, tc.want)
		var exit boundary.Exit
		must(ctx, t, cc, boundary.Wait{Operation: boundary.OpWait, ProcessID: started.ProcessID}, &exit)
		if exit.Signal != int(syscall.SIGKILL) {
			t.Errorf("%s: exit %+v", name, exit)
		}
	}
}

func TestExecEndsWithItsStream(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	cut, cancel := context.WithCancel(ctx)
	defer cancel()
	var started boundary.Started
	if _, err := boundary.Ask(cut, cc, exec(t, "stubborn"), &started); err != nil {
		t.Fatal(err)
	}
	cancel()
	var exit boundary.Exit
	must(ctx, t, cc, boundary.Wait{Operation: boundary.OpWait, ProcessID: started.ProcessID}, &exit)
	if exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("exit %+v", exit)
	}
}

func TestLoopbackConnect(t *testing.T) {
	t.Parallel()
	s := served(t)
	ctx := companionstest.Limit(t)
	cc := s.confirmed(ctx, t)
	var started boundary.Started
	must(ctx, t, cc, boundary.StartAgent{Operation: boundary.OpStartAgent, Command: companionstest.Command(t, "serve", "127.0.0.1:0"), Workdir: "/"}, &started)
	port, err := strconv.Atoi(strings.Fields(s.output.Await(ctx, t, "is open"))[1])
	if err != nil {
		t.Fatal(err)
	}
	stream, err := boundary.Ask(ctx, cc, boundary.LoopbackConnect{Operation: boundary.OpLoopbackConnect, Port: uint16(port)}, new(struct{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(boundary.WriteStream(stream, boundary.Stdin, []byte("echo")), boundary.WriteStream(stream, boundary.StdinClosed, nil)); err != nil {
		t.Fatal(err)
	}
	var said []byte
	channel := boundary.Stdout
	for channel == boundary.Stdout {
		var b []byte
		if channel, b, err = boundary.ReadStream(stream); err != nil {
			t.Fatal(err)
		}
		if channel == boundary.Stdout {
			said = append(said, b...)
		}
	}
	if string(said) != "echo" || channel != boundary.Exited {
		t.Errorf("the port said %q, then channel %d", said, channel)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	refused(t, ask(ctx, cc, boundary.LoopbackConnect{Operation: boundary.OpLoopbackConnect, Port: uint16(closed)}, new(struct{})), boundary.Unavailable, "loopback_connect")
	refused(t, ask(ctx, cc, boundary.LoopbackConnect{Operation: boundary.OpLoopbackConnect}, new(struct{})), boundary.Invalid, "port")
}

func TestBootstrapFilesAreGone(t *testing.T) {
	t.Parallel()
	s := served(t)
	for _, path := range []string{s.files.Boundary, s.files.Certificate, s.files.Key} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there", filepath.Base(path))
		}
	}
}

func TestRuntimeDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*materialtest.Material)
		want   string
	}{
		"unknown field":         {func(m *materialtest.Material) { m.Boundary["driver_fence"] = m.Boundary["outer_fence"] }, "driver_fence"},
		"another's certificate": {func(m *materialtest.Material) { m.Leaf.Certificate = materialtest.ForeignLeaf(t).Certificate }, "tls.key"},
		"no certificate":        {func(m *materialtest.Material) { m.Leaf.Certificate = nil }, "tls.crt"},
	} {
		if _, err := serve(t, tc.change); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

func TestFixtureClaimsAreAll(t *testing.T) {
	t.Parallel()
	d := materialtest.Make(t, "127.0.0.1:1").Descriptor["resource_claims"].(materialtest.Object)
	var names []string
	for name, value := range d {
		if claims()[name] != value {
			t.Errorf("claim %s is %v", name, value)
		}
		names = append(names, name)
	}
	if slices.Sort(names); len(names) != len(claims()) {
		t.Errorf("claims %v", names)
	}
}
