package canary_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary/canarytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	far      = "192.0.2.1:443"
	doorPort = 5500
	shutPort = 5501
	settle   = 30 * time.Second
	limit    = 100 * time.Second
)

func plan(role canary.Role) *canary.Plan {
	p := &canary.Plan{
		Probe: "abcdef0123", Role: role, Targets: []string{canary.KubernetesTarget, far}, Door: doorPort, Shut: shutPort,
		Settle: settle.Milliseconds(), Limit: limit.Milliseconds(),
	}
	if role == canary.Supervisor {
		p.Peer = canarytest.WorkloadIP
	}
	return p
}

// both runs the canaries, the supervisor after a while.
func both(ctx context.Context, w *canarytest.World, after time.Duration) (workload, supervisor *canary.Report) {
	var all sync.WaitGroup
	all.Go(func() { workload = canary.Run(ctx, plan(canary.Workload), w.Workload()) })
	all.Go(func() {
		time.Sleep(after)
		supervisor = canary.Run(ctx, plan(canary.Supervisor), w.Supervisor())
	})
	all.Wait()
	return workload, supervisor
}

func every(r *canary.Report, is func(canary.Seen) bool) bool {
	return !slices.ContainsFunc(r.Targets, func(s canary.Seen) bool { return !is(s) })
}

// away is a way on which nobody answers from one time to the other.
func away(from, to time.Duration) canarytest.Way {
	return func(_ string, since time.Duration) error {
		if since >= from && since < to {
			return syscall.ECONNREFUSED
		}
		return nil
	}
}

func TestWhatIsSeen(t *testing.T) {
	held := func(s canary.Seen) bool { return s.Held() }
	for name, c := range map[string]struct {
		world func(*canarytest.World)
		after time.Duration
		want  func(t *testing.T, w, s *canary.Report)
	}{
		"the fence stands": {want: func(t *testing.T, w, s *canary.Report) {
			if w.End != canary.EndDone || !w.Entered || !w.Parted || !every(w, held) || !every(w, func(s canary.Seen) bool { return s.Opens == 0 && s.Last == canary.Refused }) {
				t.Errorf("workload: %+v", w)
			}
			if s.End != canary.EndDone || !s.Entered || !s.Parted || !every(s, func(s canary.Seen) bool { return s.Before && s.During && s.After }) || !s.Shut.Held() || s.Shut.Last != canary.TimedOut {
				t.Errorf("supervisor: %+v", s)
			}
		}},
		"it sets in after a while": {world: func(w *canarytest.World) { w.Out = canarytest.Until(4*time.Second, nil, syscall.EPERM) }, want: func(t *testing.T, w, _ *canary.Report) {
			if w.End != canary.EndDone || !every(w, func(s canary.Seen) bool {
				return s.Held() && s.Opens > 0 && s.LastOpen > 3000 && s.LastOpen < 4000 && s.Last == canary.Prohibited
			}) {
				t.Errorf("workload: %+v", w)
			}
		}},
		"it never sets in": {world: func(w *canarytest.World) { w.Out = canarytest.Open }, want: func(t *testing.T, w, _ *canary.Report) {
			if w.End != canary.EndOpen || !every(w, func(s canary.Seen) bool { return s.LastOpen >= settle.Milliseconds() && s.Streak == 0 }) {
				t.Errorf("workload: %+v", w)
			}
		}},
		"one target of two stays open": {world: func(w *canarytest.World) {
			w.Out = func(target string, _ time.Duration) error {
				if target == canarytest.API {
					return nil
				}
				return syscall.EHOSTUNREACH
			}
		}, want: func(t *testing.T, w, _ *canary.Report) {
			if w.End != canary.EndOpen || w.Targets[0].Last != canary.Opened || w.Targets[1].Last != canary.Unreachable {
				t.Errorf("workload: %+v", w)
			}
		}},
		"it opens again": {world: func(w *canarytest.World) { w.Out = canarytest.Until(40*time.Second, syscall.ECONNREFUSED, nil) }, after: 60 * time.Second, want: func(t *testing.T, w, _ *canary.Report) {
			if w.End != canary.EndOpen || w.Entered {
				t.Errorf("workload: %+v", w)
			}
		}},
		"blocked before it is entered does not count": {after: 50 * time.Second, want: func(t *testing.T, w, _ *canary.Report) {
			if w.End != canary.EndDone || w.Targets[0].Streak != canary.Hold || w.Targets[0].Tries < 100 {
				t.Errorf("workload: %+v", w)
			}
		}},
		"a target is dead": {world: func(w *canarytest.World) {
			w.In = func(target string, _ time.Duration) error {
				if target == far {
					return syscall.ECONNREFUSED
				}
				return nil
			}
		}, want: func(t *testing.T, w, s *canary.Report) {
			if s.End != canary.EndDone || s.Entered || !s.Targets[0].Before || s.Targets[1].Before || w.End != canary.EndLimit || w.Entered {
				t.Errorf("workload: %+v\nsupervisor: %+v", w, s)
			}
		}},
		"a target dies meanwhile": {world: func(w *canarytest.World) { w.In = canarytest.Until(time.Second, nil, syscall.ECONNREFUSED) }, want: func(t *testing.T, w, s *canary.Report) {
			if w.End != canary.EndDone || !s.Parted || !every(s, func(s canary.Seen) bool { return s.Before && !s.After }) {
				t.Errorf("workload: %+v\nsupervisor: %+v", w, s)
			}
		}},
		// What made the tries fail was not the fence.
		"a target is away while it is tried": {world: func(w *canarytest.World) { w.In = away(time.Second, 33*time.Second) }, want: func(t *testing.T, w, s *canary.Report) {
			if w.End != canary.EndDone || !s.Parted || s.End != canary.EndDone || !every(s, func(s canary.Seen) bool { return s.Before && !s.During && !s.After }) {
				t.Errorf("workload: %+v\nsupervisor: %+v", w, s)
			}
		}},
		"a target comes back while it is tried": {world: func(w *canarytest.World) { w.In = away(time.Second, 10*time.Second) }, want: func(t *testing.T, w, s *canary.Report) {
			if w.End != canary.EndDone || w.Targets[0].Streak < 20 || s.End != canary.EndDone || !every(s, func(s canary.Seen) bool { return s.Before && s.During && s.After }) {
				t.Errorf("workload: %+v\nsupervisor: %+v", w, s)
			}
		}},
		"a target is late": {world: func(w *canarytest.World) { w.In = canarytest.Until(10*time.Second, context.DeadlineExceeded, nil) }, want: func(t *testing.T, _, s *canary.Report) {
			if s.End != canary.EndDone || !every(s, func(s canary.Seen) bool { return s.Before && s.After }) {
				t.Errorf("supervisor: %+v", s)
			}
		}},
		"the door is shut": {world: func(w *canarytest.World) {
			w.Door = func(string, time.Duration) error { return context.DeadlineExceeded }
		}, want: func(t *testing.T, w, s *canary.Report) {
			if w.Entered || w.End != canary.EndLimit || s.Entered || s.End != canary.EndDone {
				t.Errorf("workload: %+v\nsupervisor: %+v", w, s)
			}
		}},
		"what must be shut is open": {world: func(w *canarytest.World) { w.Shut = canarytest.Open }, want: func(t *testing.T, _, s *canary.Report) {
			if s.Shut.Held() || s.Shut.Last != canary.Opened || s.Shut.LastOpen < settle.Milliseconds() || !s.Parted || s.End != canary.EndDone {
				t.Errorf("supervisor: %+v", s)
			}
		}},
		"a try that fails in the Pod ends the row": {world: func(w *canarytest.World) {
			tries := map[string]int{}
			var mu sync.Mutex
			w.Out = func(target string, _ time.Duration) error {
				mu.Lock()
				defer mu.Unlock()
				if tries[target]++; tries[target]%canary.Hold == 0 {
					return syscall.EMFILE
				}
				return syscall.ECONNREFUSED
			}
		}, want: func(t *testing.T, w, _ *canary.Report) {
			if w.End != canary.EndLimit || !w.Entered || every(w, held) {
				t.Errorf("workload: %+v", w)
			}
		}},
		"tries that fail in the Pod count for neither side": {world: func(w *canarytest.World) { w.Out = func(string, time.Duration) error { return syscall.EMFILE } }, want: func(t *testing.T, w, s *canary.Report) {
			if w.End != canary.EndLimit || !w.Entered || every(w, held) || w.Targets[0].Last != canary.Failed || s.Parted {
				t.Errorf("workload: %+v\nsupervisor: %+v", w, s)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := canarytest.Sound()
				if c.world != nil {
					c.world(w)
				}
				workload, supervisor := both(t.Context(), w, c.after)
				c.want(t, workload, supervisor)
				if passed := time.Since(w.Began); passed > 2*limit {
					t.Errorf("it took %s", passed)
				}
			})
		})
	}
}

// TestStrangersAreSentAway, and the supervisor canary is let in beside them.
func TestStrangersAreSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := canarytest.Sound()
		var strangers sync.WaitGroup
		for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "portcullis fence probe another000\n", strings.Repeat("x", 1000), ""} {
			strangers.Go(func() {
				time.Sleep(time.Second)
				conn, err := w.Visit(t.Context(), doorPort)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				_, _ = conn.Write([]byte(text))
				if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("%.20q was answered: %d, %v", text, n, err)
				}
			})
		}
		workload, supervisor := both(t.Context(), w, 2*time.Second)
		strangers.Wait()
		if !workload.Parted || !supervisor.Parted {
			t.Errorf("%+v\n%+v", workload, supervisor)
		}
	})
}

// TestAStopEndsIt soon, wherever it is, and there is a report.
func TestAStopEndsIt(t *testing.T) {
	for _, at := range []time.Duration{0, time.Millisecond, time.Second, 2 * time.Second, 45 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := canarytest.Sound()
			w.Shut = canarytest.Open
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			workload, supervisor := both(ctx, w, 0)
			if passed := time.Since(w.Began); passed > at+time.Second {
				t.Errorf("stopped at %s, it ended after %s", at, passed)
			}
			if _, err := workload.Encode(); err != nil || supervisor.End == canary.EndBroken || workload.End == canary.EndBroken {
				t.Errorf("%v %+v %+v", err, workload, supervisor)
			}
		})
	}
}

// TestWhatCannotWorkIsSaid in the report.
func TestWhatCannotWorkIsSaid(t *testing.T) {
	network := canarytest.Sound().Workload()
	network.Listen = func(context.Context, uint16) (net.Listener, error) { return nil, errors.New("the port is taken") }
	if r := canary.Run(t.Context(), plan(canary.Workload), network); r.End != canary.EndBroken || !strings.Contains(r.Trouble, "the port is taken") {
		t.Errorf("%+v", r)
	}
	network.LookupEnv = func(string) (string, bool) { return "", false }
	if r := canary.Run(t.Context(), plan(canary.Workload), network); r.End != canary.EndBroken || !strings.Contains(r.Trouble, "KUBERNETES_SERVICE_HOST") {
		t.Errorf("%+v", r)
	}
	if r := canary.Run(t.Context(), &canary.Plan{}, network); r.End != canary.EndBroken || !strings.Contains(r.Trouble, "probe is") {
		t.Errorf("%+v", r)
	}
}
