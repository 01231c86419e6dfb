package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

// diary records events in order.
type diary struct {
	mu     sync.Mutex
	events []string
}

func (d *diary) note(event string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, event)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

func newGroup(t *testing.T, grace time.Duration) *Group {
	t.Helper()
	g, err := NewGroup(grace, newChecks(t, DefaultProbing()), zerolog.Nop())
	must(t, err)
	return g
}

var errBoom = errors.New("boom")

func TestRequestedStopIsNoError(t *testing.T) {
	noLeaks(t)
	g := newGroup(t, patience)
	events := &diary{}
	causes := make(chan error, 3)
	var running sync.WaitGroup
	for _, name := range []string{"admin", "nats", "grpc"} {
		running.Add(1)
		g.Add(name, func(ctx context.Context) error {
			running.Done()
			<-ctx.Done()
			causes <- context.Cause(ctx)
			// A later task must have ended by now, so nobody else writes.
			events.note(name)
			return nil
		})
	}
	cancel, result := start(g.Run)
	running.Wait()
	cancel(errBoom)
	if err := receive(t, "Run", result); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if diff := cmp.Diff([]string{"grpc", "nats", "admin"}, events.read()); diff != "" {
		t.Errorf("stop order (-want +got):\n%s", diff)
	}
	for range 3 {
		if cause := receive(t, "cause", causes); !errors.Is(cause, errBoom) {
			t.Errorf("a task sees the cause %v", cause)
		}
	}
}

// TestEarlierTaskOutlivesLater: a task may use what it was added after until it
// ends.
func TestEarlierTaskOutlivesLater(t *testing.T) {
	noLeaks(t)
	g := newGroup(t, patience)
	earlier := make(chan context.Context, 1)
	started := make(chan struct{})
	g.Add("earlier", func(ctx context.Context) error {
		earlier <- ctx
		return untilCancelled(ctx)
	})
	g.Add("later", func(ctx context.Context) error {
		support := <-earlier
		close(started)
		<-ctx.Done()
		for range 100 {
			runtime.Gosched()
			if support.Err() != nil {
				t.Error("the earlier task was cancelled before the later one ended")
				break
			}
		}
		return nil
	})
	cancel, result := start(g.Run)
	receive(t, "start", started)
	cancel(nil)
	if err := receive(t, "Run", result); err != nil {
		t.Error(err)
	}
}

func TestFirstCause(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(*Group)
		want string
	}{
		{"error", func(g *Group) {
			g.Add("bad", func(context.Context) error { return errBoom })
		}, `task "bad": boom`},
		{"early return", func(g *Group) {
			g.Add("bad", func(context.Context) error { return nil })
		}, `task "bad" ended although nothing asked it to`},
		{"cancelled although nobody did", func(g *Group) {
			g.Add("bad", func(context.Context) error { return context.Canceled })
		}, `task "bad": context canceled`},
		{"panic", func(g *Group) {
			g.Add("bad", func(context.Context) error { panic("ouch") })
		}, `task "bad" panicked: ouch`},
		{"nil map", func(g *Group) {
			g.Add("bad", func(context.Context) error {
				var m map[string]int
				m["x"] = 1
				return nil
			})
		}, `task "bad" panicked: assignment to entry in nil map`},
		{"end of the goroutine", func(g *Group) {
			g.Add("bad", func(context.Context) error {
				runtime.Goexit()
				return nil
			})
		}, `task "bad" ended its goroutine without returning`},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			g := newGroup(t, patience)
			causes := make(chan error, 2)
			other := func(ctx context.Context) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return ctx.Err()
			}
			g.Add("before", other)
			c.add(g)
			g.Add("after", other)
			_, result := start(g.Run)
			err := receive(t, "Run", result)
			if err == nil || err.Error() != c.want {
				t.Errorf("Run = %v, want %q", err, c.want)
			}
			for range 2 {
				if cause := receive(t, "cause", causes); cause == nil || cause.Error() != c.want {
					t.Errorf("another task sees the cause %v, want %q", cause, c.want)
				}
			}
		})
	}
}

func TestErrorsCanBeExamined(t *testing.T) {
	g := newGroup(t, patience)
	g.Add("bad", func(context.Context) error { return fmt.Errorf("wrapped: %w", errBoom) })
	if err := g.Run(t.Context()); !errors.Is(err, errBoom) {
		t.Errorf("errors.Is does not find the cause in %v", err)
	}
}

func TestPanicStackIsLoggedOnly(t *testing.T) {
	noLeaks(t)
	var log logBuffer
	g, err := NewGroup(patience, newChecks(t, DefaultProbing()), log.logger(zerolog.InfoLevel))
	must(t, err)
	g.Add("bad", func(context.Context) error { panic(strings.Repeat("x", 10_000)) })
	err = g.Run(t.Context())
	if err == nil || strings.Contains(err.Error(), ".go:") || len(err.Error()) > 1000 {
		t.Errorf("error is missing, has a stack, or is endless: %v", err)
	}
	lines := log.lines(t, "task panicked")
	if len(lines) != 1 || lines[0]["task"] != "bad" || !strings.Contains(fmt.Sprint(lines[0]["stack"]), "group_test.go") {
		t.Errorf("log has %v", lines)
	}
}

// TestFailureWhileStopping: what goes wrong during a requested stop is no clean end.
func TestFailureWhileStopping(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(ctx context.Context) error
		want string
	}{
		{"nil", func(context.Context) error { return nil }, ""},
		{"context error", func(ctx context.Context) error { return fmt.Errorf("read: %w", ctx.Err()) }, ""},
		{"cause", context.Cause, ""},
		{"other error", func(context.Context) error { return errBoom }, `while stopping: task "t": boom`},
		{"panic", func(context.Context) error { panic("ouch") }, `while stopping: task "t" panicked: ouch`},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			g := newGroup(t, patience)
			g.Add("t", func(ctx context.Context) error {
				<-ctx.Done()
				return c.end(ctx)
			})
			started := make(chan struct{})
			g.Add("last", func(ctx context.Context) error {
				close(started)
				return untilCancelled(ctx)
			})
			cancel, result := start(g.Run)
			receive(t, "start", started)
			cancel(StopRequest{Signal: 15})
			err := receive(t, "Run", result)
			if (c.want == "") != (err == nil) || (err != nil && err.Error() != c.want) {
				t.Errorf("Run = %v, want %q", err, c.want)
			}
		})
	}
}

func TestFirstCauseComesFirst(t *testing.T) {
	g := newGroup(t, patience)
	g.Add("follower", func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("flush lost")
	})
	g.Add("bad", func(context.Context) error { return errBoom })
	want := "task \"bad\": boom\nwhile stopping: task \"follower\": flush lost"
	if err := g.Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run = %v, want %q", err, want)
	}
}

// lateStop runs a group with a grace of a second between two polite tasks and stops
// it. Time is that of the bubble: it passes only when nobody can do anything, so that
// polite tasks are in time on any machine. It returns how long the stop took, and the
// polite tasks in the order in which they ended.
func lateStop(t *testing.T, add func(*Group)) (took time.Duration, polite []string, err error) {
	t.Helper()
	g := newGroup(t, time.Second)
	ends := &diary{}
	addPolite := func(name string) {
		g.Add(name, func(ctx context.Context) error {
			<-ctx.Done()
			ends.note(name)
			return nil
		})
	}
	addPolite("admin")
	add(g)
	addPolite("grpc")
	cancel, result := start(g.Run)
	synctest.Wait()
	began := time.Now()
	cancel(StopRequest{Signal: 15})
	err = <-result
	return time.Since(began), ends.read(), err
}

// TestHangingTaskIsNamed: the grace bounds the stop, innocent tasks end in order,
// and the error names only who hangs.
func TestHangingTaskIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		hang := func(context.Context) error {
			<-release
			return nil
		}
		took, polite, err := lateStop(t, func(g *Group) {
			g.Add("stuck-early", hang)
			g.Add("stuck", hang)
		})
		want := "tasks still running after the shutdown grace of 1s: stuck-early, stuck; leaving behind what has not ended"
		if err == nil || err.Error() != want {
			t.Errorf("Run = %v, want %q", err, want)
		}
		if took != time.Second+hardStop {
			t.Errorf("the stop took %s", took)
		}
		if diff := cmp.Diff([]string{"grpc", "admin"}, polite); diff != "" {
			t.Errorf("polite tasks (-want +got):\n%s", diff)
		}
	})
}

// TestLateTaskMayStillEnd: who used the grace up has the time after it as all others
// do, and the stop is no clean one for that.
func TestLateTaskMayStillEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		end  error
		want string
	}{
		{"in order", nil, "tasks still running after the shutdown grace of 1s: slow (ended since)"},
		{"with an error", errBoom, "while stopping: task \"slow\": boom\ntasks still running after the shutdown grace of 1s: slow (ended since)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const late = time.Second + hardStop/2
				took, polite, err := lateStop(t, func(g *Group) {
					g.Add("slow", func(ctx context.Context) error {
						<-ctx.Done()
						<-time.After(late)
						return c.end
					})
				})
				if err == nil || err.Error() != c.want {
					t.Errorf("Run = %v, want %q", err, c.want)
				}
				if took != late {
					t.Errorf("the stop took %s, want %s", took, late)
				}
				if diff := cmp.Diff([]string{"grpc", "admin"}, polite); diff != "" {
					t.Errorf("polite tasks (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestReadinessTurnsFalseFirst: nobody is cancelled while the daemon still calls
// itself ready.
func TestReadinessTurnsFalseFirst(t *testing.T) {
	noLeaks(t)
	checks := newChecks(t, DefaultProbing())
	must(t, checks.AddReadiness("works", passing))
	g, err := NewGroup(patience, checks, zerolog.Nop())
	must(t, err)
	started := make(chan struct{})
	g.Add("task", func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		if report := checks.Ready(context.Background()); report.OK() {
			t.Error("ready although a task was cancelled")
		} else if want := "stopping: stop requested by SIGTERM"; report.Problem.Error() != want {
			t.Errorf("reason is %q, want %q", report.Problem, want)
		}
		return nil
	})
	cancel, result := start(g.Run)
	receive(t, "start", started)
	if !checks.Ready(t.Context()).OK() {
		t.Error("not ready although everything works")
	}
	cancel(StopRequest{Signal: 15})
	must(t, receive(t, "Run", result))
}

func TestGroupMisuse(t *testing.T) {
	checks := newChecks(t, DefaultProbing())
	if _, err := NewGroup(0, checks, zerolog.Nop()); err == nil {
		t.Error("a group without grace was made")
	}
	if _, err := NewGroup(time.Second, nil, zerolog.Nop()); err == nil {
		t.Error("a group without checks was made")
	}
	for _, c := range []struct {
		name string
		add  func(*Group)
		want string
	}{
		{"no task", func(*Group) {}, "there is no task"},
		{"no name", func(g *Group) { g.Add("", untilCancelled) }, "task number 1 has no name"},
		{"no function", func(g *Group) { g.Add("x", nil) }, `task "x" has no function`},
		{"same name", func(g *Group) { g.Add("x", untilCancelled); g.Add("x", untilCancelled) }, `task "x" was added twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			g := newGroup(t, time.Second)
			c.add(g)
			if err := g.Run(t.Context()); err == nil || err.Error() != "run the task group: "+c.want {
				t.Errorf("Run = %v, want %q", err, c.want)
			}
			if err := g.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "has run before") {
				t.Errorf("second Run = %v", err)
			}
		})
	}
}

// TestNothingStaysOpen: whatever keeps the group from running, tasks close what was
// opened for them, in the usual order.
func TestNothingStaysOpen(t *testing.T) {
	asked, cancel := context.WithCancelCause(t.Context())
	cancel(StopRequest{Signal: 15})
	for _, c := range []struct {
		name string
		ctx  context.Context
		add  func(*Group)
		want string
	}{
		{"stop asked for", asked, func(*Group) {}, ""},
		{"stop asked for, and a task that is short", asked, func(g *Group) { g.Add("short", passing) }, ""},
		{"no function", t.Context(), func(g *Group) { g.Add("x", nil) }, `run the task group: task "x" has no function`},
		{"same name", t.Context(), func(g *Group) { g.Add("grpc", untilCancelled) }, `run the task group: task "grpc" was added twice`},
		{"no name, and a stop asked for", asked, func(g *Group) { g.Add("", untilCancelled) }, "run the task group: task number 3 has no name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			g := newGroup(t, patience)
			closed := &diary{}
			for _, name := range []string{"admin", "grpc"} {
				g.Add(name, func(ctx context.Context) error {
					<-ctx.Done()
					closed.note(name)
					return nil
				})
			}
			c.add(g)
			if err := g.Run(c.ctx); (c.want == "") != (err == nil) || (err != nil && err.Error() != c.want) {
				t.Errorf("Run = %v, want %q", err, c.want)
			}
			if diff := cmp.Diff([]string{"grpc", "admin"}, closed.read()); diff != "" {
				t.Errorf("closed (-want +got):\n%s", diff)
			}
			if g.checks.Ready(t.Context()).Problem == nil {
				t.Error("the checks are not drained")
			}
		})
	}
}

func TestTasksSeeContextValues(t *testing.T) {
	type key struct{}
	g := newGroup(t, time.Second)
	g.Add("x", func(ctx context.Context) error {
		if ctx.Value(key{}) != "value" {
			t.Error("the value of the context is missing")
		}
		return errBoom
	})
	if err := g.Run(context.WithValue(t.Context(), key{}, "value")); !errors.Is(err, errBoom) {
		t.Error(err)
	}
}
