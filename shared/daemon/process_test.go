package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// scenarioVariable makes the test binary play a daemon.
const scenarioVariable = "PORTCULLIS_TEST_DAEMON"

// playDaemon is a daemon as its wiring would be. It prints "up" when it runs, and
// "stopping" when its task is cancelled.
func playDaemon(scenario string) int {
	ctx, release := SignalContext(context.Background(), os.Exit)
	defer release()
	if scenario == "released" {
		release()
		fmt.Println("up")
		<-make(chan struct{})
	}
	return Exit(os.Stderr, "played", runScenario(ctx, scenario))
}

func runScenario(ctx context.Context, scenario string) error {
	if scenario == "bad-settings" {
		return errors.New("http_address \"x\" is not host:port\nshutdown_grace 0s is outside 1s to 10m0s")
	}
	checks, err := NewChecks(DefaultProbing(), zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	grace := 30 * time.Second
	if scenario == "hang-short" {
		grace = 50 * time.Millisecond
	}
	group, err := NewGroup(grace, checks, zerolog.Nop())
	if err != nil {
		return err
	}
	if how, path, found := strings.Cut(scenario, " on "); found {
		return playSocket(ctx, group, how, path)
	}
	group.Add("work", func(ctx context.Context) error {
		fmt.Println("up")
		if scenario == "fail" {
			return errors.New("the source is gone")
		}
		if scenario == "panic" {
			panic("ouch")
		}
		<-ctx.Done()
		fmt.Println("stopping", context.Cause(ctx))
		if strings.HasPrefix(scenario, "hang") {
			<-make(chan struct{})
		}
		return nil
	})
	return group.Run(ctx)
}

// playSocket opens what a daemon opens, says "wired", and enters the group only when a
// stop has been asked for. how says what else is wrong.
func playSocket(ctx context.Context, group *Group, how, path string) error {
	admin, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	server, err := NewAdmin(DefaultConfig(), admin, group.checks, prometheus.NewRegistry(), zerolog.Nop())
	if err != nil {
		return err
	}
	socket, err := udsock.Listen(ctx, path, udsock.Options{})
	if err != nil {
		return err
	}
	group.Add("admin", server.Run)
	group.Add("driver", func(ctx context.Context) error {
		return ServeGRPC(ctx, grpc.NewServer(), socket, time.Second, zerolog.Nop())
	})
	if how == "misuse" {
		group.Add("driver", untilCancelled)
	}
	fmt.Println("wired")
	<-ctx.Done()
	return group.Run(ctx)
}

// played is a daemon process.
type played struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *strings.Builder
}

func play(t *testing.T, scenario string) *played {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	p := &played{t: t, cmd: exec.CommandContext(ctx, os.Args[0]), stderr: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), scenarioVariable+"="+scenario)
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.stdout = bufio.NewReader(out)
	must(t, p.cmd.Start())
	return p
}

func (p *played) expect(line string) {
	p.t.Helper()
	got, err := p.stdout.ReadString('\n')
	if err != nil || strings.TrimSuffix(got, "\n") != line {
		p.t.Fatalf("the daemon printed %q, %v, want %q", got, err, line)
	}
}

func (p *played) signal(s syscall.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(s))
}

// exit waits for the end and compares code and stderr.
func (p *played) exit(code int, stderr string) {
	p.t.Helper()
	rest, err := io.ReadAll(p.stdout)
	must(p.t, err)
	_ = p.cmd.Wait() // a code other than 0 is an error, and may be what we want
	if got := p.cmd.ProcessState.ExitCode(); got != code || p.stderr.String() != stderr {
		p.t.Errorf("exit code %d, want %d; stderr %q, want %q; last output %q", got, code, p.stderr.String(), stderr, rest)
	}
}

func TestSignalStopsWithCodeZero(t *testing.T) {
	for name, s := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			p := play(t, "clean")
			p.expect("up")
			p.signal(s)
			p.expect("stopping stop requested by " + name)
			p.exit(ExitRequested, "")
		})
	}
}

// TestStopBeforeTheStartLeavesNoSocket: a signal that arrives between wiring and the
// group's Run (contract 2.2: on exit the socket file is removed).
func TestStopBeforeTheStartLeavesNoSocket(t *testing.T) {
	for _, c := range []struct {
		how    string
		signal syscall.Signal
		code   int
		stderr string
	}{
		{"clean", syscall.SIGTERM, ExitRequested, ""},
		{"clean", syscall.SIGINT, ExitRequested, ""},
		{"misuse", syscall.SIGTERM, ExitFailed, "played: run the task group: task \"driver\" was added twice\n"},
	} {
		t.Run(c.how+" "+c.signal.String(), func(t *testing.T) {
			dir, err := os.MkdirTemp("", "uds") // short, since a socket's path must be
			must(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			path := filepath.Join(dir, "driver", "driver.sock")
			p := play(t, c.how+" on "+path)
			p.expect("wired")
			if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
				t.Fatalf("the daemon has no socket: %v", err)
			}
			p.signal(c.signal)
			p.exit(c.code, c.stderr)
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket file after the exit: %v", err)
			}
		})
	}
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	p := play(t, "hang")
	p.expect("up")
	p.signal(syscall.SIGTERM)
	p.expect("stopping stop requested by SIGTERM")
	p.signal(syscall.SIGINT)
	p.exit(128+int(syscall.SIGINT), "")
}

func TestHangingTaskMakesTheExitCode(t *testing.T) {
	p := play(t, "hang-short")
	p.expect("up")
	p.signal(syscall.SIGTERM)
	p.expect("stopping stop requested by SIGTERM")
	p.exit(ExitFailed, "played: tasks still running after the shutdown grace of 50ms: work; leaving behind what has not ended\n")
}

func TestFailuresMakeTheExitCode(t *testing.T) {
	for scenario, stderr := range map[string]string{
		"bad-settings": "played: http_address \"x\" is not host:port\nplayed: shutdown_grace 0s is outside 1s to 10m0s\n",
		"fail":         "played: task \"work\": the source is gone\n",
		"panic":        "played: task \"work\" panicked: ouch\n",
	} {
		t.Run(scenario, func(t *testing.T) { play(t, scenario).exit(ExitFailed, stderr) })
	}
}

// TestReleaseRestoresTheSignals: afterwards a signal has its default effect again.
func TestReleaseRestoresTheSignals(t *testing.T) {
	p := play(t, "released")
	p.expect("up")
	p.signal(syscall.SIGTERM)
	p.exit(-1, "")
	if how := p.cmd.ProcessState.String(); how != "signal: terminated" {
		t.Errorf("the daemon ended by %q", how)
	}
}

func TestReleaseCancels(t *testing.T) {
	noLeaks(t)
	type key struct{}
	parent := context.WithValue(t.Context(), key{}, "value")
	ctx, release := SignalContext(parent, func(code int) { t.Errorf("exit %d without a signal", code) })
	if ctx.Err() != nil || ctx.Value(key{}) != "value" {
		t.Errorf("fresh context: %v, value %v", ctx.Err(), ctx.Value(key{}))
	}
	release()
	release()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("cause after release is %v", context.Cause(ctx))
	}
}

// TestOwnSignal sends a signal to this very process, which SignalContext catches.
func TestOwnSignal(t *testing.T) {
	noLeaks(t)
	exits := make(chan int, 1)
	ctx, release := SignalContext(t.Context(), func(code int) { exits <- code })
	defer release()
	must(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	receive(t, "cancel", ctx.Done())
	var request StopRequest
	if cause := context.Cause(ctx); !errors.As(cause, &request) || request.Signal != syscall.SIGTERM {
		t.Errorf("cause is %v", cause)
	}
	must(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	if code := receive(t, "exit", exits); code != 143 {
		t.Errorf("the second signal exits with %d, want 143", code)
	}
}

func TestExit(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"requested", nil, 0, ""},
		{"one line", errors.New("listen on :1: permission denied"), 1, "d: listen on :1: permission denied\n"},
		{"two lines", errors.New("a\nb\n"), 1, "d: a\nd: b\n"},
		{"control characters", errors.New("x\x1b[2J\ty\r\u202ez\x00é"), 1, "d: x?[2J y??z?é\n"},
		{"invalid text", errors.New("\xff"), 1, "d: \uFFFD\n"},
		{"empty", errors.New(""), 1, "d: \n"},
		{"chosen code", WithExitCode(errors.New("refused"), 2), 2, "d: refused\n"},
		{"chosen code among others", errors.Join(errors.New("a"), fmt.Errorf("b: %w", WithExitCode(errors.New("c"), 3))), 3, "d: a\nd: b: c\n"},
		{"code of a shell", WithExitCode(errors.New("x"), 126), 1, "d: x\n"},
		{"code of success", WithExitCode(errors.New("x"), 0), 1, "d: x\n"},
		{"no error", WithExitCode(nil, 2), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if code := Exit(&out, "d", c.err); code != c.code || out.String() != c.want {
				t.Errorf("code %d, output %q, want %d, %q", code, out.String(), c.code, c.want)
			}
		})
	}
	var out strings.Builder
	Exit(&out, "d", errors.New(strings.Repeat("x\n", 150)))
	if n := strings.Count(out.String(), "\n"); n != 101 || !strings.HasSuffix(out.String(), "d: ... and 50 more lines\n") {
		t.Errorf("150 lines became %d: %q", n, out.String())
	}
}
