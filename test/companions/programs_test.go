package companions

import (
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program builds a program as it is in its image.
var program = func() func(testing.TB, string) string {
	var (
		mu    sync.Mutex
		built = map[string]string{}
	)
	return func(t testing.TB, name string) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if built[name] == "" {
			built[name] = cluster.Build(t, name, "test", "./companions/cmd/"+name)
		}
		return built[name]
	}
}()

// running is a program that was started.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *companionstest.Output // both of its outputs
	ended  chan struct{}
	err    error
}

func start(t *testing.T, env []string, name string, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(program(t, name), args...), output: companionstest.NewOutput(), ended: make(chan struct{})}
	r.cmd.WaitDelay = 5 * time.Second // a process that outlives the program may hold its outputs
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = env, r.output, r.output
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", name, r.output)
		}
	})
	return r
}

// end sends a signal and returns how the program ended.
func (r *running) end(signal os.Signal) error {
	r.t.Helper()
	if err := r.cmd.Process.Signal(signal); err != nil {
		r.t.Fatal(err)
	}
	return r.await()
}

func (r *running) await() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-companionstest.Limit(r.t).Done():
		r.t.Fatalf("%s goes on", r.cmd.Path)
		return nil
	}
}

// pair is both programs and the gateway's end.
type pair struct {
	runtime, supervisor *running
	gateway             *gatewayside.Gateway
	socket              string
}

// startPair starts everything, with the workload that main names as the main process.
func startPair(t *testing.T, main string) *pair {
	t.Helper()
	m := materialtest.Make(t, companionstest.Address())
	f := m.Write(t)
	short, err := os.MkdirTemp("", "sv") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	p := &pair{socket: filepath.Join(short, "health.sock")}
	token := filepath.Join(short, "token")
	if err := os.WriteFile(token, []byte("projected"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.gateway = gatewayside.New(func(context.Context, secret.Value, string) error { return nil })
	server := grpc.NewServer(gatewayside.ServerOption()...)
	p.gateway.Register(server)
	listener := companionstest.Listen(t, companionstest.Address())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	p.runtime = start(t, []string{"SECRET_OF_THE_POD=1"}, runtimeProgram, "--bootstrap", f.Boundary)
	p.supervisor = start(t, []string{
		"OPENSHELL_ADMITTED_ISOLATION_BACKEND=openshell-sandbox", "OPENSHELL_ENDPOINT=http://" + listener.Addr().String(),
		"OPENSHELL_SANDBOX_ID=" + materialtest.SandboxID, "OPENSHELL_K8S_SA_TOKEN_FILE=" + token,
		`OPENSHELL_MAIN_PROCESS_SPEC={"version":1,"command":["` + program(t, workloadProgram) + `","` + main + `"],"tty":true}`,
	}, supervisorProgram, "--backend-descriptor-file", f.Descriptor, "--auth-bundle-file", f.Auth, "--workdir", t.TempDir(), "--health-socket-path", p.socket)
	return p
}

func (p *pair) session(ctx context.Context, t *testing.T) *gatewayside.Session {
	t.Helper()
	s, err := p.gateway.Await(ctx, materialtest.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// health asks as the kubelet does.
func (p *pair) health(t *testing.T) error {
	t.Helper()
	return start(t, nil, supervisorProgram, "health", "--socket", p.socket).await()
}

func TestProgramsAreStatic(t *testing.T) {
	t.Parallel()
	for _, name := range []string{supervisorProgram, runtimeProgram, workloadProgram} {
		f, err := elf.Open(program(t, name))
		if err != nil {
			t.Fatal(err)
		}
		libraries, err := f.ImportedLibraries()
		if _ = f.Close(); err != nil || len(libraries) > 0 || f.Section(".interp") != nil {
			t.Errorf("%s needs %v, %v: an image holds nothing else", name, libraries, err)
		}
	}
}

func TestCommandThroughThePrograms(t *testing.T) {
	t.Parallel()
	p, ctx := startPair(t, "family"), companionstest.Limit(t)
	s := p.session(ctx, t)
	if err := p.health(t); err != nil {
		t.Errorf("not ready: %v", err)
	}
	tool := program(t, workloadProgram)
	out, err := s.Run(ctx, []string{tool, "cat"}, []byte("in and out"))
	if err != nil || string(out.Stdout) != "in and out" || out.Exit.Code != 0 {
		t.Errorf("%q, %+v, %v", out.Stdout, out.Exit, err)
	}
	if out, err := s.Run(ctx, []string{tool, "exit", "3"}, nil); err != nil || out.Exit.Code != 3 {
		t.Errorf("%+v, %v", out.Exit, err)
	}
	if out, err := s.Run(ctx, []string{tool, "env"}, nil); err != nil || strings.Contains(string(out.Stdout), "SECRET_OF_THE_POD") {
		t.Errorf("the command sees %q, %v", out.Stdout, err)
	}
	// Stopped in the right order, both end well, and the main process with its child before them.
	child := p.runtime.output.Child(ctx, t)
	if err := p.supervisor.end(syscall.SIGTERM); err != nil {
		t.Errorf("the supervisor ended with %v", err)
	}
	companionstest.AwaitGone(ctx, t, child)
	if err := p.runtime.end(syscall.SIGTERM); err != nil {
		t.Errorf("the runtime ended with %v", err)
	}
	if err := p.health(t); err == nil {
		t.Error("ready without a supervisor")
	}
}

func TestKilledRuntimeTakesItsProcesses(t *testing.T) {
	t.Parallel()
	p, ctx := startPair(t, "sleep"), companionstest.Limit(t)
	s := p.session(ctx, t)
	sleeper, err := s.Start([]string{program(t, workloadProgram), "stubborn"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sleeper.AwaitOutput(ctx, "sleeping"); err != nil {
		t.Fatal(err)
	}
	pid := companionstest.ChildOf(t, p.runtime.cmd.Process.Pid, "stubborn")
	if err := p.runtime.end(syscall.SIGKILL); err == nil {
		t.Error("killed, and ended well")
	}
	companionstest.AwaitGone(ctx, t, pid)
	if _, err := sleeper.Wait(ctx); err == nil {
		t.Error("what the runtime ran ended well")
	}
}

func TestProgramsRefuseWrongUse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		program string
		args    []string
		want    string
	}{
		"runtime without anything":    {runtimeProgram, nil, "usage"},
		"runtime without a file":      {runtimeProgram, []string{"--bootstrap"}, "usage"},
		"runtime with another":        {runtimeProgram, []string{"run"}, "usage"},
		"runtime, no such file":       {runtimeProgram, []string{"--bootstrap", "/no/such"}, "/no/such"},
		"supervisor without anything": {supervisorProgram, nil, "--backend-descriptor-file"},
		"health without a socket":     {supervisorProgram, []string{"health"}, "usage"},
		"health, no such socket":      {supervisorProgram, []string{"health", "--socket", "/no/such"}, "/no/such"},
	} {
		r := start(t, nil, tc.program, tc.args...)
		var exit *exec.ExitError
		if err := r.await(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(r.output.String(), tc.want) {
			t.Errorf("%s: %v, %q", name, err, r.output)
		}
	}
}
