package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// slow makes the timeout of a check irrelevant for a test.
var slow = Probing{Timeout: patience, Interval: time.Hour}

// quick makes checks time out and rounds come soon.
var quick = Probing{Timeout: 20 * time.Millisecond, Interval: time.Millisecond}

func TestNothingIsReadyByDefault(t *testing.T) {
	if (Report{}).OK() {
		t.Error("the zero report is a yes")
	}
	checks := newChecks(t, slow)
	ready := checks.Ready(t.Context())
	if ready.OK() || !errors.Is(ready.Problem, errNoChecks) {
		t.Errorf("a daemon without checks is ready: %+v", ready)
	}
	if !checks.Live(t.Context()).OK() {
		t.Error("a daemon without liveness checks is not live")
	}
	must(t, checks.AddLiveness("alive", passing))
	if checks.Ready(t.Context()).OK() {
		t.Error("a liveness check makes the daemon ready")
	}
	must(t, checks.AddReadiness("works", passing))
	if !checks.Ready(t.Context()).OK() {
		t.Error("not ready although the check passes")
	}
}

func TestOneFailingCheckDenies(t *testing.T) {
	checks := newChecks(t, slow)
	must(t, checks.AddReadiness("first", passing))
	must(t, checks.AddReadiness("second", func(context.Context) error { return errBoom }))
	must(t, checks.AddReadiness("third", passing))
	must(t, checks.AddLiveness("alive", func(context.Context) error { return errBoom }))
	report := checks.Ready(t.Context())
	want := []Result{{Name: "first"}, {Name: "second", Err: errBoom}, {Name: "third"}}
	same := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })
	if diff := cmp.Diff(want, report.Results, same); report.OK() || diff != "" {
		t.Errorf("OK %v, results (-want +got):\n%s", report.OK(), diff)
	}
	if checks.Live(t.Context()).OK() {
		t.Error("live although the liveness check fails")
	}
}

func TestCheckNames(t *testing.T) {
	checks := newChecks(t, slow)
	must(t, checks.AddReadiness("nats", passing))
	for _, c := range []struct {
		name string
		call Check
		want string
	}{
		{"", passing, "a name consists of"},
		{"NATS", passing, "a name consists of"},
		{"a/b", passing, "a name consists of"},
		{"-a", passing, "a name consists of"},
		{"a\n", passing, "a name consists of"},
		{strings.Repeat("a", 64), passing, "a name consists of"},
		{"nats", passing, "there is one of that name"},
		{"empty", nil, "it has no function"},
	} {
		for kind, add := range map[string]func(string, Check) error{"liveness": checks.AddLiveness, "readiness": checks.AddReadiness} {
			if err := add(c.name, c.call); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("adding %s check %q: %v, want %q", kind, c.name, err, c.want)
			}
		}
	}
	must(t, checks.AddLiveness(strings.Repeat("a", 63), passing))
}

func TestChecksRunAtTheSameTime(t *testing.T) {
	noLeaks(t)
	checks := newChecks(t, slow)
	var together sync.WaitGroup
	together.Add(3)
	for i := range 3 {
		must(t, checks.AddReadiness(fmt.Sprint("c", i), func(context.Context) error {
			together.Done()
			together.Wait() // returns only if all three run
			return nil
		}))
	}
	if !checks.Ready(t.Context()).OK() {
		t.Error("not ready")
	}
}

// TestAnswersAreNeverOld: an answer comes from a call that began after the
// question, also when another call was in progress.
func TestAnswersAreNeverOld(t *testing.T) {
	noLeaks(t)
	checks := newChecks(t, slow)
	var calls atomic.Int32
	entered, proceed := make(chan struct{}), make(chan struct{})
	must(t, checks.AddReadiness("source", func(context.Context) error {
		if calls.Add(1) == 1 {
			close(entered)
			<-proceed
			return nil // what was true when the first question came
		}
		return errBoom
	}))
	first := make(chan Report, 1)
	go func() { first <- checks.Ready(context.Background()) }()
	receive(t, "first call", entered)
	const askers = 20
	later := make(chan Report, askers)
	for range askers {
		go func() { later <- checks.Ready(context.Background()) }()
	}
	only := checks.readiness[0]
	eventually(t, "somebody waits for the next call", func() bool {
		only.mu.Lock()
		defer only.mu.Unlock()
		return only.next != nil
	})
	close(proceed)
	if !receive(t, "first answer", first).OK() {
		t.Error("the first asker did not get the first answer")
	}
	for range askers {
		if receive(t, "later answer", later).OK() {
			t.Error("a later asker got the answer of an earlier call")
		}
	}
	if n := calls.Load(); n > askers+1 {
		t.Errorf("%d calls for %d questions", n, askers+1)
	}
}

func TestCheckThatObeysItsContext(t *testing.T) {
	noLeaks(t)
	checks := newChecks(t, quick)
	must(t, checks.AddReadiness("slow", func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("dial the source: %w", context.Cause(ctx))
	}))
	must(t, checks.AddReadiness("careless", func(ctx context.Context) error {
		<-ctx.Done()
		return nil // too late to count
	}))
	for _, result := range checks.Ready(t.Context()).Results {
		if !errors.Is(result.Err, errNoAnswer) {
			t.Errorf("check %s: %v, want %v", result.Name, result.Err, errNoAnswer)
		}
	}
	// On a busy machine the call may be overdue before it can say why.
	eventually(t, "the check's own reason", func() bool {
		return checks.Ready(t.Context()).Results[0].Err.Error() == "dial the source: no answer in time"
	})
}

// TestHangingCheckDoesNotPileUp: a check that never returns costs one goroutine,
// and every answer about it is a no in bounded time.
func TestHangingCheckDoesNotPileUp(t *testing.T) {
	noLeaks(t)
	// Long enough for the check that works, on a busy machine.
	checks := newChecks(t, Probing{Timeout: time.Second, Interval: time.Hour})
	var calls atomic.Int32
	release := make(chan struct{})
	must(t, checks.AddReadiness("hangs", func(context.Context) error {
		calls.Add(1)
		<-release
		return nil
	}))
	must(t, checks.AddReadiness("works", passing))
	for i := range 20 {
		report := checks.Ready(t.Context())
		err := report.Results[0].Err
		if want := errStuck; i > 0 && !errors.Is(err, want) || i == 0 && !errors.Is(err, errNoAnswer) {
			t.Fatalf("question %d is answered %v", i, err)
		}
		if report.Results[1].Err != nil {
			t.Errorf("another check fails: %v", report.Results[1].Err)
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls run, want 1", n)
	}
	close(release)
	eventually(t, "ready again", func() bool { return checks.Ready(t.Context()).OK() })
	checks.finish()
}

func TestAskerMayGiveUp(t *testing.T) {
	noLeaks(t)
	checks := newChecks(t, slow)
	release := make(chan struct{})
	must(t, checks.AddReadiness("slow", func(context.Context) error {
		<-release
		return nil
	}))
	for range 2 { // once while the call runs, once while waiting for the next
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		if err := checks.Ready(ctx).Results[0].Err; !errors.Is(err, errBoom) {
			t.Errorf("answer is %v, want the cause of the asker's end", err)
		}
	}
	close(release)
	checks.finish()
}

func TestPanickingCheckFails(t *testing.T) {
	noLeaks(t)
	var log logBuffer
	checks, err := NewChecks(slow, log.logger(zerolog.InfoLevel), prometheus.NewRegistry())
	must(t, err)
	must(t, checks.AddReadiness("panics", func(context.Context) error { panic("ouch") }))
	must(t, checks.AddReadiness("exits", func(context.Context) error {
		runtime.Goexit()
		return nil
	}))
	for range 2 {
		report := checks.Ready(t.Context())
		if err := report.Results[0].Err; err == nil || strings.Contains(err.Error(), "ouch") {
			t.Errorf("panic is answered %v", err)
		}
		if err := report.Results[1].Err; !errors.Is(err, errNoReturn) {
			t.Errorf("end of the goroutine is answered %v", err)
		}
	}
	if lines := log.lines(t, "check panicked"); len(lines) != 2 || lines[0]["check"] != "panics" || lines[0]["panic"] != "ouch" {
		t.Errorf("log has %v", lines)
	}
}

func TestDrain(t *testing.T) {
	checks := newChecks(t, slow)
	asked := false
	must(t, checks.AddReadiness("works", func(context.Context) error {
		asked = true
		return nil
	}))
	var told []bool
	checks.onReady(func(ready bool) { told = append(told, ready) })
	checks.mu.Lock()
	checks.tell(true)
	checks.mu.Unlock()

	checks.Drain(errBoom)
	checks.Drain(errors.New("another cause"))
	receive(t, "draining", checks.Draining())
	checks.mu.Lock()
	checks.tell(true) // a round that began before the drain
	checks.mu.Unlock()
	if diff := cmp.Diff([]bool{false, true, false}, told); diff != "" {
		t.Errorf("listeners were told (-want +got):\n%s", diff)
	}
	report := checks.Ready(t.Context())
	if report.OK() || !errors.Is(report.Problem, errBoom) || asked {
		t.Errorf("ready %v, problem %v, checks asked %v", report.OK(), report.Problem, asked)
	}
	if !checks.Live(t.Context()).OK() {
		t.Error("a drained daemon is not live")
	}
	if empty := newChecks(t, slow); func() bool { empty.Drain(nil); return empty.Ready(t.Context()).Problem == nil }() {
		t.Error("a drain without cause is not noticed")
	}
}

// TestDrainDuringTheQuestion: checks that pass do not hide a stop that began while
// they ran.
func TestDrainDuringTheQuestion(t *testing.T) {
	for name, ask := range map[string]func(*Checks) Report{
		"all": func(c *Checks) Report { return c.Ready(t.Context()) },
		"one": func(c *Checks) Report {
			report, found := c.readyOne(t.Context(), "works")
			if !found {
				t.Error("the check was not found")
			}
			return report
		},
	} {
		t.Run(name, func(t *testing.T) {
			checks := newChecks(t, slow)
			must(t, checks.AddReadiness("works", func(context.Context) error {
				checks.Drain(errBoom)
				return nil
			}))
			if report := ask(checks); report.OK() || !errors.Is(report.Problem, errBoom) {
				t.Errorf("ready %v, problem %v", report.OK(), report.Problem)
			}
		})
	}
}

func TestRunFollowsTheChecks(t *testing.T) {
	noLeaks(t)
	var log logBuffer
	registry := prometheus.NewRegistry()
	checks, err := NewChecks(Probing{Timeout: patience, Interval: time.Millisecond}, log.logger(zerolog.InfoLevel), registry)
	must(t, err)
	var broken atomic.Bool
	broken.Store(true)
	must(t, checks.AddReadiness("nats", func(context.Context) error {
		if broken.Load() {
			return errors.New("never connected")
		}
		return nil
	}))
	must(t, checks.AddLiveness("loop", passing))
	var rounds sync.Map // what the follower was told, by readiness
	checks.OnRound(func(ready Report) { rounds.Store(ready.OK(), ready) })
	shows := func(loop, nats, ready int) bool {
		want := fmt.Sprintf(`
# HELP portcullis_check_up 1 when the check passed in the last round, else 0.
# TYPE portcullis_check_up gauge
portcullis_check_up{check="loop"} %d
portcullis_check_up{check="nats"} %d
# HELP portcullis_ready 1 when every readiness check passed in the last round and no stop is in progress, else 0.
# TYPE portcullis_ready gauge
portcullis_ready %d
`, loop, nats, ready)
		return testutil.GatherAndCompare(registry, strings.NewReader(want)) == nil
	}
	if !shows(0, 0, 0) {
		t.Error("metrics claim something before the first round")
	}
	cancel, result := start(checks.Run)
	eventually(t, "one check up", func() bool { return shows(1, 0, 0) })
	eventually(t, "the follower knows why", func() bool {
		told, ok := rounds.Load(false)
		return ok && len(told.(Report).Results) == 1 && told.(Report).Results[0].Reason() == "nats: never connected"
	})
	broken.Store(false)
	eventually(t, "all up", func() bool { return shows(1, 1, 1) })
	eventually(t, "the follower knows that", func() bool { _, ok := rounds.Load(true); return ok })
	broken.Store(true)
	eventually(t, "down again", func() bool { return shows(1, 0, 0) })
	broken.Store(false)
	eventually(t, "up again", func() bool { return shows(1, 1, 1) })
	checks.Drain(errBoom)
	eventually(t, "not ready", func() bool { return shows(1, 1, 0) })
	cancel(nil)
	must(t, receive(t, "Run", result))
	if !shows(0, 0, 0) {
		t.Error("metrics still claim something after the end")
	}

	fails, passes := log.lines(t, "check fails"), log.lines(t, "check passes")
	if len(fails) != 2 || fails[0]["check"] != "nats" || fails[0]["error"] != "never connected" || fails[0]["level"] != "warn" {
		t.Errorf("failures in the log: %v", fails)
	}
	if len(passes) != 3 {
		t.Errorf("passes in the log: %v", passes)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// TestReasonIsTheLineOfReadyz: on one line, printable and bounded, whatever the error says.
func TestReasonIsTheLineOfReadyz(t *testing.T) {
	if got := (Result{Name: "nats"}).Reason(); got != "" {
		t.Errorf("a check that passes has the reason %q", got)
	}
	for text, want := range map[string]string{
		"no answer":                      "nats: no answer",
		"a\nb\x1b[2J":                    "nats: a; b?[2J",
		strings.Repeat("x", 2*maxReason): "nats: " + strings.Repeat("x", maxReason) + "...",
	} {
		r := Result{Name: "nats", Err: errors.New(text)}
		if got := r.Reason(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if page := render("readyz", Report{Results: []Result{r}, asked: true}, false); !strings.HasPrefix(page, "[-] "+want+"\n") {
			t.Errorf("readyz says %q", page)
		}
	}
}

func TestRunWaitsForItsCalls(t *testing.T) {
	noLeaks(t)
	checks := newChecks(t, quick)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var returned atomic.Bool
	must(t, checks.AddReadiness("hangs", func(context.Context) error {
		once.Do(func() { close(entered) })
		<-release
		returned.Store(true)
		return nil
	}))
	cancel, result := start(checks.Run)
	receive(t, "call", entered)
	cancel(nil)
	select {
	case err := <-result:
		t.Fatalf("Run returned %v although a call is in progress", err)
	case <-time.After(2 * quick.Timeout): // longer than any answer takes
	}
	close(release)
	must(t, receive(t, "Run", result))
	if !returned.Load() {
		t.Error("Run did not wait for the call")
	}
}

func TestNewChecksErrors(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, p := range []Probing{{}, {Timeout: time.Second}, {Interval: time.Second}, {Timeout: -1, Interval: 1}} {
		if _, err := NewChecks(p, zerolog.Nop(), registry); err == nil {
			t.Errorf("probing %+v was accepted", p)
		}
	}
	_, err := NewChecks(slow, zerolog.Nop(), registry)
	must(t, err)
	if _, err := NewChecks(slow, zerolog.Nop(), registry); err == nil || !strings.Contains(err.Error(), "register the metrics of checks") {
		t.Errorf("a second set on one registry: %v", err)
	}
}
